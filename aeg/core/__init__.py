"""What all stages share: records, keys, text, the operator, seeds, the tie rule."""

"""From scores to ranked atoms and documents; baselines without a graph."""

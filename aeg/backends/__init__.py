"""What talks to models and devices: encoders, nearest-neighbour search, language models."""

"""Showing runs and sweeps in a tracker (Weights & Biases) beside their folders, which need none."""

"""Slurm: job scripts filled from templates, snapshots of the code, signals, and what became of the jobs."""

"""`python -m experiments.bench`: speeds as ratios against named peers, in the same run."""

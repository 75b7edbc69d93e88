"""The paper's theorems (Appendix C) as experiments: `python -m experiments.theory`."""

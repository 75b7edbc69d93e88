"""The programs that a researcher runs."""

"""One experiment, end to end: evaluation, table, plot, results and manifest in a run folder."""

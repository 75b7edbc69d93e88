"""Experiment configs: typed, merged from YAML and the command line, checked."""

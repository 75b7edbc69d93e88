"""Comparing runs: systems by data sets, with what chance could have done."""

from aeg.experiment.compare.comparison import compare
from aeg.experiment.compare.rows import MACRO, Comparison, Row, TypeRow, Versus

__all__ = ["MACRO", "Comparison", "Row", "TypeRow", "Versus", "compare"]

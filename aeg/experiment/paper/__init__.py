"""The paper's tables beside ours: what a config of `configs/paper/` expects, and what its sweep gave."""

from aeg.experiment.paper.compare import Against, Cell, Comparison, PaperRow, Tau, comparisons, load_sweep
from aeg.experiment.paper.expected import PaperTable, expected, paper_configs
from aeg.experiment.paper.text import as_record, lines, markdown

__all__ = [
    "Against",
    "Cell",
    "Comparison",
    "PaperRow",
    "PaperTable",
    "Tau",
    "as_record",
    "comparisons",
    "expected",
    "lines",
    "load_sweep",
    "markdown",
    "paper_configs",
]

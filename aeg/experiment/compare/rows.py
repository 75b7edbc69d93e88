"""What a comparison consists of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aeg.experiment.compare.changes import Change

MACRO = "macro"


@dataclass(frozen=True)
class Versus:
    """A system against the baseline: the mean of its paired differences (system - baseline).

    Attributes:
        value, low, high: the mean difference with its 95 % paired bootstrap interval.
        n: questions with a value in both; excluded: questions without.
        p: two-sided, of the randomisation test.
        corrected: p by Holm over all pairs of the comparison.
        detectable: the smallest difference that this many questions find with 80 % power at 5 %, before correction.
        wins, ties, losses: questions.
    """

    value: float
    low: float
    high: float
    n: int
    excluded: int
    p: float
    corrected: float
    detectable: float
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True)
class Row:
    """One system on one data set (or `macro`, the unweighted mean over data sets) by one metric.

    Attributes:
        value, low, high: mean with its 95 % bootstrap interval.
        n: questions with a value.
        versus: against the baseline; None for itself, and where the two share no question.
    """

    metric: str
    dataset: str
    system: str
    value: float
    low: float
    high: float
    n: int
    versus: Versus | None


@dataclass(frozen=True)
class TypeRow:
    """Wins, ties and losses against the baseline over the questions of one type."""

    metric: str
    dataset: str
    system: str
    type: str
    n: int
    difference: float
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    Attributes:
        baseline: the system that others are compared with.
        metrics, datasets, systems: what is compared; `macro` is among the data sets where there are several.
        rows: by metric, data set and system.
        types: by metric, data set, system and question type.
        changes: the questions that changed most, by the first metric.
        axes: values of the sweep's axes behind each system.
        pairs: number of p values that are corrected together.
        resamples, flips: of the bootstrap and of the randomisation test.
        notes: what a person should know.
    """

    baseline: str
    metrics: tuple[str, ...]
    datasets: tuple[str, ...]
    systems: tuple[str, ...]
    rows: tuple[Row, ...]
    types: tuple[TypeRow, ...]
    changes: tuple[Change, ...]
    axes: Mapping[str, Mapping[str, Any]]
    pairs: int
    resamples: int
    flips: int
    notes: tuple[str, ...]

    @property
    def averaged(self) -> bool:
        """Whether there is a mean over data sets: of a metric that several of them measured."""
        return any(row.dataset == MACRO for row in self.rows)

    def row(self, metric: str, dataset: str, system: str) -> Row | None:
        """Return one row; None where the system was not measured."""
        key = (metric, dataset, system)
        return next((row for row in self.rows if (row.metric, row.dataset, row.system) == key), None)

    def plain(self) -> dict[str, Any]:
        """Return it as plain values for JSON, NaN as null."""
        found: dict[str, Any] = _without_nan(dataclasses.asdict(self))
        return found


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(of) for of in value]
    return None if isinstance(value, float) and math.isnan(value) else value

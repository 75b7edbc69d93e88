"""One finding: what a theorem predicts, what was measured, and whether the two agree."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aeg.evaluation.bootstrap import Interval, bootstrap_mean

HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"


@dataclass(frozen=True)
class Finding:
    """A claim beside its measurement.

    Attributes:
        world: the graph or corpus that was measured.
        claim: what the theorem predicts, in words.
        value, low, high: the measured quantity with its 95 % interval; NaN ends where it is exact.
        unit: of the quantity, put behind the numbers.
        n: what the interval is taken over (questions, graphs, trials).
        verdict: `holds`, `fails` or `undecided`.
        note: what a reader needs to judge it.
    """

    world: str
    claim: str
    value: float
    low: float
    high: float
    n: int
    verdict: str
    unit: str = ""
    note: str = ""

    def text(self) -> str:
        """Return the finding as two or three lines.

        Example:
            >>> print(Finding("w", "a > b", 0.5, 0.25, 0.75, 9, "holds", note="all nine").text())
            holds      w: a > b
                       measured 0.500 [0.250, 0.750], n = 9; all nine
        """
        ends = "" if math.isnan(self.low) else f" [{_number(self.low)}, {_number(self.high)}]"
        line = f"measured {_number(self.value)}{ends}{self.unit}, n = {self.n:,}"
        return f"{self.verdict:<10} {self.world}: {self.claim}\n{'':<10} {line}{'; ' + self.note if self.note else ''}"


@dataclass
class Findings:
    """What one theorem's experiment found.

    Attributes:
        title: the theorem, with what it says.
        assumptions: what the measurement takes for granted, and where that departs from the theorem's own terms.
        findings: the claims.
        tables: further numbers, as (title, heads, rows).
    """

    title: str
    assumptions: list[str] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    tables: list[tuple[str, list[str], list[list[Any]]]] = dataclasses.field(default_factory=list)

    def text(self) -> str:
        """Return everything as text."""
        from experiments.bench.output import Table

        parts = [self.title, *(f"  assumed: {line}" for line in self.assumptions)]
        parts += [finding.text() for finding in self.findings]
        return "\n".join(parts) + "".join("\n\n" + Table(*table).text() for table in self.tables) + "\n"

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON values (NaN as null)."""
        found = [{key: _plain(value) for key, value in dataclasses.asdict(one).items()} for one in self.findings]
        tables = [
            {"title": title, "rows": [dict(zip(heads, map(_plain, row), strict=True)) for row in rows]}
            for title, heads, rows in self.tables
        ]
        return {"title": self.title, "assumptions": self.assumptions, "findings": found, "tables": tables}


def judged(interval: Interval, sign: int = 1) -> str:
    """Return the verdict on "the mean has this sign": undecided where the interval includes 0.

    Example:
        >>> judged(Interval(0.5, 0.2, 0.8, 10, 0)), judged(Interval(0.5, -0.2, 0.8, 10, 0))
        ('holds', 'undecided')
        >>> judged(Interval(0.5, 0.2, 0.8, 10, 0), sign=-1)
        'fails'
    """
    low, high = (interval.low, interval.high) if sign > 0 else (-interval.high, -interval.low)
    return HOLDS if low > 0 else FAILS if high < 0 else UNDECIDED


def signed(world: str, claim: str, values: npt.ArrayLike, sign: int = 1, unit: str = "", note: str = "") -> Finding:
    """Return the finding on "the mean of these values has this sign", with its bootstrap interval."""
    found = bootstrap_mean(values)
    return Finding(world, claim, found.value, found.low, found.high, found.n, judged(found, sign), unit, note)


def exact(world: str, claim: str, value: float, n: int, holds: bool, note: str = "") -> Finding:
    """Return a finding without chance: a largest deviation, a count of violations."""
    return Finding(world, claim, value, math.nan, math.nan, n, HOLDS if holds else FAILS, note=note)


def mean_ci(values: npt.ArrayLike) -> str:
    """Return a mean with its interval as text.

    Example:
        >>> mean_ci([1.0, 1.0, 1.0])
        '1.000 [1.000, 1.000]'
    """
    found = bootstrap_mean(values)
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _number(value: float) -> str:
    return f"{value:.1e}" if value and abs(value) < 5e-4 else f"{value:,.3f}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value

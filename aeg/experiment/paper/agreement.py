"""How far our results agree with the paper's: the sign of a difference, and the order of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aeg.evaluation.bootstrap import Interval, bootstrap_difference, bootstrap_mean
from aeg.experiment.paper.values import Sample

FloatArray = npt.NDArray[np.float64]
HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"
_RESAMPLES = 1000


@dataclass(frozen=True)
class Against:
    """A row against the reference row.

    Attributes:
        paper: the paper's difference row − reference.
        ours: ours, in the units of our metric (percent of it), with its paired 95 % interval `low`, `high`.
        n: questions that both have.
        verdict: `holds`, `fails` or `undecided`.
    """

    paper: float
    ours: float
    low: float
    high: float
    n: int
    verdict: str


@dataclass(frozen=True)
class Tau:
    """Kendall's τ-b of our ranking of the rows with the paper's, with a 95 % interval over questions."""

    value: float
    low: float
    high: float
    rows: int
    verdict: str


def interval(sample: Sample) -> Interval:
    """Return the mean of a sample with its bootstrap interval, its strata weighed alike."""
    return bootstrap_mean(sample.values, _strata(sample))


def against(
    paper: float | None, paper_reference: float | None, sample: Sample | None, reference: Sample | None
) -> Against | None:
    """Return a row against the reference row; None where one of the four is missing, or is one number only."""
    if paper is None or paper_reference is None or not sample or not reference:
        return None
    if sample.number is not None or reference.number is not None:
        return None
    first, second = shared([sample, reference])
    found = bootstrap_difference(first.values, second.values, _strata(first))
    difference = paper - paper_reference
    verdict = sign_verdict(found.low, found.high, difference)
    return Against(difference, 100 * found.value, 100 * found.low, 100 * found.high, found.n, verdict)


def sign_verdict(low: float, high: float, paper: float) -> str:
    """Return whether an interval's sign is the paper's.

    Example:
        >>> sign_verdict(0.1, 0.3, paper=2.0), sign_verdict(0.1, 0.3, paper=-2.0), sign_verdict(-0.1, 0.3, paper=2.0)
        ('holds', 'fails', 'undecided')
    """
    if low <= 0 <= high or abs(paper) < 1e-9:
        return UNDECIDED
    return HOLDS if (low > 0) == (paper > 0) else FAILS


def rank_agreement(rows: Sequence[tuple[float, Sample]], resamples: int = _RESAMPLES, seed: int = 0) -> Tau | None:
    """Return Kendall's τ-b between the paper's values and ours, its interval by resampling questions within strata.

    The verdict is that of the interval: `holds` above 0, `fails` below, else `undecided`. Where ours are plain numbers
    the interval is empty and the verdict `undecided`.

    Args:
        rows: the paper's value and our sample, at least three.
        resamples: of the questions.
        seed: of the resampling.
    """
    paper = [value for value, _ in rows]
    if any(sample.number is not None for _, sample in rows):
        value = _tau(paper, [sample.number or 0.0 for _, sample in rows])
        return Tau(value, float("nan"), float("nan"), len(rows), UNDECIDED)
    samples = shared([sample for _, sample in rows])
    if not samples[0].keys:
        return None
    table = np.stack([sample.values for sample in samples])
    weights, groups = _weights(samples[0])
    value = _tau(paper, table @ weights)
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(resamples):
        times = np.zeros(table.shape[1])
        for members in groups:
            times[members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)))
        drawn.append(_tau(paper, table @ (weights * times)))
    low, high = np.percentile(drawn, [2.5, 97.5])
    verdict = HOLDS if low > 0 else FAILS if high < 0 else UNDECIDED
    return Tau(value, float(low), float(high), len(rows), verdict)


def shared(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples cut to the questions that all of them have, in one order."""
    common = set(samples[0].keys).intersection(*(sample.keys for sample in samples[1:]))
    cut = []
    for sample in samples:
        at = sorted((row for row, key in enumerate(sample.keys) if key in common), key=lambda row: sample.keys[row])
        keys, strata = tuple(sample.keys[row] for row in at), tuple(sample.strata[row] for row in at)
        cut.append(Sample(keys, sample.values[at], strata))
    return cut


def _strata(sample: Sample) -> Sequence[tuple[str, ...]] | None:
    return sample.strata if any(sample.strata) else None


def _tau(paper: Sequence[float], ours: npt.ArrayLike) -> float:
    from scipy.stats import kendalltau

    value = float(kendalltau(np.asarray(paper), np.round(np.asarray(ours, dtype=np.float64), 12)).statistic)
    return 0.0 if np.isnan(value) else value


def _weights(sample: Sample) -> tuple[FloatArray, list[npt.NDArray[np.intp]]]:
    """The weight of each question in the mean (strata alike, nested), and the questions of each stratum."""
    strata = list(sample.strata)
    weights = np.ones(len(strata))
    for depth in range(len(strata[0])):
        above: dict[tuple[str, ...], set[str]] = {}
        for label in strata:
            above.setdefault(label[:depth], set()).add(label[depth])
        weights /= np.array([len(above[label[:depth]]) for label in strata])
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, label in enumerate(strata):
        groups.setdefault(label, []).append(row)
    sizes = np.array([len(groups[label]) for label in strata])
    return weights / sizes, [np.array(rows) for rows in groups.values()]

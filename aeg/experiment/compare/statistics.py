"""The statistics of paired comparisons: randomisation test, Holm's correction, smallest detectable difference."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from aeg.errors import DataError

FloatArray = npt.NDArray[np.float64]

LEVEL, POWER = 0.05, 0.8
_CELLS = 1 << 22  # signs held at a time
_EQUAL = 1e-12  # relative; two sums of the same numbers in another order


def randomisation_p(
    differences: Sequence[npt.ArrayLike],
    weights: Sequence[npt.ArrayLike] | None = None,
    flips: int = 10_000,
    seed: int = 0,
) -> list[float]:
    r"""Return for each row of paired differences the two-sided p value of the sign-flip randomisation test.

    If two systems are alike, each question's difference d_q is as likely as -d_q. With T = |Σ w_q d_q| and T* the
    same under random signs: p = (#{T* ≥ T} + 1) / (flips + 1), so that at most a share a of true null hypotheses
    has p ≤ a. Rows of equal length share their signs.

    Args:
        differences: float [questions] each; NaN where a question has no value in one of the two.
        weights: of the questions in the mean, like `differences`; equal ones by default.
        flips: number of random sign vectors.
        seed: of the signs.

    Returns:
        p in (0, 1]; 1 for a row without any difference, NaN for a row without any value.

    Raises:
        DataError: if a value is infinite, or lengths differ.

    Source: Fisher 1935; for retrieval Smucker, Allan & Carterette 2007.

    Example:
        >>> [round(p, 2) for p in randomisation_p([[0.1, 0.2, 0.1, 0.3, 0.2, 0.1, 0.2, 0.3], [0.0] * 8])]
        [0.01, 1.0]
    """
    rows = [np.asarray(row, dtype=np.float64) for row in differences]
    shares = [np.ones(len(row)) for row in rows] if weights is None else [np.asarray(w, dtype=float) for w in weights]
    alike: dict[int, list[int]] = {}
    for at, (row, share) in enumerate(zip(rows, shares, strict=True)):
        if row.shape != share.shape or row.ndim != 1 or np.isinf(row).any():
            raise DataError(f"differences: got shape {list(row.shape)} and weights {list(share.shape)}, finite or NaN")
        alike.setdefault(len(row), []).append(at)
    found = [np.nan] * len(rows)
    for length, members in alike.items():
        table = np.stack([np.nan_to_num(rows[at] * shares[at]) for at in members])
        reached = _reached(table, length, flips, seed)
        for at, count in zip(members, reached, strict=True):
            if not np.isnan(rows[at]).all():
                found[at] = (count + 1) / (flips + 1)
    return found


def _reached(table: FloatArray, length: int, flips: int, seed: int) -> list[int]:
    """How often random signs give at least the observed sum, for each row."""
    rng = np.random.default_rng(seed)
    observed = np.abs(table.sum(axis=1)) * (1 - _EQUAL)
    counts = np.zeros(len(table), dtype=np.int64)
    step = max(1, _CELLS // max(length, 1))
    for start in range(0, flips, step):
        signs = 2.0 * rng.integers(2, size=(min(step, flips - start), length), dtype=np.int8) - 1.0
        counts += (np.abs(signs @ table.T) >= observed).sum(axis=0)
    return counts.tolist()


def holm(p_values: Sequence[float]) -> list[float]:
    r"""Return p values corrected for all that are tested together: the family-wise error rate is kept.

    With m values in ascending order: p'_(i) = max over j ≤ i of min(1, (m − j + 1) p_(j)). NaN stays and does not
    count.

    Source: Holm 1979.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = sorted((p, at) for at, p in enumerate(p_values) if not np.isnan(p))
    found, largest = [float("nan")] * len(p_values), 0.0
    for rank, (p, at) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        found[at] = largest
    return found


def detectable(differences: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    r"""Return the smallest true mean difference that a test of this many questions finds with 80 % power.

    (z_{0.975} + z_{0.8}) · s, with s the standard error of the (weighted) mean: √(Σ w_q² (d_q − d̄)² · n/(n−1)),
    Σ w_q = 1. Two-sided at the 5 % level, before correction.

    Args:
        differences: float [questions], NaN left out.
        weights: of the questions in the mean; equal ones by default.

    Returns:
        In the units of the differences; NaN for fewer than two values.

    Source: normal approximation, as in Sakai 2018, ch. 5.

    Example:
        >>> round(detectable([0.0, 1.0, 0.0, 1.0] * 25), 3)
        0.141
    """
    d = np.asarray(differences, dtype=np.float64)
    w = np.ones(len(d)) if weights is None else np.asarray(weights, dtype=np.float64)
    d, w = d[~np.isnan(d)], w[~np.isnan(d)]
    if len(d) < 2:
        return float("nan")
    w = w / w.sum()
    error = np.sqrt((w**2 * (d - (w * d).sum()) ** 2).sum() * len(d) / (len(d) - 1))
    normal = NormalDist()
    return float((normal.inv_cdf(1 - LEVEL / 2) + normal.inv_cdf(POWER)) * error)

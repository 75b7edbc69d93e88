"""Percentile bootstrap intervals of means over queries, plain and stratified, and of paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from aeg.errors import DataError

FloatArray = npt.NDArray[np.float64]
Strata = Sequence[str] | Sequence[tuple[str, ...]]

_CELLS = 1 << 22  # random numbers held at a time


@dataclass(frozen=True)
class Interval:
    """A mean with its bootstrap interval.

    Attributes:
        value: the mean; NaN where no query has a value.
        low, high: the interval's ends.
        n: queries with a value.
        excluded: queries without (NaN).
        p_value: for a difference only, the two-sided share of resampled means on the other side of 0,
            2·(min(#{≤ 0}, #{≥ 0}) + 1) / (resamples + 1), at most 1.
    """

    value: float
    low: float
    high: float
    n: int
    excluded: int
    p_value: float | None = None


def bootstrap_mean(
    values: npt.ArrayLike,
    strata: Strata | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    r"""Return the mean over queries with its percentile bootstrap interval.

    Without strata, queries are drawn with replacement. With strata, they are drawn within each stratum, and the
    mean is the unweighted mean over strata of their means; with nested labels (type, part), the unweighted mean
    over types of the unweighted means over their parts. A stratum in which no query has a value is left out.

    Args:
        values: one value per query; NaN where a query has none (excluded and counted).
        strata: for each query a label, or a tuple of nested labels, outermost first, equally long for all.
        resamples: number of resamples.
        seed: of the random numbers; the same seed gives the same draws for the same numbers of queries.
        level: confidence level in (0, 1).

    Raises:
        DataError: if the lengths differ, a value is infinite, or a number is out of its range.

    Source: Efron & Tibshirani 1993, ch. 13 (percentile interval) and 8.3 (several samples).

    Example:
        >>> bootstrap_mean([1.0, 0.0, 1.0, float("nan")], resamples=1000)
        Interval(value=0.666..., low=0.0, high=1.0, n=3, excluded=1, p_value=None)
        >>> bootstrap_mean([1.0, 1.0, 1.0, 0.0], strata=["a", "a", "a", "b"], resamples=1000).value
        0.5
    """
    (interval,) = bootstrap_means([values], strata, resamples, seed, level)
    return interval


def bootstrap_means(
    rows: Sequence[npt.ArrayLike],
    strata: Strata | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> list[Interval]:
    """Return `bootstrap_mean` of each row of values; rows that lack the same queries share their draws.

    Example:
        >>> [interval.value for interval in bootstrap_means([[0.0, 1.0], [0.5, 0.5]], resamples=100)]
        [0.5, 0.5]
    """
    return [interval for interval, _ in _intervals(rows, strata, resamples, seed, level)]


def bootstrap_difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    strata: Strata | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Return the mean of the paired differences first - second with its interval and p value.

    Queries without a value in either are excluded. Arguments as of `bootstrap_mean`.

    Example:
        >>> difference = bootstrap_difference([1.0, 1.0, 0.9], [0.0, 0.5, 0.4], resamples=999)
        >>> round(difference.value, 3), difference.low > 0, difference.p_value
        (0.667, True, 0.002)
    """
    (interval,) = bootstrap_differences([first], [second], strata, resamples, seed, level)
    return interval


def bootstrap_differences(
    first: Sequence[npt.ArrayLike],
    second: Sequence[npt.ArrayLike],
    strata: Strata | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> list[Interval]:
    """Return `bootstrap_difference` of each pair of rows; rows that lack the same queries share their draws.

    Example:
        >>> [interval.value for interval in bootstrap_differences([[0.5, 1.0]], [[0.5, 0.5]], resamples=100)]
        [0.25]
    """
    pairs = [(_checked(a), _checked(b)) for a, b in zip(first, second, strict=True)]
    for a, b in pairs:
        if a.shape != b.shape:
            raise DataError(f"paired difference: got {len(a)} and {len(b)} values; expected the same queries")
    found = []
    for interval, means in _intervals([a - b for a, b in pairs], strata, resamples, seed, level):
        smaller = min(int((means <= 0).sum()), int((means >= 0).sum()))
        p_value = min(1.0, 2 * (smaller + 1) / (resamples + 1)) if interval.n else None
        found.append(replace(interval, p_value=p_value))
    return found


def _intervals(
    rows: Sequence[npt.ArrayLike], strata: Strata | None, resamples: int, seed: int, level: float
) -> list[tuple[Interval, FloatArray]]:
    """Return for each row its interval and the means of its resamples."""
    if resamples < 1 or not 0 < level < 1:
        raise DataError(f"got {resamples} resamples at level {level}; expected at least 1, at a level in (0, 1)")
    arrays = [_checked(values) for values in rows]
    alike: dict[bytes, list[int]] = {}
    for row, array in enumerate(arrays):
        alike.setdefault(np.isnan(array).tobytes(), []).append(row)
    found: dict[int, tuple[Interval, FloatArray]] = {}
    tail = 100 * (1 - level) / 2
    for members in alike.values():
        table = np.stack([arrays[row] for row in members])
        cells = _cells(~np.isnan(table[0]), strata)
        values, means = _resample(table, cells, resamples, seed)
        low, high = np.percentile(means, [tail, 100 - tail], axis=0)
        n = sum(len(cell) for cell, _ in cells)
        for i, row in enumerate(members):
            numbers = float(values[i]), float(low[i]), float(high[i])
            found[row] = Interval(*numbers, n=n, excluded=table.shape[1] - n), means[:, i]
    return [found[row] for row in range(len(arrays))]


def _checked(values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or np.isinf(array).any():
        raise DataError(f"values: got shape {list(array.shape)}, expected [queries], finite or NaN")
    return array


def _cells(present: npt.NDArray[np.bool_], strata: Strata | None) -> list[tuple[npt.NDArray[np.intp], float]]:
    """Return (rows of the queries, weight) of each stratum with a value; the weights sum to 1."""
    given = [()] * len(present) if strata is None else strata
    labels = [label if isinstance(label, tuple) else (label,) for label in given]
    if len(labels) != len(present) or len({len(label) for label in labels}) > 1:
        raise DataError(f"got {len(labels)} labels for {len(present)} values; expected one each, equally nested")
    rows: dict[tuple[str, ...], list[int]] = {}
    for row in np.flatnonzero(present).tolist():
        rows.setdefault(labels[row], []).append(row)
    children: dict[tuple[str, ...], set[str]] = {}
    for label in rows:
        for depth, name in enumerate(label):
            children.setdefault(label[:depth], set()).add(name)
    return [
        (np.array(members), math.prod(1 / len(children[label[:depth]]) for depth in range(len(label))))
        for label, members in rows.items()
    ]


def _resample(
    table: FloatArray, cells: list[tuple[npt.NDArray[np.intp], float]], resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return the weighted means of the rows of `table`, [rows], and of each resample, [resamples, rows]."""
    if not cells:
        return np.full(len(table), np.nan), np.full((resamples, len(table)), np.nan)
    rng = np.random.default_rng(seed)
    values = np.zeros(len(table))
    means = np.zeros((resamples, len(table)))
    for queries, weight in cells:
        n = len(queries)
        sample = table[:, queries]
        values += weight * sample.mean(axis=1)
        step = max(1, _CELLS // n)
        for start in range(0, resamples, step):
            count = min(step, resamples - start)
            draws = rng.integers(n, size=(count, n), dtype=np.int32)
            draws += (np.arange(count, dtype=np.int32) * n)[:, None]
            times = np.bincount(draws.ravel(), minlength=count * n).reshape(count, n)
            means[start : start + count] += (weight / n) * (times @ sample.T)
    return values, means

"""Averages over queries as rows of a table: all, by question type, over types, and over parts of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aeg.errors import DataError
from aeg.evaluation.bootstrap import Interval, bootstrap_differences, bootstrap_means

ALL = "all"
MACRO = "macro"
UNTYPED = "(no type)"


@dataclass(frozen=True)
class MetricRow:
    """One average with its interval.

    Attributes:
        group: `all` queries, a question type, or `macro`, the unweighted mean over types.
        n: queries with a value; excluded: queries without.
        failed: of the excluded ones, those whose call failed; the others were skipped, having nothing to score.
        p_value: for a row of `compare`, as of `bootstrap_difference`.
    """

    method: str
    metric: str
    value: float
    ci_low: float
    ci_high: float
    n: int
    group: str
    excluded: int = 0
    p_value: float | None = None
    failed: int = 0

    @property
    def skipped(self) -> int:
        """Queries without a value that did not fail."""
        return self.excluded - self.failed


def aggregate(
    method: str,
    values: Mapping[str, npt.ArrayLike],
    types: Sequence[str],
    parts: Sequence[str] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
    failed: Mapping[str, npt.ArrayLike] | None = None,
) -> list[MetricRow]:
    """Return the averages of each metric over all queries, over each question type, and over the types.

    Row `all` is the plain mean over queries. A type's row is the mean over its queries; where there are several
    parts (each of GraphRAG-Bench's novels is a corpus of its own) it is the unweighted mean over parts of the
    means within each. Row `macro` is the unweighted mean of the types' rows, the leaderboard's average. Queries
    are resampled within the parts and types that are averaged. Where no query has a type and there is one part,
    there is only `all`.

    Args:
        method: name put into the rows.
        values: by metric, one value per query, NaN where a query has none.
        types: the question type of each query; the empty string is shown as `(no type)`.
        parts: the part of each query; None for a single part.
        resamples: number of resamples.
        seed: of the random numbers.
        level: confidence level in (0, 1).
        failed: by metric, whether each query failed (a failed query's value is NaN); a metric that is left out has
            no failures. The averages do not depend on it, only their counts.

    Returns:
        Rows by metric in the given order; within a metric `all`, the types by name, `macro`.

    Raises:
        DataError: if the lengths differ, a type is called `all` or `macro`, or a query that failed has a value.

    Example:
        >>> rows = aggregate("ppr", {"recall@5": [1.0, 1.0, 1.0, 0.0]}, ["a", "a", "a", "b"], resamples=100)
        >>> [(row.group, row.value, row.n) for row in rows]
        [('all', 0.75, 4), ('a', 1.0, 3), ('b', 0.0, 1), ('macro', 0.5, 4)]
    """
    table = _table(values, len(types))
    lost = _failures(values, table, failed or {})
    rows: dict[str, list[MetricRow]] = {metric: [] for metric in values}
    for group, members, strata in _groups(types, parts):
        intervals = bootstrap_means(list(table[:, members]), strata, resamples, seed, level)
        counts = lost[:, members].sum(axis=1).tolist()
        for metric, interval, count in zip(values, intervals, counts, strict=True):
            rows[metric].append(_row(method, metric, group, interval, count))
    return [row for metric in values for row in rows[metric]]


def compare(
    first: tuple[str, Mapping[str, npt.ArrayLike]],
    second: tuple[str, Mapping[str, npt.ArrayLike]],
    types: Sequence[str],
    parts: Sequence[str] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> list[MetricRow]:
    """Return rows like `aggregate`'s for the paired difference first - second, with p values.

    Args:
        first: (method, values by metric).
        second: the same, on the same queries; metrics that only one of them has are left out.
        types: the question type of each query.
        parts: the part of each query; None for a single part.
        resamples: number of resamples.
        seed: of the random numbers.
        level: confidence level in (0, 1).

    Example:
        >>> one, two = ("ppr", {"mrr": [1.0, 0.5, 1.0]}), ("katz", {"mrr": [0.5, 0.5, 0.0]})
        >>> (row,) = compare(one, two, ["", "", ""], resamples=100)
        >>> row.method, row.value
        ('ppr - katz', 0.5)
    """
    shared = [metric for metric in first[1] if metric in second[1]]
    left = _table({metric: first[1][metric] for metric in shared}, len(types))
    right = _table({metric: second[1][metric] for metric in shared}, len(types))
    name = f"{first[0]} - {second[0]}"
    rows: dict[str, list[MetricRow]] = {metric: [] for metric in shared}
    for group, members, strata in _groups(types, parts):
        pair = list(left[:, members]), list(right[:, members])
        intervals = bootstrap_differences(*pair, strata, resamples, seed, level)
        for metric, interval in zip(shared, intervals, strict=True):
            rows[metric].append(_row(name, metric, group, interval))
    return [row for metric in shared for row in rows[metric]]


def _table(values: Mapping[str, npt.ArrayLike], queries: int) -> npt.NDArray[np.float64]:
    table = np.zeros((len(values), queries))
    for row, (metric, given) in enumerate(values.items()):
        array = np.asarray(given, dtype=np.float64)
        if array.shape != (queries,):
            raise DataError(f"{metric}: got values of shape {list(array.shape)} for {queries} question types")
        table[row] = array
    return table


def _failures(
    values: Mapping[str, npt.ArrayLike], table: npt.NDArray[np.float64], failed: Mapping[str, npt.ArrayLike]
) -> npt.NDArray[np.bool_]:
    """Return whether each query failed, one row a metric."""
    if unknown := failed.keys() - values.keys():
        raise DataError(f"failed: metric {min(unknown)!r} has no values; got values of {', '.join(values)}")
    lost = np.zeros(table.shape, dtype=bool)
    for row, metric in enumerate(values):
        given = np.asarray(failed.get(metric, lost[row]), dtype=bool)
        if given.shape != lost[row].shape:
            raise DataError(f"{metric}: got failures of shape {list(given.shape)} for {table.shape[1]} queries")
        lost[row] = given
        if (lost[row] & ~np.isnan(table[row])).any():
            raise DataError(f"{metric}: a query that failed has a value; expected NaN")
    return lost


def _groups(
    types: Sequence[str], parts: Sequence[str] | None
) -> list[tuple[str, list[int], list[tuple[str, ...]] | None]]:
    """Return (name, rows of the queries, strata of these rows) of each group of rows that is averaged."""
    if parts is not None and len(parts) != len(types):
        raise DataError(f"got {len(parts)} parts for {len(types)} question types; expected one each a query")
    names = [name or UNTYPED for name in types]
    where = [""] * len(types) if parts is None else list(parts)
    if taken := {ALL, MACRO} & set(names):
        raise DataError(f"question type {min(taken)!r}: this name is taken by an average; rename the type")
    everyone = list(range(len(types)))
    groups: list[tuple[str, list[int], list[tuple[str, ...]] | None]] = [(ALL, everyone, None)]
    if not any(types) and len(set(where)) < 2:
        return groups
    for name in sorted(set(names)):
        members = [row for row in everyone if names[row] == name]
        groups.append((name, members, [(where[row],) for row in members]))
    groups.append((MACRO, everyone, [(names[row], where[row]) for row in everyone]))
    return groups


def _row(method: str, metric: str, group: str, interval: Interval, failed: int = 0) -> MetricRow:
    return MetricRow(
        method=method,
        metric=metric,
        value=interval.value,
        ci_low=interval.low,
        ci_high=interval.high,
        n=interval.n,
        group=group,
        excluded=interval.excluded,
        p_value=interval.p_value,
        failed=failed,
    )

"""Choosing the largest entries of many columns on the CPU without sorting, or transposing, whole columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

_MARGIN = 16
_GROUPS = 4  # groups of rows for each entry wanted
_STRIPE = 64
_COLUMNS = 64  # columns looked at together
_CELLS = 1 << 22  # entries sorted together
_NEAR, _INSIDE = np.float32(1 - 2.0**-9), np.float32(1 - 2.0**-10)  # of a threshold: what is looked at for ties
_LEAST = np.nextafter(np.float32(0), np.float32(1))

_LOW = (1 << 32) - 1


class Prefixes:
    """Beginnings of columns in descending order, each long enough to hold the k best and whatever ties with them.

    A column's prefix is all that is not below a threshold. The threshold is the (k + margin)-th largest of the
    maxima of groups of rows: as many entries at least are as large. Where other entries tie with the threshold it is
    lowered until none does, so that no tie is cut.

    An entry is kept as one integer, row − 2³² · bits of the float: ascending order of integers is descending order of
    positive scores, equal ones by row.
    """

    def __init__(self, k: int, tie: float) -> None:
        """Start without columns; `tie` is the relative distance up to which neighbours tie."""
        self.k, self._tie = k, tie
        self.columns = 0
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, scores: Tensor) -> None:
        """Take in float32 scores [rows, columns]."""
        if not scores.numel():
            self.columns += scores.shape[1]
            return
        for part in scores.split(_COLUMNS, dim=1):
            keys, column = _chosen(np.ascontiguousarray(part.detach().numpy()), self.k, self._tie)
            self._parts.append((keys, column + self.columns))
            self.columns += part.shape[1]

    def take(self) -> tuple[Tensor, Tensor]:
        """Return rows and scores [columns, k] of all columns so far, and start again without any."""
        rows = np.full((self.columns, self.k), -1, dtype=np.int64)
        values = np.zeros((self.columns, self.k), dtype=np.float32)
        empty = np.zeros(0, dtype=np.int64)
        keys = np.concatenate([empty, *(keys for keys, _ in self._parts)])
        column = np.concatenate([empty, *(column for _, column in self._parts)])
        counts = np.bincount(column, minlength=self.columns)
        starts = np.cumsum(counts) - counts
        keys = keys[_by_column(column, self.columns)]
        for some in _alike(counts, self.k):
            found, score = (part[:, : self.k] for part in _ranked(keys, starts[some], counts[some], self._tie))
            rows[some, : found.shape[1]] = np.where(score > 0, found, -1)
            values[some, : found.shape[1]] = score
        self.columns, self._parts = 0, []
        return torch.from_numpy(rows), torch.from_numpy(values)


def _chosen(table: np.ndarray, k: int, tie: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys and columns of the entries in the prefixes of float32 [rows, columns]."""
    maxima = _group_maxima(table, _GROUPS * (k + _MARGIN))
    count = len(maxima)
    if k + _MARGIN >= count:
        return _at_least(table, np.full(table.shape[1], _LEAST))
    ordered = np.sort(np.ascontiguousarray(maxima.T), axis=1)  # faster than numpy's partition of so few
    least, kth = np.maximum(ordered[:, count - k - _MARGIN], _LEAST), ordered[:, count - k]
    keys, column = _at_least(table, least)
    chain = 2 * tie * np.bincount(column, minlength=len(least))  # longest way that ties can go, relative
    unsure = np.flatnonzero((least > _LEAST) & (kth - least <= chain * kth))
    lowered = _closed(table[:, unsure], least[unsure], tie) if len(unsure) else least[unsure]
    if np.array_equal(lowered, least[unsure]):
        return keys, column
    least[unsure] = lowered
    return _at_least(table, least)


def _group_maxima(table: np.ndarray, groups: int) -> np.ndarray:
    """Return the largest entry of each of about so many groups of rows, [groups, columns]."""
    rows, columns = table.shape
    size = rows // max(groups, 1)
    if size < 2:
        return table
    count = rows // size
    maxima = table[: count * size].reshape(size, count, columns).max(axis=0)
    return np.concatenate([maxima, table[count * size :]])


def _at_least(table: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = table.shape
    whole = rows // _STRIPE * _STRIPE  # numpy compares long rows faster than short ones
    kept = np.empty(table.shape, dtype=bool)
    stripes = (-1, _STRIPE * columns)
    np.greater_equal(table[:whole].reshape(stripes), np.tile(least, _STRIPE), out=kept[:whole].reshape(stripes))
    np.greater_equal(table[whole:], least, out=kept[whole:])
    flat = np.flatnonzero(kept)
    row, column = np.divmod(flat, columns)
    return row - (table.ravel()[flat].view(np.int32).astype(np.int64) << 32), column


def _closed(table: np.ndarray, least: np.ndarray, tie: float) -> np.ndarray:
    """Return the threshold of each column lowered along the chain of entries that tie with it."""
    while True:
        row, column = ((table < least) & (table >= least * _NEAR) & (table > 0)).nonzero()
        near, lowered = table[row, column], least.copy()
        while True:
            limit = lowered[column]
            tied = (near < limit) & (limit - near <= tie * limit)
            if not tied.any():
                break
            np.minimum.at(lowered, column[tied], near[tied])
        if (lowered >= least * _INSIDE).all():
            return lowered
        least = lowered  # a chain that leaves what was looked at goes on


def _by_column(column: np.ndarray, columns: int) -> np.ndarray:
    return np.argsort(column.astype(np.uint16) if columns < 1 << 16 else column, kind="stable")  # 16 bits: by digits


def _alike(counts: np.ndarray, k: int) -> Iterator[np.ndarray]:
    """Yield columns in groups whose entries fit a table: ordinary ones together, crowded ones fewer at a time."""
    usual = _GROUPS * (k + _MARGIN)
    for some in (np.flatnonzero(counts <= usual), np.flatnonzero(counts > usual)):
        widest = int(counts[some].max(initial=1))
        step = max(1, _CELLS // widest)
        for start in range(0, len(some), step):
            yield some[start : start + step]


def _ranked(keys: np.ndarray, starts: np.ndarray, counts: np.ndarray, tie: float) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and scores of some columns, [columns, longest prefix], in order; 0 and 0 where one is shorter."""
    place = np.arange(counts.max(initial=0))
    there = place < counts[:, None]
    table = np.zeros(there.shape, dtype=np.int64)
    table[there] = keys[(starts[:, None] + place)[there]]
    table.sort(axis=1)
    rows, values = table & _LOW, (-(table >> 32)).astype(np.int32).view(np.float32)
    gap = values[:, :-1] - values[:, 1:]
    tied = (gap <= tie * values[:, :-1]) & (values[:, 1:] > 0)
    mixed = np.flatnonzero((tied & (gap > 0)).any(axis=1))  # equal scores are in row order already
    if len(mixed):
        group = np.zeros((len(mixed), len(place)), dtype=np.int64)
        group[:, 1:] = np.cumsum(~tied[mixed], axis=1)
        order = np.argsort((group << 32) | rows[mixed], axis=1)
        rows[mixed] = np.take_along_axis(rows[mixed], order, axis=1)
        values[mixed] = np.take_along_axis(values[mixed], order, axis=1)
    return rows, values

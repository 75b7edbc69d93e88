"""The compiled loops that gather the seeds of each query from rows that hold those of many."""
# ruff: noqa: ANN001, ANN201, D417
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit

from aeg.core.kernels.loops import LINE, fetch

_BLOCK = 64  # rows that are asked for before they are read


@njit(nogil=True, error_model="numpy", cache=True)
def live_rows(first, stop, source, position, found):
    """Write row + 1 to `found[position[row]]` for the rows of `source` that hold any seed, 0 for the others.

    Args:
        first, stop: the rows.
        source: float32 [rows, queries], its numbers side by side.
        position: int64 [rows], distinct.
        found: int32 [rows].
    """
    bits = source.view(np.int32)
    for row in range(first, stop):
        some = np.int32(0)
        for query in range(bits.shape[1]):
            some |= bits[row, query]
        found[position[row]] = row + 1 if some != 0 else 0


@njit(nogil=True, error_model="numpy", cache=True)
def turned(first, stop, source, rows, out):
    """Write the rows `rows[first:stop]` of `source` to the columns of `out` [queries, rows]."""
    stride, columns = source.strides[0] // source.itemsize, source.shape[1]
    for begin in range(first, stop, _BLOCK):
        end = min(begin + _BLOCK, stop)
        for at in range(begin, end):
            for line in range(0, columns, LINE):
                fetch(source, rows[at] * stride + line)
        for query in range(columns):
            for at in range(begin, end):
                out[query, at] = source[rows[at], query]


@njit(nogil=True, error_model="numpy", cache=True)
def scaled(mass):
    """Scale the seeds of one query to sum 1, in place.

    Args:
        mass: float32 [seeds].

    Returns:
        whether they had no mass, and whether there was a NaN, an infinity or a negative number; the seeds are then 0.
    """
    sums, least = np.zeros(4), np.float32(0)
    whole = len(mass) // 4 * 4
    for at in range(0, whole, 4):
        for lane in range(4):
            sums[lane] += mass[at + lane]
            least = min(least, mass[at + lane])
    for at in range(whole, len(mass)):
        sums[0] += mass[at]
        least = min(least, mass[at])
    total = sums[0] + sums[1] + (sums[2] + sums[3])
    bad = not np.isfinite(total) or least < 0
    zero = bad or total == 0
    factor = np.float32(0.0) if zero else np.float32(1.0 / total)
    for at in range(len(mass)):
        mass[at] = np.float32(0) if zero else max(mass[at], np.float32(0)) * factor
    return zero, bad

"""The compiled loops of the CPU over the rows `first` ≤ r < `stop`; threads share the rows.

`lanes` is a tuple of as many zeros as the tile has columns: a constant of the compiled code. The loops hold no
lock, are compiled for a width and a precision on first use and kept on disk by numba.
"""
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit

from aeg.core.kernels.row import row_sum


@njit(nogil=True, error_model="numpy", cache=True)
def product(first, stop, crow, col, weight, x, out, lanes):
    """Write the rows of W x to `out`."""
    last = len(col) - 1
    for r in range(first, stop):
        row_sum(x, col, weight, crow[r], crow[r + 1], last, out[r], lanes)


@njit(nogil=True, error_model="numpy", cache=True)
def step(first, stop, crow, col, weight, scale, b, x, previous, c, omega, lanes):
    """Write ω (b + c · scale · (W x) − previous) + previous over `previous`."""
    last = len(col) - 1
    total = np.empty(len(lanes), x.dtype)
    for r in range(first, stop):
        row_sum(x, col, weight, crow[r], crow[r + 1], last, total, lanes)
        factor = c * scale[r]
        for t in range(len(lanes)):
            old = previous[r, t]
            previous[r, t] = omega * (b[r, t] + factor * total[t] - old) + old


@njit(nogil=True, error_model="numpy", cache=True)
def check(first, stop, crow, col, weight, scale, measure, b, x, own, previous, c, omega, moved, sums, lanes):
    """As `step`; writes b + c · scale · (W x) to `moved` and adds what `Residual` holds to `sums` [3, lanes].

    `own` are the rows of x that the rows of the matrix stand for.
    """
    last = len(col) - 1
    total = np.empty(len(lanes), x.dtype)
    for r in range(first, stop):
        row_sum(x, col, weight, crow[r], crow[r + 1], last, total, lanes)
        factor = c * scale[r]
        w = measure[r]
        for t in range(len(lanes)):
            new, old = b[r, t] + factor * total[t], previous[r, t]
            moved[r, t] = new
            previous[r, t] = omega * (new - old) + old
            off = np.float64(new) - np.float64(own[r, t])
            sums[0, t] += w * abs(off)
            sums[1, t] += w * off * off
            sums[2, t] += w * max(np.float64(new), 0.0)


@njit(nogil=True, error_model="numpy", cache=True)
def survey(first, stop, source, sums):
    """Add the sum, and note the smallest number, of each column of `source` in `sums` [2, columns]."""
    for r in range(first, stop):
        for t in range(source.shape[1]):
            value = np.float64(source[r, t])
            sums[0, t] += value
            sums[1, t] = min(sums[1, t], value)


@njit(nogil=True, error_model="numpy", cache=True)
def place(first, stop, source, position, factor, out):
    """Write row r of `source` times `factor` [columns] to row `position[r]` of `out`; columns of factor 0 are 0."""
    for r in range(first, stop):
        row = position[r]
        for t in range(source.shape[1]):
            out[row, t] = source[r, t] * factor[t] if factor[t] != 0 else 0.0


@njit(nogil=True, error_model="numpy", cache=True)
def scale_rows(first, stop, x, weights, factor):
    """Write max(x, 0) · weights[row] · factor[column] over `x`."""
    for r in range(first, stop):
        w = weights[r]
        for t in range(x.shape[1]):
            x[r, t] = max(x[r, t], 0) * w * factor[t]


@njit(nogil=True, error_model="numpy", cache=True)
def take(first, stop, x, position, out):
    """Write row `position[r]` of `x` to row r of `out`, the first columns of it."""
    for r in range(first, stop):
        row = position[r]
        for t in range(out.shape[1]):
            out[r, t] = x[row, t]

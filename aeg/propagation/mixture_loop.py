"""The compiled loop that mixes sparse columns for one query."""
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from numba import njit


@njit(nogil=True, error_model="numpy", cache=True)
def mixed(ptr, rows, values, columns, weights, out):
    """Add Σ_i weights[i] · column columns[i] to `out`, column after column, entry after entry.

    Args:
        ptr: int64; column c owns entries `ptr[c]:ptr[c + 1]` of `rows` and `values`.
        rows: int32.
        values: float32.
        columns: int64 [of the query].
        weights: float32, of the same length.
        out: float32 [rows].
    """
    for at in range(len(columns)):
        weight = weights[at]
        for entry in range(ptr[columns[at]], ptr[columns[at] + 1]):
            out[rows[entry]] += weight * values[entry]

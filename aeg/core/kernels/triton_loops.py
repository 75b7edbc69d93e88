"""The Triton programs of the GPU kernel.

Every sum runs over its terms one after the other, whatever the number of columns, so that a column of a wide tile
has the bits that it has alone. Addresses are computed in 64 bits; indices are read as 32.
"""
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["count"])
def rows_of_product(
    rows,
    low,
    high,
    count,
    col,
    weight,
    x,
    columns,
    out,
    factor,
    b,
    previous,
    omega,
    AFFINE: tl.constexpr,
    STEP: tl.constexpr,
    KEEP: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    UNROLL: tl.constexpr,
    NUMBER: tl.constexpr,
):
    """Compute Σ_e weight[e] · x[col[e], :] over low[i] ≤ e < high[i] for some rows, and what is made of it.

    With AFFINE the sum becomes b + factor · sum. With STEP, ω (that − previous) + previous is written over `previous`;
    with KEEP, that itself is written to `out`. A program has ROWS of the `count` listed rows and COLUMNS columns. What
    is not of the type NUMBER, as iterates in float16, is converted when it is read and written.
    """
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    listed, inside = at < count, column < columns
    first = tl.load(low + at, mask=listed, other=0)
    last = tl.load(high + at, mask=listed, other=0)
    total = tl.zeros([ROWS, COLUMNS], NUMBER)
    for begin in range(0, tl.max(last - first, 0), UNROLL):
        for ahead in tl.static_range(UNROLL):
            entry = first + (begin + ahead)
            live = entry < last
            source = tl.load(col + entry, mask=live, other=0).to(tl.int64)
            value = tl.load(weight + entry, mask=live, other=0.0).to(NUMBER)
            place = x + source[:, None] * columns + column[None, :]
            total += value[:, None] * tl.load(place, mask=live[:, None] & inside[None, :], other=0.0).to(NUMBER)
    row = tl.load(rows + at, mask=listed, other=0).to(tl.int64)
    place = row[:, None] * columns + column[None, :]
    mask = listed[:, None] & inside[None, :]
    if AFFINE:
        scale = tl.load(factor + row, mask=listed, other=0.0)
        total = tl.load(b + place, mask=mask, other=0.0) + scale[:, None] * total
    if STEP:
        old = tl.load(previous + place, mask=mask, other=0.0).to(NUMBER)
        new = tl.load(omega) * (total - old) + old
        tl.store(previous + place, new.to(previous.dtype.element_ty), mask=mask)
    if KEEP:
        tl.store(out + place, total, mask=mask)


@triton.jit(do_not_specialize=["count", "span"])
def measures(moved, own, weights, out, count, span, columns, COLUMNS: tl.constexpr, UNROLL: tl.constexpr):
    """Write Σ weights · |moved − own| over `span` rows, for each program, to `out`, float64 [programs, columns]."""
    part = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = column < columns
    first = part * span + tl.arange(0, 1)
    last = tl.minimum(first + span, count)
    total = tl.zeros([1, COLUMNS], tl.float64)
    for begin in range(0, span, UNROLL):
        for ahead in tl.static_range(UNROLL):
            row = first + (begin + ahead)
            live = row < last
            place = row.to(tl.int64)[:, None] * columns + column
            mask = live[:, None] & inside
            new = tl.load(moved + place, mask=mask, other=0.0).to(tl.float64)
            off = new - tl.load(own + place, mask=mask, other=0.0).to(tl.float64)
            total += tl.load(weights + row, mask=live, other=0.0)[:, None] * tl.abs(off)
    tl.store(out + part.to(tl.int64) * columns + column, total, mask=inside)


@triton.jit
def added(parts, out, count, width, COUNT: tl.constexpr):
    """Write Σ_p parts[p, i] to out[i] for parts [count, width], a program for each i."""
    at = tl.program_id(0)
    part = tl.arange(0, COUNT)
    terms = tl.load(parts + part.to(tl.int64) * width + at, mask=part < count, other=0.0)
    tl.store(out + at, tl.sum(terms, 0))

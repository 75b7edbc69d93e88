"""The compiled loops of the CPU over the rows `first` ≤ r < `stop`; threads share the rows.

`lanes` is a tuple of as many zeros as the tile has columns: a constant of the compiled code. The loops hold no
lock, are compiled for a width and a precision on first use and kept on disk by numba, which looks at this file
only to see whether they are still good: whatever they are made of stands here.
"""
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def, call-arg"

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 16  # float32 numbers of a cache line
AHEAD = 8  # rows ahead, where whole rows are moved
FLUSH = 64  # rows whose residuals are added in the tile's precision before they go to a sum in float64
PREFETCH = 16  # entries ahead; a gathered line then arrives from L2 or L3 before it is wanted


def _prefetch(builder: Any, address: Any) -> None:
    """Ask for the cache line at an address, to be read and kept in the second-level cache."""
    int32, byte = ir.IntType(32), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, int32, int32, int32])
    prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
    builder.call(prefetch, [builder.bitcast(address, byte), int32(0), int32(2), int32(1)])


@intrinsic
def row_sum(context, x, col, weight, low, high, last, out, row, lanes):
    """Write Σ_{low ≤ e < high} weight[e] · x[col[e], :] to row `row` of `out`; ask for rows of x that come later.

    `lanes` is a tuple whose length is the number of columns, a constant of the compiled code; the sums are in
    the precision of `x`. The generic loop that a compiler makes of this neither keeps the sums in registers nor
    prefetches, and takes two to three times as long.
    """
    signature = types.void(x, col, weight, types.int64, types.int64, types.int64, out, types.int64, lanes)
    double = x.dtype == types.float64
    number, align = (ir.DoubleType(), 8) if double else (ir.FloatType(), 4)
    vector = ir.VectorType(number, lanes.count)
    int64, int32 = ir.IntType(64), ir.IntType(32)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, col, weight, out = (
            context.make_array(signature.args[at])(context, builder, args[at]).data for at in (0, 1, 2, 6)
        )
        low, high, last, row = args[3], args[4], args[5], args[7]
        rows = builder.bitcast(x, vector.as_pointer())
        total = cgutils.alloca_once(builder, vector)
        builder.store(ir.Constant(vector, None), total)
        splat = ir.Constant(ir.VectorType(int32, lanes.count), None)
        none = ir.Constant(vector, ir.Undefined)
        with cgutils.for_range_slice(builder, low, high, ir.Constant(int64, 1), int64) as (entry, _):
            ahead = builder.add(entry, ir.Constant(int64, PREFETCH))
            ahead = builder.select(builder.icmp_signed("<", ahead, last), ahead, last)
            later = builder.sext(builder.load(builder.gep(col, [ahead])), int64)
            _prefetch(builder, builder.gep(rows, [later]))
            column = builder.sext(builder.load(builder.gep(col, [entry])), int64)
            value = builder.load(builder.gep(rows, [column]), align=align)
            scalar = builder.load(builder.gep(weight, [entry]))
            scalar = builder.fpext(scalar, number) if double else scalar
            factor = builder.shuffle_vector(builder.insert_element(none, scalar, int32(0)), none, splat)
            product = builder.fmul(value, factor, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        place = builder.gep(builder.bitcast(out, vector.as_pointer()), [row])
        builder.store(builder.load(total), place, align=align)
        return context.get_dummy_value()

    return signature, code


@intrinsic
def fetch(context, array, at):
    """Ask for the cache line of element `at` of an array."""
    signature = types.void(array, types.int64)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        _prefetch(builder, builder.gep(data, [args[1]]))
        return context.get_dummy_value()

    return signature, code


@intrinsic
def move_row(context, source, at, out, row, sums, tile, lanes):
    """Write `lanes` numbers of `source`, from its element `at` on, to row `row` of `out`.

    Adds them to `sums[2 tile]` and keeps the minimum in `sums[2 tile + 1]`; `out` is [rows, lanes] and `sums`
    float64 [2 tiles, lanes], both contiguous. A NaN makes its sum NaN and leaves the minimum alone.
    """
    signature = types.void(source, types.int64, out, types.int64, sums, types.int64, lanes)
    single = ir.VectorType(ir.FloatType(), lanes.count)
    double = ir.VectorType(ir.DoubleType(), lanes.count)
    int64 = ir.IntType(64)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, out, sums = (
            context.make_array(signature.args[at])(context, builder, args[at]).data for at in (0, 2, 4)
        )
        place = builder.bitcast(builder.gep(source, [args[1]]), single.as_pointer())
        value = builder.load(place, align=4)
        builder.store(value, builder.gep(builder.bitcast(out, single.as_pointer()), [args[3]]), align=4)
        value = builder.fpext(value, double)
        first = builder.mul(args[5], ir.Constant(int64, 2))
        total = builder.gep(builder.bitcast(sums, double.as_pointer()), [first])
        builder.store(builder.fadd(builder.load(total, align=8), value), total, align=8)
        lowest = builder.gep(total, [ir.Constant(int64, 1)])
        least = builder.load(lowest, align=8)
        smaller = builder.fcmp_ordered("<", value, least)
        builder.store(builder.select(smaller, value, least), lowest, align=8)
        return context.get_dummy_value()

    return signature, code


@intrinsic
def row_sum_one(context, x, col, weight, low, high, out):
    """Write Σ_{low ≤ e < high} weight[e] · x[col[e]] to `out[0]`, for x of one column: eight entries at a time.

    The entries are added in eight sums, so the bits are not those of a wider tile.
    """
    signature = types.void(x, col, weight, types.int64, types.int64, out)
    double = x.dtype == types.float64
    number, size = (ir.DoubleType(), 8) if double else (ir.FloatType(), 4)
    int64, int32, bit = ir.IntType(64), ir.IntType(32), ir.IntType(1)
    many = 8
    numbers, singles = ir.VectorType(number, many), ir.VectorType(ir.FloatType(), many)
    columns, places, mask_type = ir.VectorType(int32, many), ir.VectorType(int64, many), ir.VectorType(bit, many)
    kind = f"v{many}f{8 * size}"

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, col, weight, out = (
            context.make_array(signature.args[at])(context, builder, args[at]).data for at in (0, 1, 2, 5)
        )
        low, high = args[3:5]
        module = builder.module

        def masked_load(name: str, vector: Any, pointer: Any, mask: Any) -> Any:
            function = cgutils.get_or_insert_function(
                module, ir.FunctionType(vector, [pointer.type, int32, mask_type, vector]), f"llvm.masked.load.{name}.p0"
            )
            return builder.call(function, [pointer, int32(4), mask, ir.Constant(vector, None)])

        pointers = ir.VectorType(number.as_pointer(), many)
        gather = cgutils.get_or_insert_function(
            module,
            ir.FunctionType(numbers, [pointers, int32, mask_type, numbers]),
            f"llvm.masked.gather.{kind}.v{many}p0",
        )
        total = cgutils.alloca_once(builder, numbers)
        builder.store(ir.Constant(numbers, None), total)
        steps = ir.Constant(places, list(range(many)))
        splat = ir.Constant(ir.VectorType(int32, many), None)

        def spread(value: Any) -> Any:
            none = ir.Constant(places, ir.Undefined)
            return builder.shuffle_vector(builder.insert_element(none, value, int32(0)), none, splat)

        ends, base = spread(high), spread(builder.ptrtoint(x, int64))
        with cgutils.for_range_slice(builder, low, high, ir.Constant(int64, many), int64) as (entry, _):
            mask = builder.icmp_signed("<", builder.add(spread(entry), steps), ends)
            column = masked_load(
                f"v{many}i32", columns, builder.bitcast(builder.gep(col, [entry]), columns.as_pointer()), mask
            )
            scalar = masked_load(
                f"v{many}f32", singles, builder.bitcast(builder.gep(weight, [entry]), singles.as_pointer()), mask
            )
            factor = builder.fpext(scalar, numbers) if double else scalar
            offset = builder.mul(builder.sext(column, places), ir.Constant(places, [size] * many))
            where = builder.inttoptr(builder.add(base, offset), pointers)
            value = builder.call(gather, [where, int32(size), mask, ir.Constant(numbers, None)])
            product = builder.fmul(value, factor, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        found = builder.load(total)
        parts = [builder.extract_element(found, int32(at)) for at in range(many)]
        while len(parts) > 1:
            parts = [builder.fadd(left, right) for left, right in zip(parts[::2], parts[1::2], strict=True)]
        builder.store(parts[0], out)
        return context.get_dummy_value()

    return signature, code


@njit(nogil=True, error_model="numpy", inline="always")
def total_of(crow, col, weight, r, last, x, total, lanes):
    """Write row r of W x to `total` [lanes]."""
    if len(lanes) > 1:
        row_sum(x, col, weight, crow[r], crow[r + 1], last, total, 0, lanes)
    else:
        row_sum_one(x, col, weight, crow[r], crow[r + 1], total)


@njit(nogil=True, error_model="numpy", cache=True)
def product(first, stop, crow, col, weight, x, out, lanes):
    """Write the rows of W x to `out`."""
    last = len(col) - 1
    total = np.empty(len(lanes), x.dtype)
    for r in range(first, stop):
        total_of(crow, col, weight, r, last, x, total, lanes)
        for t in range(len(lanes)):
            out[r, t] = total[t]


@njit(nogil=True, error_model="numpy", cache=True)
def affine(first, stop, crow, col, weight, scale, b, x, out, c, lanes):
    """Write b + c · scale · (W x) to `out`."""
    last = len(col) - 1
    total = np.empty(len(lanes), x.dtype)
    for r in range(first, stop):
        total_of(crow, col, weight, r, last, x, total, lanes)
        factor = c * scale[r]
        for t in range(len(lanes)):
            out[r, t] = b[r, t] + factor * total[t]


@njit(nogil=True, error_model="numpy", cache=True)
def step(first, stop, crow, col, weight, scale, b, x, previous, c, omega, lanes):
    """Write ω (b + c · scale · (W x) − previous) + previous over `previous`."""
    last = len(col) - 1
    total = np.empty(len(lanes), x.dtype)
    for r in range(first, stop):
        total_of(crow, col, weight, r, last, x, total, lanes)
        factor = c * scale[r]
        for t in range(len(lanes)):
            old = previous[r, t]
            previous[r, t] = omega * (b[r, t] + factor * total[t] - old) + old


@njit(nogil=True, error_model="numpy", cache=True)
def check(first, stop, crow, col, weight, scale, measure, b, x, own, previous, c, omega, moved, sums, lanes):
    """As `step`; writes b + c · scale · (W x) to `moved` and adds Σ measure |moved − x| to `sums` [lanes].

    `own` are the rows of x that the rows of the matrix stand for.
    """
    last = len(col) - 1
    total = np.empty(len(lanes), x.dtype)
    absolute, part = np.zeros(len(lanes)), np.zeros(len(lanes), x.dtype)
    for r in range(first, stop):
        total_of(crow, col, weight, r, last, x, total, lanes)
        factor, w = c * scale[r], x.dtype.type(measure[r])
        for t in range(len(lanes)):
            new, old = b[r, t] + factor * total[t], previous[r, t]
            moved[r, t] = new
            previous[r, t] = omega * (new - old) + old
            part[t] += w * abs(new - own[r, t])
        if (r - first) % FLUSH == FLUSH - 1:
            for t in range(len(lanes)):
                absolute[t] += part[t]
                part[t] = 0
    for t in range(len(lanes)):
        sums[t] += absolute[t] + part[t]


@njit(nogil=True, error_model="numpy", cache=True)
def place(first, stop, source, position, out, sums, lanes):
    """Write row r of `source`, its numbers side by side, to row `position[r]` of `out` [tiles, rows, lanes].

    Adds the sum, and keeps the minimum, of each column in `sums` [tiles, 2, lanes].
    """
    width, columns, rows = len(lanes), source.shape[1], out.shape[1]
    whole, stride = columns // width, source.strides[0] // source.itemsize
    for r in range(first, stop):
        row = position[r]
        later = min(r + AHEAD, stop - 1)
        for line in range(0, columns, LINE):
            fetch(source, later * stride + line)
        for tile in range(out.shape[0]):
            for line in range(0, width, LINE):
                fetch(out, (tile * rows + position[later]) * width + line)
        for tile in range(whole):
            move_row(source, r * stride + tile * width, out, tile * rows + row, sums, tile, lanes)
        for t in range(columns - whole * width):
            value = source[r, whole * width + t]
            out[whole, row, t] = value
            sums[whole, 0, t] += value
            sums[whole, 1, t] = min(sums[whole, 1, t], np.float64(value))


@njit(nogil=True, error_model="numpy", cache=True)
def scale_rows(first, stop, x, weights, factor):
    """Write max(x, 0) · weights[row] · factor[column] over `x`."""
    for r in range(first, stop):
        w = weights[r]
        for t in range(x.shape[1]):
            x[r, t] = max(x[r, t], 0) * w * factor[t]


@njit(nogil=True, error_model="numpy", cache=True)
def mass(first, stop, x, weights, sums, lanes):
    """Add weights[row] · max(x, 0) of each column to `sums` [lanes]."""
    total = np.zeros(len(lanes))
    for r in range(first, stop):
        w = weights[r]
        for t in range(len(lanes)):
            value = np.float64(x[r, t])
            total[t] += w * value if value > 0 else 0.0
    for t in range(len(lanes)):
        sums[t] += total[t]


@njit(nogil=True, error_model="numpy", cache=True)
def take(first, stop, x, position, out):
    """Write row `position[r]` of `x` to row r of `out`, the first columns of it."""
    width = x.shape[1]
    for r in range(first, stop):
        row = position[r]
        for line in range(0, width, LINE):
            fetch(x, position[min(r + AHEAD, stop - 1)] * width + line)
        for t in range(out.shape[1]):
            out[r, t] = x[row, t]


@njit(nogil=True, error_model="numpy", cache=True)
def take_scaled(first, stop, x, position, weights, factor, out):
    """As `take`, of max(x, 0) · weights[row] · factor[column]."""
    width = x.shape[1]
    for r in range(first, stop):
        row = position[r]
        for line in range(0, width, LINE):
            fetch(x, position[min(r + AHEAD, stop - 1)] * width + line)
        w = weights[row]
        for t in range(out.shape[1]):
            out[r, t] = max(x[row, t], 0) * w * factor[t]

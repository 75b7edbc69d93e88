"""The compiled loops of an iteration whose iterates are kept in half precision: half the memory to gather from.

Iterates are float16, passed as the int16 of the same bytes, [rows, lanes]; all else is float32, and so are the sums.
numba looks at this file only to see whether the compiled code is still good: whatever it is made of stands here.
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

PREFETCH = 16  # entries ahead; a gathered line then arrives from L2 or L3 before it is wanted
FLUSH = 64  # rows whose residuals are added in float32 before they go to a sum in float64

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_SINGLE, _HALF = ir.FloatType(), ir.HalfType()


def _pointers(context: Any, builder: Any, signature: Any, args: Any, *places: int) -> list[Any]:
    return [context.make_array(signature.args[at])(context, builder, args[at]).data for at in places]


def _spread(builder: Any, scalar: Any, lanes: int) -> Any:
    """A vector with a number in every lane."""
    none = ir.Constant(ir.VectorType(_SINGLE, lanes), ir.Undefined)
    splat = ir.Constant(ir.VectorType(_INT32, lanes), None)
    return builder.shuffle_vector(builder.insert_element(none, scalar, _INT32(0)), none, splat)


def _row(builder: Any, array: Any, number: Any, lanes: int, row: Any) -> Any:
    """The address of a row of an array as a vector."""
    return builder.gep(builder.bitcast(array, ir.VectorType(number, lanes).as_pointer()), [row])


def _widened(builder: Any, array: Any, lanes: int, row: Any) -> Any:
    """A row of halves in float32."""
    value = builder.load(_row(builder, array, _HALF, lanes, row), align=2)
    return builder.fpext(value, ir.VectorType(_SINGLE, lanes))


@intrinsic
def row_sum(context, x, col, weight, low, high, last, out, lanes):
    """Write Σ_{low ≤ e < high} weight[e] · x[col[e], :] to `out` [lanes]; ask for rows of x that come later."""
    signature = types.void(x, col, weight, types.int64, types.int64, types.int64, out, lanes)
    count = lanes.count

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, col, weight, out = _pointers(context, builder, signature, args, 0, 1, 2, 6)
        low, high, last = args[3:6]
        vector = ir.VectorType(_SINGLE, count)
        total = cgutils.alloca_once(builder, vector)
        builder.store(ir.Constant(vector, None), total)
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT32, _INT32, _INT32])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        with cgutils.for_range_slice(builder, low, high, _INT64(1), _INT64) as (entry, _):
            ahead = builder.add(entry, _INT64(PREFETCH))
            ahead = builder.select(builder.icmp_signed("<", ahead, last), ahead, last)
            later = builder.sext(builder.load(builder.gep(col, [ahead])), _INT64)
            line = builder.bitcast(_row(builder, x, _HALF, count, later), byte)
            builder.call(prefetch, [line, _INT32(0), _INT32(2), _INT32(1)])
            value = _widened(builder, x, count, builder.sext(builder.load(builder.gep(col, [entry])), _INT64))
            factor = _spread(builder, builder.load(builder.gep(weight, [entry])), count)
            product = builder.fmul(value, factor, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        builder.store(builder.load(total), builder.bitcast(out, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, code


@intrinsic
def widen(context, x, row, out, lanes):
    """Write row `row` of the halves `x` to `out`, float32 [lanes]."""
    signature = types.void(x, types.int64, out, lanes)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, out = _pointers(context, builder, signature, args, 0, 2)
        value = _widened(builder, x, lanes.count, args[1])
        builder.store(value, _row(builder, out, _SINGLE, lanes.count, _INT64(0)), align=4)
        return context.get_dummy_value()

    return signature, code


@intrinsic
def narrow(context, values, at, out, row, lanes):
    """Write `lanes` float32 numbers of `values`, from its element `at` on, to row `row` of the halves `out`."""
    signature = types.void(values, types.int64, out, types.int64, lanes)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values, out = _pointers(context, builder, signature, args, 0, 2)
        vector = ir.VectorType(_SINGLE, lanes.count)
        value = builder.load(builder.bitcast(builder.gep(values, [args[1]]), vector.as_pointer()), align=4)
        halves = builder.fptrunc(value, ir.VectorType(_HALF, lanes.count))
        builder.store(halves, _row(builder, out, _HALF, lanes.count, args[3]), align=2)
        return context.get_dummy_value()

    return signature, code


@njit(nogil=True, error_model="numpy", cache=True)
def rounded(first, stop, values, out, lanes):
    """Write rows of `values`, float32 [rows, lanes], to the halves `out`."""
    for r in range(first, stop):
        narrow(values, r * len(lanes), out, r, lanes)


@njit(nogil=True, error_model="numpy", cache=True)
def step(first, stop, crow, col, weight, scale, b, x, previous, c, omega, lanes):
    """Write ω (b + c · scale · (W x) − previous) + previous over `previous`."""
    last = len(col) - 1
    total, old = np.empty(len(lanes), np.float32), np.empty(len(lanes), np.float32)
    for r in range(first, stop):
        row_sum(x, col, weight, crow[r], crow[r + 1], last, total, lanes)
        widen(previous, r, old, lanes)
        factor = c * scale[r]
        for t in range(len(lanes)):
            old[t] = omega * (b[r, t] + factor * total[t] - old[t]) + old[t]
        narrow(old, 0, previous, r, lanes)


@njit(nogil=True, error_model="numpy", cache=True)
def check(first, stop, crow, col, weight, scale, measure, b, x, own, previous, c, omega, moved, sums, lanes):
    """As `step`; writes b + c · scale · (W x) to `moved`, float32, and adds Σ measure |moved − x| to `sums` [lanes].

    `own` are the rows of x that the rows of the matrix stand for.
    """
    last = len(col) - 1
    total, old = np.empty(len(lanes), np.float32), np.empty(len(lanes), np.float32)
    mine = np.empty(len(lanes), np.float32)
    absolute, part = np.zeros(len(lanes)), np.zeros(len(lanes), np.float32)
    for r in range(first, stop):
        row_sum(x, col, weight, crow[r], crow[r + 1], last, total, lanes)
        widen(previous, r, old, lanes)
        widen(own, r, mine, lanes)
        factor, w = c * scale[r], np.float32(measure[r])
        for t in range(len(lanes)):
            new = b[r, t] + factor * total[t]
            moved[r, t] = new
            part[t] += w * abs(new - mine[t])
            old[t] = omega * (new - old[t]) + old[t]
        narrow(old, 0, previous, r, lanes)
        if (r - first) % FLUSH == FLUSH - 1:
            for t in range(len(lanes)):
                absolute[t] += part[t]
                part[t] = 0
    for t in range(len(lanes)):
        sums[t] += absolute[t] + part[t]

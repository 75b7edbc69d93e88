"""The inner loop of the CPU kernel: one row of W times a tile of columns, in vector registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

PREFETCH = 16  # entries ahead; a gathered line then arrives from L2 or L3 before it is wanted


@intrinsic
def row_sum(context, x, col, weight, low, high, last, out, lanes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write Σ_{low ≤ e < high} weight[e] · x[col[e], :] to `out`, and ask for rows of x that come later.

    `lanes` is a tuple whose length is the number of columns, a constant of the compiled code; the sums are in
    the precision of `x`. The generic loop that a compiler makes of this neither keeps the sums in registers nor
    prefetches, and takes two to three times as long.
    """
    signature = types.void(x, col, weight, types.int64, types.int64, types.int64, out, lanes)
    double = x.dtype == types.float64
    number, align = (ir.DoubleType(), 8) if double else (ir.FloatType(), 4)
    vector = ir.VectorType(number, lanes.count)
    int64, int32, byte = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, col, weight, out = (
            context.make_array(signature.args[at])(context, builder, args[at]).data for at in (0, 1, 2, 6)
        )
        low, high, last = args[3:6]
        rows = builder.bitcast(x, vector.as_pointer())
        total = cgutils.alloca_once(builder, vector)
        builder.store(ir.Constant(vector, None), total)
        kind = ir.FunctionType(ir.VoidType(), [byte, int32, int32, int32])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        splat = ir.Constant(ir.VectorType(int32, lanes.count), None)
        none = ir.Constant(vector, ir.Undefined)
        with cgutils.for_range_slice(builder, low, high, ir.Constant(int64, 1), int64) as (entry, _):
            ahead = builder.add(entry, ir.Constant(int64, PREFETCH))
            ahead = builder.select(builder.icmp_signed("<", ahead, last), ahead, last)
            later = builder.sext(builder.load(builder.gep(col, [ahead])), int64)
            address = builder.bitcast(builder.gep(rows, [later]), byte)
            builder.call(prefetch, [address, int32(0), int32(2), int32(1)])
            column = builder.sext(builder.load(builder.gep(col, [entry])), int64)
            value = builder.load(builder.gep(rows, [column]), align=align)
            scalar = builder.load(builder.gep(weight, [entry]))
            scalar = builder.fpext(scalar, number) if double else scalar
            factor = builder.shuffle_vector(builder.insert_element(none, scalar, int32(0)), none, splat)
            product = builder.fmul(value, factor, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        builder.store(builder.load(total), builder.bitcast(out, vector.as_pointer()), align=align)
        return context.get_dummy_value()

    return signature, code

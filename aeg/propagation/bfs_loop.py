"""The compiled loops of weighted breadth-first search: over a tile of many seeds, or over the front of one query.

Numba looks at this file only to see whether what it keeps on disk is still good: all that the loops are made of
stands here, but for `fetch`, which asks for a cache line and changes no result.
"""
# ruff: noqa: ANN001, ANN201, ANN202, C901, D417
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from aeg.core.kernels.loops import LINE, fetch

BLOCK, ROWS = 128, 64  # entries and rows that are asked for before they are read
NOTHING, HERE, BESIDE = 0, 1, 2  # where a row's mass of the last hop stands: nowhere, among the scores, beside them

_MOST = 0x7FFFFFFF


def _row(builder: Any, data: Any, row: Any, vector: Any) -> Any:
    """The address of a row, for any width: LLVM would round up that of a vector which is no power of two."""
    first = builder.mul(row, ir.Constant(ir.IntType(64), vector.count))
    return builder.bitcast(builder.gep(data, [first]), vector.as_pointer())


@intrinsic
def _add_row(context, x, row, share, total, lanes):
    """Add `share` · x[row] to `total`, float32 [lanes]."""
    signature = types.void(x, types.int64, types.float32, total, lanes)
    vector = ir.VectorType(ir.FloatType(), lanes.count)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, total = (context.make_array(signature.args[at])(context, builder, args[at]).data for at in (0, 3))
        value = builder.load(_row(builder, x, args[1], vector), align=4)
        none, splat = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), lanes.count), None)
        factor = builder.shuffle_vector(builder.insert_element(none, args[2], ir.IntType(32)(0)), none, splat)
        place = builder.bitcast(total, vector.as_pointer())
        builder.store(builder.fadd(builder.load(place, align=4), builder.fmul(value, factor)), place, align=4)
        return context.get_dummy_value()

    return signature, code


@intrinsic
def _settle(context, scores, row, total, decay, beside, spare, lanes):
    """Write decay · total for the queries whose score of a row is 0: among the scores where all are, else beside them.

    Returns:
        int64, the sum of 1 where any mass came, 2 where some had a score, and 4 where a query has none still.
    """
    signature = types.int64(scores, types.int64, total, types.float32, beside, spare, lanes)
    vector, bits = ir.VectorType(ir.FloatType(), lanes.count), ir.IntType(lanes.count)
    wide = ir.VectorType(ir.IntType(32), lanes.count)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scores, total, beside, spare = (
            context.make_array(signature.args[at])(context, builder, args[at]).data for at in (0, 2, 4, 5)
        )
        none, splat, zero = ir.Constant(vector, ir.Undefined), ir.Constant(wide, None), ir.Constant(vector, None)

        def mask(value: Any) -> Any:
            return builder.fcmp_ordered(">", value, zero)

        def flag(some: Any, number: int) -> Any:
            return builder.select(some, ir.IntType(64)(number), ir.IntType(64)(0))

        place = _row(builder, scores, args[1], vector)
        old = builder.load(place, align=4)
        reached = mask(old)
        factor = builder.shuffle_vector(builder.insert_element(none, args[3], ir.IntType(32)(0)), none, splat)
        new = builder.fmul(builder.load(builder.bitcast(total, vector.as_pointer()), align=4), factor)
        new = builder.select(reached, zero, new)
        unwanted = builder.icmp_signed("!=", builder.load(builder.bitcast(spare, wide.as_pointer()), align=4), splat)
        done = builder.or_(builder.or_(reached, mask(new)), unwanted)
        had = builder.icmp_unsigned("!=", builder.bitcast(reached, bits), bits(0))
        got = builder.icmp_unsigned("!=", builder.bitcast(mask(new), bits), bits(0))
        some = builder.icmp_unsigned("!=", builder.bitcast(builder.not_(done), bits), bits(0))
        other = _row(builder, beside, args[1], vector)
        builder.store(new, builder.select(had, other, place), align=4)
        return builder.add(builder.add(flag(got, 1), flag(had, 2)), flag(some, 4))

    return signature, code


@njit(nogil=True, error_model="numpy", cache=True)
def plenty(tile, limit):
    """Tell whether each query has more than `limit` seeds in a tile; where seeds are dense, few rows are looked at."""
    counts = np.zeros(tile.shape[1], dtype=np.int64)
    for row in range(len(tile)):
        for query in range(tile.shape[1]):
            counts[query] += tile[row, query] > 0
        if row % BLOCK == 0 and counts.min() > limit:
            return True
    return counts.min() > limit


@njit(nogil=True, error_model="numpy", cache=True)
def few(first, stop, tile, counts):
    """Add to `counts` [queries] how many seeds each query has in the rows of a tile."""
    for row in range(first, stop):
        for query in range(tile.shape[1]):
            counts[query] += tile[row, query] > 0


@njit(nogil=True, error_model="numpy", cache=True)
def picked(first, stop, tile, alone, place, nodes, mass):
    """Take the seeds of the queries that are `alone` out of a tile: to `nodes` and `mass`, from `place[query]` on."""
    for row in range(first, stop):
        for query in range(tile.shape[1]):
            if alone[query] and tile[row, query] > 0:
                nodes[place[query]], mass[place[query]] = row, tile[row, query]
                tile[row, query] = 0
                place[query] += 1


@njit(nogil=True, error_model="numpy", cache=True)
def begun(first, stop, crow, tile, spare, live, left):
    """Note which rows hold seeds, and list those that some query has yet to reach.

    Args:
        crow: of the matrix.
        tile: float32 [nodes, queries].
        spare: int32 [queries], 0 for those that have seeds here, else the largest number.
        live: uint8 [nodes], what is noted.
        left: int32 [nodes], the list, from `first` on.

    Returns:
        how many rows are listed, the entries of those, and the entries of the rows that hold seeds.
    """
    found, kept, out, bits = first, 0, 0, tile.view(np.int32)
    for row in range(first, stop):
        some, least = np.int32(0), np.int32(_MOST)
        for query in range(bits.shape[1]):
            some |= bits[row, query]
            least = min(least, bits[row, query] | spare[query])
        live[row] = HERE if some else NOTHING
        left[found] = row
        size = crow[row + 1] - crow[row]
        more = (least == 0) & (size > 0)
        found += more
        kept += size * more
        out += size * (some != 0)
    return found - first, kept, out


@njit(nogil=True, error_model="numpy", cache=True)
def marked(first, stop, crow, col, live, near, mark):
    """Write `mark` to `near` [nodes] for the neighbours of the rows that hold mass of the last hop."""
    for row in range(first, stop):
        if live[row] != NOTHING:
            for entry in range(crow[row], crow[row + 1]):
                near[col[entry]] = mark


@njit(nogil=True, error_model="numpy", cache=True)
def _collect(place, stop, left, crow, col, part, live, near, mark, scores, nodes, shares, ends):
    """Gather the entries of the next rows that hold mass, and ask for what they will read; return the rows' number."""
    count, rows, width = 0, 0, scores.shape[1]
    while place + rows < stop and rows < ROWS and count < BLOCK:
        row, before = left[place + rows], count
        if near[row] == mark:
            for entry in range(crow[row], crow[row + 1]):
                node = col[entry]
                nodes[count], shares[count] = node, part[entry]
                count += live[node] != NOTHING
            for at in range(before, count):
                for line in range(0, width, LINE):
                    fetch(scores, nodes[at] * width + line)
            if count > before:
                for line in range(0, width, LINE):
                    fetch(scores, row * width + line)
        rows += 1
        ends[rows] = count
    return rows


@njit(nogil=True, error_model="numpy", cache=True)
def hop(
    first, count, left, crow, col, part, longest, decay, spare, scores, front, beside, live, now, near, mark, lanes
):
    """Move the mass of the last hop one step on, to nodes that were not reached before.

    A row that no query had reached gets its mass among the scores; one that some had keeps the scores that others
    read, and gets it beside them, until `folded` adds it.

    Args:
        first, count, left: `count` rows to look at, in `left` from `first` on; those that every query has reached in
            the end are taken out.
        crow, col: the matrix.
        part: float32 [entries], weight / degree of the column.
        longest: entries of a row at most.
        decay: float32.
        spare: int32 [queries], see `begun`.
        scores, front, beside: float32 [nodes, queries]: Σ x so far; mass of the last hop where `live` says `BESIDE`;
            room for the mass of this one.
        live, now: uint8 [nodes], where the mass of the last hop stands, and of this one, all `NOTHING` yet.
        near, mark: uint8 [nodes], and what stands there for the rows that mass may come to.
        lanes: a tuple of as many zeros as there are queries, a constant of the compiled code.

    Returns:
        how many rows are left, the entries of those, and the entries of the rows that got mass.
    """
    total, ends = np.empty(len(lanes), dtype=np.float32), np.zeros(ROWS + 1, dtype=np.int64)
    nodes, shares = np.empty(BLOCK + longest + 1, dtype=np.int32), np.empty(BLOCK + longest + 1, dtype=np.float32)
    place, found, kept, out = first, first, 0, 0
    while place < first + count:
        rows = _collect(place, first + count, left, crow, col, part, live, near, mark, scores, nodes, shares, ends)
        for at in range(rows):
            row, got, more = left[place + at], 0, 1
            size = crow[row + 1] - crow[row]
            if ends[at + 1] > ends[at]:
                total[:] = 0
                for entry in range(ends[at], ends[at + 1]):
                    node, share = nodes[entry], shares[entry]
                    if live[node] == HERE:
                        _add_row(scores, node, share, total, lanes)
                    else:
                        _add_row(front, node, share, total, lanes)
                said = _settle(scores, row, total, decay, beside, spare, lanes)
                got, more = said & 1, (said & 4) >> 2
                if got:
                    now[row] = BESIDE if said & 2 else HERE
            left[found] = row
            found += more
            kept += size * more
            out += size * got
        place += rows
    return found - first, kept, out


@njit(nogil=True, error_model="numpy", cache=True)
def folded(first, stop, scores, beside, live):
    """Add the mass that stands beside the scores to them."""
    for row in range(first, stop):
        if live[row] == BESIDE:
            for query in range(scores.shape[1]):
                scores[row, query] += beside[row, query]


@njit(nogil=True, error_model="numpy", cache=True)
def spread(crow, col, weight, degree, nodes, mass, hops, decay, value, seen, reached, to, out, query):
    """Weighted search from the seeds of one query; only what is reached costs anything.

    Args:
        crow, col, weight, degree: the matrix; `degree` float64.
        nodes, mass: the seeds, distinct nodes.
        hops: at most so many; it ends where nothing new is reached.
        decay: mass kept a hop.
        value, seen: float64, uint8 [nodes], zero, and so again in the end.
        reached: int32 [nodes], room.
        to: int32 [nodes], the row of `out` that a node's score is written to, where there is one.
        out, query: float32 [rows, queries], and the column.
    """
    count = len(nodes)
    for place in range(count):
        node = nodes[place]
        value[node], seen[node], reached[place] = mass[place], HERE, node
    first = 0
    for _ in range(hops):
        stop = count
        for place in range(first, stop):
            node = reached[place]
            share = decay * value[node] / degree[node]
            for entry in range(crow[node], crow[node + 1]):
                other = col[entry]
                if seen[other] == NOTHING:
                    seen[other] = BESIDE
                    value[other] = 0.0
                    reached[count] = other
                    count += 1
                if seen[other] == BESIDE:
                    value[other] += share * weight[entry]
        for place in range(stop, count):
            seen[reached[place]] = HERE
        first = stop
        if first == count:
            break
    for place in range(count):
        node = reached[place]
        row = to[node]
        if row < len(out):
            out[row, query] = value[node]
        seen[node] = NOTHING

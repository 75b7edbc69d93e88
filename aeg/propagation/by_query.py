"""For methods that follow each query by itself: seeds query by query, scores written where the caller wants them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from aeg.core.kernels.threads import ALONE, all_threads, compiled_threads, share, share_rows
from aeg.core.kernels.tiles import PANEL, scaling
from aeg.core.operator import Operator
from aeg.core.seeds import Seeds
from aeg.propagation.base import Info
from aeg.propagation.fitting import fitted
from aeg.propagation.layout import Layout

_PARTS = 8  # of the rows


@dataclass(frozen=True, eq=False)
class Columns:
    """The seeds of some queries, each scaled to sum 1 (eq. 6).

    Attributes:
        seeds: of each query its nodes, int32, rows of the operator that is walked on, ascending, and their mass,
            float32, not negative.
        keys: int64 [queries], or None.
        zero: bool [queries], columns without mass.
        bad: bool [queries], columns with a NaN, an infinity or a negative number; they have no mass.
    """

    seeds: list[tuple[np.ndarray, np.ndarray]]
    keys: Tensor | None
    zero: Tensor
    bad: Tensor


Solve = Callable[[Operator, Columns, np.ndarray, Tensor], int]


def tiles_of(
    layout: Layout, seeds: Tensor | Seeds, width: int, rows: int | None, solve: Solve
) -> Iterator[tuple[int, Tensor, Info]]:
    """Yield (first query, scores [rows, columns], info) tile by tile.

    Args:
        layout: the operator that is walked on, and where its rows are; on the CPU, with compiled loops.
        seeds: [nodes, queries], or `Seeds`.
        width: columns of a tile.
        rows: how many nodes are wanted, the first ones; None for all.
        solve: takes the operator, the seeds of a tile, the node of each row of the operator (int32) and scores, all
            zero; writes the scores of the nodes that they have rows for, and returns the iterations.
    """
    op = layout.op
    count, to = op.num_nodes if rows is None else rows, _nodes(layout)

    def run(first: int, width: int) -> Iterator[tuple[int, Tensor, Info]]:
        tiles = _columns(seeds, first, width, layout.position)
        while True:
            with compiled_threads():
                start, columns = next(tiles, (0, None))
                if columns is None:
                    return
                out = torch.from_numpy(np.zeros((count, len(columns.seeds)), dtype=np.float32))
                iterations = solve(op, columns, to, out)
            info = Info.exact(len(columns.seeds), iterations, op.device)
            info.flags.update(zero_seeds=columns.zero, bad_seeds=columns.bad)
            yield start, out, info

    yield from fitted(run, width, op)


def _columns(
    seeds: Tensor | Seeds, first: int, width: int, position: Tensor | None
) -> Iterator[tuple[int, Columns | None]]:
    """The seeds of each tile, and its first query."""
    many = seeds.num_queries if isinstance(seeds, Seeds) else seeds.shape[1]
    sparse = isinstance(seeds, Seeds) and seeds.dense is None
    panel = width if isinstance(seeds, Seeds) else width * PANEL
    for start in range(first, many, panel):
        stop = min(start + panel, many)
        if isinstance(seeds, Seeds):
            keys = None if seeds.keys is None else seeds.keys[start:stop]
            if sparse:
                yield start, gathered(seeds, start, stop, position)
                continue
            with all_threads():
                part = seeds.tile(start, stop)
        else:
            part, keys = seeds[:, start:stop].to(torch.float32), None
        whole = turned_round(part, position, keys)
        for at in range(start, stop, width):
            some = slice(at - start, min(at - start + width, stop - start))
            yield at, Columns(whole.seeds[some], keys, whole.zero[some], whole.bad[some])


def turned_round(part: Tensor, position: Tensor | None, keys: Tensor | None) -> Columns:
    """Return the seeds of each column of `part` [nodes, queries], whose rows lie far apart.

    Example:
        >>> columns = turned_round(torch.tensor([[0.0, 2.0], [0.0, 0.0], [3.0, 2.0]]), None, None)
        >>> [(nodes.tolist(), mass.tolist()) for nodes, mass in columns.seeds]
        [([0, 2], [0.0, 1.0]), ([0, 2], [0.5, 0.5])]
    """
    from aeg.propagation.seed_loop import live_rows, scaled, turned

    part = part if part.stride(1) == 1 else part.contiguous()
    source, queries = part.numpy(), part.shape[1]
    place = (torch.arange(len(part)) if position is None else position).numpy()
    found = np.empty(len(part), dtype=np.int32)
    share_rows(lambda first, stop, _: live_rows(first, stop, source, place, found), len(part), _PARTS, source.size)
    nodes = np.flatnonzero(found).astype(np.int32)
    rows = found[nodes] - 1
    mass = np.empty((queries, len(nodes)), dtype=np.float32)
    share_rows(lambda first, stop, _: turned(first, stop, source, rows, mass), len(nodes), _PARTS, mass.size)
    said = np.zeros((queries, 2), dtype=np.bool_)

    def scale(query: int) -> None:
        said[query] = scaled(mass[query])

    share(scale, queries, mass.size)
    zero, bad = torch.from_numpy(said).unbind(1)
    return Columns([(nodes, mass[query]) for query in range(queries)], keys, zero, bad)


def gathered(seeds: Seeds, start: int, stop: int, position: Tensor | None) -> Columns:
    """Return the sparse part of the seeds of queries `start` to `stop`; equal nodes add.

    Args:
        seeds: on the CPU.
        start: the first query.
        stop: the one after the last.
        position: int64 [nodes], the row of each node; None for itself.

    Example:
        >>> seeds = Seeds.from_lists(4, [[(3, 1.0), (0, 1.0), (3, 2.0)], []])
        >>> [(nodes.tolist(), mass.tolist()) for nodes, mass in gathered(seeds, 0, 2, None).seeds]
        [([0, 3], [0.25, 0.75]), ([], [])]
    """
    query, node, weight = seeds.entries(start, stop)
    place = query * seeds.num_nodes + (node if position is None else position[node])
    distinct, at = torch.unique(place, return_inverse=True)
    added = torch.zeros(len(distinct)).index_put_((at,), weight, accumulate=True)
    query = torch.div(distinct, max(seeds.num_nodes, 1), rounding_mode="floor")
    total = torch.zeros(stop - start, dtype=torch.float64).index_put_((query,), added.double(), accumulate=True)
    negative = torch.zeros(stop - start).index_put_((query,), (added < 0).float(), accumulate=True) > 0
    zero, bad, factor = scaling(total, negative)
    kept = ~zero[query] & (added > 0)
    ptr = torch.searchsorted(query[kept], torch.arange(stop - start + 1)).tolist()
    nodes = (distinct - query * seeds.num_nodes)[kept].to(torch.int32)
    keys = None if seeds.keys is None else seeds.keys[start:stop]
    mass = (added * factor[query])[kept]
    parts = [(nodes[a:b].numpy(), mass[a:b].numpy()) for a, b in itertools.pairwise(ptr)]
    return Columns(parts, keys, zero, bad)


def each(work: Callable[[int], None], queries: int) -> None:
    """Call `work(query)` for each query, by as many threads as there are."""
    share(work, queries, ALONE if queries > 1 else 0)


def _nodes(layout: Layout) -> np.ndarray:
    """The node of each row of the layout's operator, int32."""
    memo = layout.op.memo
    if "node of a row" not in memo:
        count = layout.op.num_nodes
        found = torch.arange(count, dtype=torch.int32)
        if layout.position is not None:
            found = torch.empty_like(found).index_copy_(0, layout.position, found)
        memo["node of a row"] = found.numpy()
    found_before: np.ndarray = memo["node of a row"]
    return found_before

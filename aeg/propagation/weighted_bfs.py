"""Weighted breadth-first search: mass spreads outward and never returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.kernels import compiled
from aeg.core.kernels.memory import Space
from aeg.core.kernels.threads import Lent, bounds, share, share_rows
from aeg.core.operator import Operator
from aeg.core.seeds import Seeds
from aeg.propagation.base import METHODS, Context, Info, Propagation
from aeg.propagation.by_query import Columns, each, tiles_of
from aeg.propagation.fitting import tile_width
from aeg.propagation.layout import check_shape
from aeg.propagation.ppr import column_stochastic

FEW = 48  # seeds up to which a query is searched from by itself
_PARTS = 16  # of the rows of a tile
_NEAR = 4  # an entry that is marked takes as long as looking at so many
_WIDEST = 128  # queries of a tile that the loops are compiled for
_LOOK = 8  # hops from which on it pays to look whether any mass is left

Given = Callable[[int], tuple[np.ndarray, np.ndarray]]


@METHODS.register("weighted_bfs")
@dataclass(frozen=True)
class WeightedBFS(Propagation):
    """Weighted BFS: x₀ = s, x_h = decay · Pᵀ x_{h−1} on nodes not reached before; the score is Σ_h x_h.

    Attributes:
        hops: h at most.
        decay: in (0, 1], mass kept a hop.

    Source:
        Paper, Table 11 (the variant's definition is this framework's: DESIGN.md, Other methods).

    Example:
        >>> import torch
        >>> op = Operator.from_edges(3, torch.tensor([[0, 1], [1, 2]]))
        >>> scores, _ = WeightedBFS()(op, torch.tensor([[1.0], [0.0], [0.0]]))
        >>> scores.squeeze().tolist()
        [1.0, 0.5, 0.125]
    """

    hops: int = param(3, ge=1)
    decay: float = param(0.5, gt=0, le=1)

    linear: ClassVar[bool] = False

    def tiles(
        self, op: Operator, seeds: Tensor | Seeds, context: Context | None = None, rows: int | None = None
    ) -> Iterator[tuple[int, Tensor, Info]]:
        """See `Propagation.tiles`."""
        if not _follows(op) or not isinstance(seeds, Seeds) or not _sparse(seeds):
            yield from super().tiles(op, seeds, context, rows)
            return
        check_shape(op, seeds)
        seeds = seeds.to(op.device)

        def solve(op: Operator, columns: Columns, to: np.ndarray, out: Tensor) -> int:
            _spread(self, op, columns.seeds.__getitem__, range(out.shape[1]), to, out.numpy())
            return self.hops

        width = (context and context.tile) or tile_width(op, seeds.num_queries)
        yield from tiles_of(self.layout(op), seeds, width, rows, solve)

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Info]:
        """See `Propagation.propagate`."""
        info = Info.exact(seeds.shape[1], self.hops, seeds.device)
        if _follows(op) and seeds.shape[1] <= _WIDEST:
            return _search(self, op, seeds, context.space or Space()), info
        front, scores = seeds, seeds
        for _ in range(self.hops):
            front = torch.where(scores > 0, 0.0, self.decay * op.pt(front))
            if self.hops > _LOOK and not bool(front.any()):
                break
            scores = scores + front
        return scores, info

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`: the same hops in float64."""
        transition = column_stochastic(weights)
        front, scores = seeds, seeds
        for _ in range(self.hops):
            front = np.where(scores > 0, 0.0, self.decay * (transition @ front))
            scores = scores + front
        return scores


def _follows(op: Operator) -> bool:
    """Tell whether the compiled loops follow edges here."""
    return op.sharding is None and compiled(op.kernel)


def _sparse(seeds: Seeds) -> bool:
    """Tell whether each query has few seeds."""
    return seeds.dense is None and bool((seeds.ptr[1:] - seeds.ptr[:-1] <= FEW).all())


def _search(method: WeightedBFS, op: Operator, tile: Tensor, space: Space) -> Tensor:
    """Return the scores of a tile, written over its seeds: queries with few seeds one by one, the others together."""
    from aeg.propagation.bfs_loop import few, picked, plenty

    seeds = tile.numpy()
    if plenty(seeds, FEW):
        _together(method, op, tile, np.ones(seeds.shape[1], dtype=np.bool_), space)
        return tile
    counts = np.zeros((_PARTS, seeds.shape[1]), dtype=np.int64)
    share_rows(lambda first, stop, part: few(first, stop, seeds, counts[part]), len(seeds), _PARTS, seeds.size)
    number = counts.sum(0)
    alone = (number > 0) & (number <= FEW)
    ends = np.cumsum(np.where(alone, number, 0))
    place = np.cumsum(counts, axis=0) - counts + (ends - number)  # where the seeds of each part begin
    nodes, mass = np.zeros(ends[-1], dtype=np.int32), np.zeros(ends[-1], dtype=np.float32)
    if alone.any():

        def pick(first: int, stop: int, part: int) -> None:
            picked(first, stop, seeds, alone, place[part], nodes, mass)

        share_rows(pick, len(seeds), _PARTS, seeds.size)
    if (number > FEW).any():
        _together(method, op, tile, number > FEW, space)

    def given(query: int) -> tuple[np.ndarray, np.ndarray]:
        own = slice(ends[query] - number[query], ends[query])
        return nodes[own], mass[own]

    _spread(method, op, given, np.flatnonzero(alone).tolist(), np.arange(op.num_nodes, dtype=np.int32), seeds)
    return tile


def _together(method: WeightedBFS, op: Operator, tile: Tensor, many: np.ndarray, space: Space) -> None:
    """Search from all seeds of a tile, hop by hop, over the rows that some query has yet to reach."""
    from aeg.propagation.bfs_loop import begun, folded, hop

    front = _Front(op, tile, space)
    spare = np.where(many, 0, np.iinfo(np.int32).max).astype(np.int32)
    at, left, scores = front.at, front.left, tile.numpy()
    rest: tuple[Any, ...] = (*front.matrix, _shares(op), front.longest, np.float32(method.decay), spare, scores)
    lanes, known = (0,) * tile.shape[1], np.zeros((_PARTS, 3), dtype=np.int64)  # see what `begun` and `hop` return

    def begin(part: int) -> None:
        known[part] = begun(at[part], at[part + 1], front.matrix[0], scores, spare, front.live, left)

    def step(part: int) -> None:
        arrays: tuple[Any, ...] = (left, *rest, *front.arrays, front.near, mark, lanes)
        known[part] = hop(at[part], known[part, 0], *arrays)

    share(begin, _PARTS, scores.size)
    for _ in range(method.hops):
        _, kept, out = known.sum(0).tolist()
        if not kept or not out:
            break
        mark = front.mark(_NEAR * out < kept)
        share(step, _PARTS, scores.size)
        share(lambda part: folded(at[part], at[part + 1], scores, front.beside, front.now), _PARTS, scores.size)
        front.turn()


class _Front:
    """Where the mass of the last hop stands in a tile, and room for that of the next."""

    def __init__(self, op: Operator, tile: Tensor, space: Space) -> None:
        nodes = op.num_nodes
        self.matrix = op.crow.numpy(), op.col.numpy()
        if "longest row" not in op.memo:
            sizes = op.crow[1:] - op.crow[:-1]
            op.memo["longest row"] = int(sizes.max()) if nodes else 0
            op.memo["parts of the rows"] = bounds(op.crow.to(torch.int64) + torch.arange(nodes + 1), _PARTS)
        self.longest, self.at = op.memo["longest row"], op.memo["parts of the rows"]
        self.mass, self.beside = (space.take(name, *tile.shape, like=tile).numpy() for name in ("mass", "beside"))
        self.live, self.now, self.near = (np.zeros(nodes, dtype=np.uint8) for _ in range(3))
        self.left = np.zeros(nodes, dtype=np.int32)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.mass, self.beside, self.live, self.now

    def mark(self, needed: bool) -> int:
        """Mark in `near` the rows that mass may come to, or, where that is not needed, all; return the mark."""
        from aeg.propagation.bfs_loop import marked

        self.near[:] = 0
        if needed:
            at, arrays = self.at, (*self.matrix, self.live, self.near, 1)
            share(lambda part: marked(at[part], at[part + 1], *arrays), _PARTS, len(self.matrix[1]))
        return int(needed)

    def turn(self) -> None:
        """Let the mass that the last hop moved be what the next one moves."""
        self.mass, self.beside, self.live, self.now = self.beside, self.mass, self.now, self.live
        self.now[:] = 0


def _spread(
    method: WeightedBFS, op: Operator, given: Given, queries: Sequence[int], to: np.ndarray, out: np.ndarray
) -> None:
    """Search from the seeds of each query by itself and write the scores of row v of the operator to row `to[v]`."""
    from aeg.propagation.bfs_loop import spread

    matrix = (op.crow.numpy(), op.col.numpy(), op.weight.numpy(), op.walk_degree.numpy())
    spaces = Lent(lambda: _Space(op.num_nodes))

    def work(place: int) -> None:
        query = queries[place]
        with spaces.one() as space:
            spread(*matrix, *given(query), method.hops, method.decay, *space.arrays, to, out, query)

    each(work, len(queries))


def _shares(op: Operator) -> np.ndarray:
    """Weight of each entry, divided by the degree of its column, float32."""
    if "shares" not in op.memo:
        op.memo["shares"] = (op.weight.to(torch.float64) / op.degree[op.col.to(torch.int64)]).to(torch.float32)
    found: np.ndarray = op.memo["shares"].numpy()
    return found


class _Space:
    """The arrays that one thread searches in; `value` and `seen` are as new between queries."""

    def __init__(self, nodes: int) -> None:
        self.arrays = np.zeros(nodes), np.zeros(nodes, dtype=np.uint8), np.zeros(nodes, dtype=np.int32)

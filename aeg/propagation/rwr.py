"""Random walks with restart by Monte Carlo, vectorised over walks and queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.kernels import compiled
from aeg.core.kernels.threads import Lent
from aeg.core.operator import Operator
from aeg.core.seeds import Seeds
from aeg.errors import DataError
from aeg.propagation.base import METHODS, Context, Info, Propagation
from aeg.propagation.by_query import Columns, each, tiles_of, turned_round
from aeg.propagation.counter_rng import column_keys, splitmix64, uniform
from aeg.propagation.fitting import tile_width
from aeg.propagation.layout import check_shape
from aeg.propagation.power_iteration import power_iterates


@METHODS.register("rwr")
@dataclass(frozen=True)
class RWR(Propagation):
    """Random walk with restart: the share of visits of W walks of L moves from the seeds.

    X₀ is drawn from π; before each move the walk is redrawn from π with probability ρ (always on an isolated
    node), else it moves along an edge with probability proportional to its weight. The score of a node is
    visits / (W (L + 1)); its expectation is the mean of the first L + 1 iterates of eq. 7. Random numbers are
    counter-based, keyed by the run's seed and the query, so a batch equals its columns, and devices draw the same
    walks up to the rounding of cumulative sums (the compiled loops keep those of a row to 32 bits).

    Attributes:
        restart: ρ in (0, 1).
        num_walks: W.
        walk_length: L, moves of a walk.

    Source:
        Paper, Tables 5 and 11 (`propagation_num_walks`, `propagation_walk_length`).

    Example:
        >>> import torch
        >>> op = Operator.from_edges(2, torch.tensor([[0], [1]]))
        >>> scores, _ = RWR(num_walks=100)(op, torch.tensor([[1.0], [0.0]]))
        >>> float(scores.sum()), bool(scores[0] > scores[1])
        (1.0, True)
    """

    restart: float = param(0.3, gt=0, lt=1)
    num_walks: int = param(1000, ge=1)
    walk_length: int = param(10, ge=1)

    stochastic: ClassVar[bool] = True
    mass_preserving: ClassVar[bool] = True
    linear: ClassVar[bool] = False

    def tiles(
        self, op: Operator, seeds: Tensor | Seeds, context: Context | None = None, rows: int | None = None
    ) -> Iterator[tuple[int, Tensor, Info]]:
        """See `Propagation.tiles`."""
        if op.sharding or not compiled(op.kernel):
            yield from super().tiles(op, seeds, context, rows)
            return
        check_shape(op, seeds)
        seeds, context = seeds.to(op.device), context or Context()
        count = seeds.num_queries if isinstance(seeds, Seeds) else seeds.shape[1]

        def solve(op: Operator, columns: Columns, to: np.ndarray, out: Tensor) -> int:
            _walk(self, op, columns, context.seed, to, out)
            return self.walk_length

        yield from tiles_of(self.layout(op), seeds, context.tile or tile_width(op, count), rows, solve)

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Info]:
        """See `Propagation.propagate`."""
        if op.sharding:
            raise DataError(
                "rwr: got an operator that is split over processes, expected a whole one; walks follow edges"
            )
        info = Info.exact(seeds.shape[1], self.walk_length, seeds.device)
        if compiled(op.kernel):
            scores = torch.zeros_like(seeds)
            columns = turned_round(seeds, None, context.query_keys)
            _walk(self, op, columns, context.seed, np.arange(op.num_nodes, dtype=np.int32), scores)
            return scores, info
        keys = column_keys(seeds) if context.query_keys is None else context.query_keys
        keys = splitmix64(keys + splitmix64(torch.tensor(context.seed, device=seeds.device)))
        visits = _vectorised(self, op, seeds, keys)
        return visits.to(torch.float32) / (self.num_walks * (self.walk_length + 1)), info

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`: the mean of the first L + 1 power iterates."""
        return power_iterates(weights, seeds, self.restart, self.walk_length).mean(0)


def _reach(op: Operator) -> Tensor:
    """Row + cumulated share of the row's weight, of each entry of the matrix, float64: a walk's draw falls into it."""
    if "reach" not in op.memo:
        sizes = (op.crow[1:] - op.crow[:-1]).to(torch.int64)
        row = torch.repeat_interleave(torch.arange(op.num_nodes, device=op.device), sizes)
        within = (op.weight.to(torch.float64) / op.degree[row]).cumsum(0)
        before = torch.cat([within.new_zeros(1), within])[op.crow.to(torch.int64)[row]]
        op.memo["reach"] = row + (within - before).clamp(max=1.0)
    return op.memo["reach"]


def _steps(op: Operator) -> np.ndarray:
    """What a compiled walk reads to go on: shares and columns of the entries, see `walk_loop.packed`."""
    if "steps" not in op.memo:
        from aeg.propagation.walk_loop import WINDOW, packed

        found = np.zeros(len(op.col) + WINDOW, dtype=np.uint64)
        packed(op.crow.numpy(), op.col.numpy(), op.weight.numpy(), op.degree.numpy(), found)
        op.memo["steps"] = found
    kept: np.ndarray = op.memo["steps"]
    return kept


def _walk(method: RWR, op: Operator, columns: Columns, seed: int, to: np.ndarray, out: Tensor) -> None:
    """Write the scores of each query to its column of `out`: those of row v of the operator to row `to[v]`."""
    from aeg.propagation.walk_loop import BUCKETS, WINDOW, content_key, prepared, told, walks

    scores, matrix = out.numpy(), (op.crow.numpy(), _steps(op))
    spaces, salt = Lent(lambda: _Space(op.num_nodes, method)), int(splitmix64(torch.tensor(seed)))
    own = None if columns.keys is None else columns.keys.tolist()
    without = columns.zero.tolist()
    whole = np.float32(method.num_walks * (method.walk_length + 1))

    def work(query: int) -> None:
        if without[query]:
            return
        nodes, mass = columns.seeds[query]
        key = content_key(nodes, mass) if own is None else own[query]
        with spaces.one() as space:
            total, ends = space.seeds(len(nodes) + WINDOW, BUCKETS)
            scale = prepared(mass, total, ends)
            drawn = (nodes, total, ends, scale, key, salt, method.restart, method.walk_length)
            found = walks(*matrix, *drawn, space.rooms, space.counts, space.touched)
            told(space.touched[:found], space.counts, whole, to, scores, query)

    each(work, out.shape[1])


class _Space:
    """The arrays that one thread walks in; the counts are zero between queries."""

    def __init__(self, nodes: int, method: RWR) -> None:
        self.counts = np.zeros(nodes, dtype=np.int32)
        kinds = (np.int32, np.uint64, *[np.int32] * 4)
        self.rooms = tuple(np.zeros(method.num_walks, dtype=kind) for kind in kinds)
        self.touched = np.zeros(min(nodes, method.num_walks * (method.walk_length + 1)) + 1, dtype=np.int32)
        self._mass, self._ends = np.zeros(0), np.zeros(0, dtype=np.int32)

    def seeds(self, count: int, buckets: int) -> tuple[np.ndarray, np.ndarray]:
        """Return room for the cumulated mass of so many seeds, and for the guide into it."""
        buckets = min(buckets, 1 << max(count - 1, 0).bit_length())
        if len(self._mass) < count:
            self._mass = np.zeros(count)
        if len(self._ends) < buckets + 1:
            self._ends = np.zeros(buckets + 1, dtype=np.int32)
        return self._mass[:count], self._ends[: buckets + 1]


def _vectorised(method: RWR, op: Operator, seeds: Tensor, keys: Tensor) -> Tensor:
    """Visits of each node by each query's walks, all walks of all queries at once: on a GPU, or without a compiler."""
    nodes, columns = seeds.shape
    mass = seeds.T.to(torch.float64).cumsum(1)
    step = _Steps(op, mass, keys.unsqueeze(1), method.num_walks)
    at = step.redraw(0)
    visits = [at]
    for move in range(1, method.walk_length + 1):
        back = (step.draw(3 * move) < method.restart) | op.isolated[at]
        at = torch.where(back, step.redraw(3 * move + 1), step.follow(at, 3 * move + 2))
        visits.append(at)
    flat = (torch.stack(visits) * columns + torch.arange(columns, device=at.device).unsqueeze(1)).flatten()
    counts = torch.bincount(flat, minlength=nodes * columns).view(nodes, columns)
    return counts * (mass[:, -1:] > 0).T


class _Steps:
    """The random moves of all walks of one tile; walks are [columns, walks]."""

    def __init__(self, op: Operator, mass: Tensor, keys: Tensor, num_walks: int) -> None:
        self.keys, self.mass, self.total = keys, mass, mass[:, -1:]
        self.walk = torch.arange(num_walks, device=mass.device).unsqueeze(0)
        self.num_walks = num_walks
        self.crow, self.col, self.reach = op.crow.to(torch.int64), op.col.to(torch.int64), _reach(op)

    def draw(self, counter: int) -> Tensor:
        return uniform(self.keys, self.walk + counter * self.num_walks)

    def redraw(self, counter: int) -> Tensor:
        """Nodes drawn from the seeds of each column (node 0 in a column without seeds)."""
        target = self.draw(counter) * self.total
        chosen = torch.searchsorted(self.mass, target, right=True)
        return chosen.clamp(max=self.mass.shape[1] - 1)

    def follow(self, at: Tensor, counter: int) -> Tensor:
        """A neighbour of each node, by weight; the node itself where it is isolated."""
        if not len(self.col):
            return at
        chosen = torch.searchsorted(self.reach, at + self.draw(counter), right=True)
        low, high = self.crow[at], self.crow[at + 1] - 1
        chosen = torch.minimum(torch.maximum(chosen, low), high).clamp(min=0)
        return torch.where(high >= low, self.col[chosen], at)

"""Random walks with restart by Monte Carlo, vectorised over walks and queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.kernels import compiled
from aeg.core.kernels.threads import ALONE, Lent, share
from aeg.core.operator import Operator
from aeg.errors import DataError
from aeg.propagation.base import METHODS, Context, Info, Propagation
from aeg.propagation.counter_rng import column_keys, splitmix64, uniform
from aeg.propagation.power_iteration import power_iterates


@METHODS.register("rwr")
@dataclass(frozen=True)
class RWR(Propagation):
    """Random walk with restart: the share of visits of W walks of L moves from the seeds.

    X₀ is drawn from π; before each move the walk is redrawn from π with probability ρ (always on an isolated
    node), else it moves along an edge with probability proportional to its weight. The score of a node is
    visits / (W (L + 1)); its expectation is the mean of the first L + 1 iterates of eq. 7. Random numbers are
    counter-based, keyed by the run's seed and the query, so a batch equals its columns, and devices draw the same
    walks up to the rounding of cumulative sums.

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

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Info]:
        """See `Propagation.propagate`."""
        if op.sharding:
            raise DataError(
                "rwr: got an operator that is split over processes, expected a whole one; walks follow edges"
            )
        columns = seeds.shape[1]
        keys = column_keys(seeds) if context.query_keys is None else context.query_keys
        keys = splitmix64(keys + splitmix64(torch.tensor(context.seed, device=seeds.device)))
        count = _compiled if compiled(op.kernel) else _vectorised
        visits = count(self, op, seeds, keys)
        scores = visits.to(torch.float32) / (self.num_walks * (self.walk_length + 1))
        return scores, Info.exact(columns, self.walk_length, seeds.device)

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


def _compiled(method: RWR, op: Operator, seeds: Tensor, keys: Tensor) -> Tensor:
    """Visits of each node by each query's walks, queries shared among threads."""
    from aeg.propagation.walk_loop import prepared, walks

    visits = torch.zeros(seeds.shape, dtype=torch.int32)
    out, given = visits.numpy(), seeds.T.contiguous().numpy()
    mixed = splitmix64(keys).numpy().view(np.uint64)
    matrix = (op.crow.numpy(), op.col.numpy(), _reach(op).numpy())
    spaces = Lent(lambda: _Space(op.num_nodes, method))

    def work(q: int) -> None:
        with spaces.one() as space:
            nodes, mass, guide = space.seeds
            seeded = prepared(given[q], nodes, mass, guide)
            if seeded:
                drawn = (nodes[:seeded], mass[:seeded], guide[:seeded])
                found = walks(*matrix, *drawn, mixed[q], method.restart, method.walk_length, *space.visited)
                touched = space.touched[:found]
                out[touched, q] = space.counts[touched]
                space.counts[touched] = 0

    share(work, seeds.shape[1], ALONE)
    return visits


class _Space:
    """The arrays that one thread walks in; the counts are zero between queries."""

    def __init__(self, nodes: int, method: RWR) -> None:
        self.seeds = np.zeros(nodes, dtype=np.int32), np.zeros(nodes), np.zeros(nodes, dtype=np.int32)
        self.counts = np.zeros(nodes, dtype=np.int32)
        self.at = np.zeros(method.num_walks, dtype=np.int64)
        self.touched = np.zeros(min(nodes, method.num_walks * (method.walk_length + 1)), dtype=np.int32)

    @property
    def visited(self) -> tuple[np.ndarray, ...]:
        return self.at, self.counts, self.touched


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

"""Random walks with restart by Monte Carlo, vectorised over walks and queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from aeg.config.ranges import param
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
        nodes, columns = seeds.shape
        keys = column_keys(seeds) if context.query_keys is None else context.query_keys
        keys = splitmix64(keys + splitmix64(torch.tensor(context.seed, device=seeds.device))).unsqueeze(1)
        mass = seeds.T.to(torch.float64).cumsum(1)
        live = mass[:, -1:] > 0
        step = _Steps(op, mass, keys, self.num_walks)
        at = step.redraw(0)
        visits = [at]
        for move in range(1, self.walk_length + 1):
            back = (step.draw(3 * move) < self.restart) | op.isolated[at]
            at = torch.where(back, step.redraw(3 * move + 1), step.follow(at, 3 * move + 2))
            visits.append(at)
        flat = (torch.stack(visits) * columns + torch.arange(columns, device=at.device).unsqueeze(1)).flatten()
        counts = torch.bincount(flat, minlength=nodes * columns).view(nodes, columns)
        scores = counts / (self.num_walks * (self.walk_length + 1)) * live.T
        return scores.to(torch.float32), Info.exact(columns, self.walk_length, seeds.device)

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`: the mean of the first L + 1 power iterates."""
        return power_iterates(weights, seeds, self.restart, self.walk_length).mean(0)


class _Steps:
    """The random moves of all walks of one tile; walks are [columns, walks]."""

    def __init__(self, op: Operator, mass: Tensor, keys: Tensor, num_walks: int) -> None:
        self.keys, self.mass, self.total = keys, mass, mass[:, -1:]
        self.walk = torch.arange(num_walks, device=mass.device).unsqueeze(0)
        self.num_walks = num_walks
        self.crow, self.col = op.crow.to(torch.int64), op.col.to(torch.int64)
        sizes = self.crow[1:] - self.crow[:-1]
        row = torch.repeat_interleave(torch.arange(op.num_nodes, device=mass.device), sizes)
        share = op.weight.to(torch.float64) / op.degree[row]
        within = share.cumsum(0)
        before = torch.cat([within.new_zeros(1), within])[self.crow[row]]
        self.reach = row + (within - before).clamp(max=1.0)

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

"""PPR by forward push: a walk over the neighbourhood of the seeds only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from aeg.core.kernels import compiled
from aeg.core.kernels.threads import ALONE, Lent, share
from aeg.core.operator import Operator
from aeg.core.seeds import Seeds
from aeg.propagation.base import Info
from aeg.propagation.fitting import fitted

FIRST_EPSILON = 1e-4
_SEEDS = 4096  # seeds a query above which pushing cannot pay
_LOOK_EVERY = 4  # steps of the dense form between two looks at whether it is done, which wait for the device


@dataclass(frozen=True)
class Push:
    """Forward push: mass that waits at a node is settled there for a share ρ and pushed on to the neighbours.

    With estimates r̂ and waiting mass w, both start from r̂ = 0, w = π; a push at v does r̂_v += ρ w_v, adds
    (1 − ρ) w_v W_vu / d_v to w_u of each neighbour u and sets w_v = 0. It keeps r = r̂ + K w for the core K of PPR,
    so r̂ ≤ r everywhere, the L1 error is at most the waiting mass, and where w_v ≤ ε d_v at every node,
    0 ≤ r_v − r̂_v ≤ ε d_v, as d_u K_vu = d_v K_uv. At most 1 / (ε ρ) units of degree are pushed, whatever the size
    of the graph.

    Attributes:
        restart: ρ.
        epsilon: ε; None lowers it from 1e-4 until the waiting mass of a query is at most `tol`.
        tol: L1 error that is aimed at where `epsilon` is None.

    Source:
        Andersen, Chung and Lang, Local graph partitioning using PageRank vectors, FOCS 2006.
    """

    restart: float
    epsilon: float | None
    tol: float

    def tiles(self, op: Operator, seeds: Seeds, width: int, rows: int | None) -> Iterator[tuple[int, Tensor, Info]]:
        """Yield (first query, scores [rows, columns], info): the core scaled to its known sum over all nodes."""
        count = op.num_nodes if rows is None else rows

        def run(first: int, width: int) -> Iterator[tuple[int, Tensor, Info]]:
            for start in range(first, seeds.num_queries, width):
                yield start, *self._tile(op, seeds, start, min(start + width, seeds.num_queries), count)

        yield from fitted(run, width, op)

    def _tile(self, op: Operator, seeds: Seeds, start: int, stop: int, rows: int) -> tuple[Tensor, Info]:
        query, nodes, weights = seeds.entries(start, stop)
        weights = weights.to(torch.float64)
        zeros = torch.zeros(stop - start, dtype=torch.float64, device=op.device)
        total = zeros.index_put((query,), weights, accumulate=True)  # in order, on a GPU too
        bad = ~torch.isfinite(total) | (zeros.index_add(0, query, (weights < 0).to(torch.float64)) > 0)
        zero = bad | (total == 0)
        mass = torch.where(zero[query], 0.0, weights / torch.where(zero, 1.0, total)[query])
        alone = zeros.index_put((query,), mass * op.isolated[nodes], accumulate=True)
        walk = _compiled if compiled(op.kernel) else _dense
        scores, left, edges = walk(self, op, query, nodes, mass, stop - start, rows)
        whole = torch.where(zero, 1.0, 1 - (1 - self.restart) * alone)
        flags = {"zero_seeds": zero, "bad_seeds": bad}
        met = torch.ones_like(zero) if self.epsilon is not None else left <= self.tol
        return scores / whole.to(torch.float32), Info(edges, left / whole, met, flags, "push")

    @property
    def start(self) -> tuple[float, float]:
        """The threshold to begin with, and the waiting mass that is aimed at."""
        return (FIRST_EPSILON, self.tol) if self.epsilon is None else (self.epsilon, math.inf)


def suits(seeds: Seeds) -> bool:
    """Tell whether seeds can be pushed: sparse, and few a query."""
    return seeds.dense is None and bool(((seeds.ptr[1:] - seeds.ptr[:-1]) <= _SEEDS).all())


def _compiled(
    push: Push, op: Operator, query: Tensor, nodes: Tensor, mass: Tensor, columns: int, rows: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Push each query by itself, queries shared among threads; only nodes that were touched cost anything."""
    from aeg.propagation.push_loop import push as loop

    scores = torch.zeros(rows, columns)
    left, edges = torch.zeros(columns, dtype=torch.float64), torch.zeros(columns, dtype=torch.int64)
    matrix = (op.crow.numpy(), op.col.numpy(), op.weight.numpy(), op.walk_degree.numpy())
    out = scores.numpy()
    ends = torch.bincount(query, minlength=columns).cumsum(0).tolist()
    spaces = Lent(lambda: _Space(op.num_nodes))

    def work(q: int) -> None:
        own = slice(ends[q - 1] if q else 0, ends[q])
        seeds, amount = _merged(nodes[own].numpy(), mass[own].numpy())
        with spaces.one() as space:
            touched, left[q], edges[q] = loop(*matrix, seeds, amount, push.restart, *push.start, *space.arrays)
            at = space.touched[:touched]
            kept = at[at < rows]
            out[kept, q] = space.found[kept]
            space.found[at], space.left[at] = 0.0, 0.0

    share(work, columns, ALONE)
    return scores, left, edges


class _Space:
    """The arrays that one thread pushes in; zero between queries."""

    def __init__(self, nodes: int) -> None:
        self.found, self.left = np.zeros(nodes), np.zeros(nodes)
        self.waiting = np.zeros(nodes, dtype=np.bool_)
        self.queue, self.touched = np.zeros(nodes, dtype=np.int32), np.zeros(nodes, dtype=np.int32)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.found, self.left, self.waiting, self.queue, self.touched


def _merged(nodes: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct nodes with a positive mass."""
    distinct, at = np.unique(nodes[mass > 0], return_inverse=True)
    return distinct, np.bincount(at, weights=mass[mass > 0], minlength=len(distinct))


def _dense(
    push: Push, op: Operator, query: Tensor, nodes: Tensor, mass: Tensor, columns: int, rows: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Push from all nodes above the threshold at once, by products: the fall-back without compiled loops."""
    left = torch.zeros(op.num_nodes, columns, dtype=torch.float64, device=op.device)
    left.index_put_((nodes, query), mass, accumulate=True)
    found, degree = torch.zeros_like(left), op.walk_degree.unsqueeze(1)
    edges = torch.zeros(columns, dtype=torch.int64, device=op.device)
    sizes = (op.crow[1:] - op.crow[:-1]).to(torch.int64)
    epsilon, tol = push.start
    done = torch.zeros(columns, dtype=torch.bool, device=op.device)  # a column that is done rests, whatever the others
    while True:
        ready = (left > epsilon * degree) & ~done
        while bool(ready.any()):
            for _ in range(_LOOK_EVERY):  # where nothing is above the threshold any more, nothing happens
                amount = torch.where(ready, left, 0.0)
                found += push.restart * amount
                left = left - amount + (1 - push.restart) * op.pt(amount)
                edges += (sizes.unsqueeze(1) * ready).sum(0)
                ready = (left > epsilon * degree) & ~done
        rest = left.sum(0)
        done = rest <= tol
        if bool(done.all()):
            return found[:rows].to(torch.float32), rest, edges
        epsilon /= 4

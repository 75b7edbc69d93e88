"""The sum of all walks into an atom: what chains are parts of, and which seeds it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from aeg.core.operator import Operator
from aeg.retrieval.chains_walks import Walks, check_nodes, seed_distribution

_COLUMNS = 16  # targets taken together
_NOTHING = 1e-12  # a tail that is none


@dataclass(frozen=True)
class WalkSum:
    """All walks of one query into one node, by their seed.

    Attributes:
        node: where they end.
        mass: of all walks up to `length`, in units of the score.
        tail: a bound on the mass of all longer ones: mass ≤ score ≤ mass + tail.
        length: how far walks were followed.
        seeds: (node, mass of the walks that begin in it), heaviest first, no more than were asked for.
    """

    node: int
    mass: float
    tail: float
    length: int
    seeds: tuple[tuple[int, float], ...]


def walk_sums(
    op: Operator,
    walks: Walks,
    seeds: Tensor,
    nodes: Sequence[int],
    tolerance: float = 1e-3,
    max_length: int = 1000,
    top_seeds: int = 10,
) -> list[WalkSum]:
    r"""Return the sum of all walks of one query into each of some nodes, by products with the operator.

    Walked backwards from node a: y_0 = e_a, y_l = M y_{l−1}, so that π(v) y_l(v) is the mass of the walks of length l
    from v to a without w_l. What is left after L steps is at most

        scale · max_v y_L(v) · Σ_{j ≥ 1} w_{L+j}              (transition: rows of M sum to 1)
        scale · ‖π‖₂ · ‖y_L‖₂ · Σ_{j ≥ 1} w_{L+j} norm^j       (otherwise)

    Args:
        op: the operator.
        walks: what the method's scores are sums of.
        seeds: [nodes], of one query; scaled to sum 1.
        nodes: where the walks end.
        tolerance: steps are made until the tail of each node is at most this share of its mass, or 1e-12.
        max_length: steps at most.
        top_seeds: seeds told of each node.

    Raises:
        DataError: if the seeds do not fit, or a node lies outside the operator.

    Example:
        >>> import torch
        >>> op = Operator.from_edges(2, torch.tensor([[0], [1]]))
        >>> found, = walk_sums(op, Walks("transition", (0.5,), 0.5), torch.tensor([1.0, 0.0]), [1], 1e-9)
        >>> round(found.mass, 6), found.tail < 1e-9, found.seeds[0][0]
        (0.333333, True, 0)
    """
    check_nodes(op, nodes)
    start = seed_distribution(op, seeds)
    walker = _Backwards(op, walks, start)
    found = []
    for low in range(0, len(nodes), _COLUMNS):
        found += walker.sums(nodes[low : low + _COLUMNS], tolerance, max_length, top_seeds)
    return found


class _Backwards:
    """Walks backwards from some nodes at once."""

    def __init__(self, op: Operator, walks: Walks, seeds: np.ndarray) -> None:
        if "scipy" not in op.memo:
            op.memo["scipy"] = op.scipy()
        self._matrix, self._walks, self._seeds = op.memo["scipy"], walks, seeds
        degree = op.walk_degree.cpu().numpy()[:, None]
        self._isolated = op.isolated.cpu().numpy()
        root = 1 / np.sqrt(degree)
        scaling = {"transition": (1 / degree, None), "symmetric": (root, root), "adjacency": (None, None)}
        self._leaving, self._entering = scaling[walks.step]
        self._levels = None if walks.levels is None else walks.levels.cpu().numpy()

    def sums(self, nodes: Sequence[int], tolerance: float, max_length: int, top_seeds: int) -> list[WalkSum]:
        walks, columns = self._walks, np.arange(len(nodes))
        y = np.zeros((len(self._seeds), len(nodes)))
        y[list(nodes), columns] = 1.0
        staying = walks.weight(0) if walks.staying is None else walks.staying
        total = np.where(self._isolated, staying, walks.weight(0))[:, None] * y
        length = 0
        while True:
            mass = walks.scale * (self._seeds @ total)
            tail = walks.scale * walks.tail(length) * self._reach(y)
            if length >= max_length or bool((tail <= np.maximum(tolerance * mass, _NOTHING)).all()) or not y.any():
                break
            length += 1
            y = self._stepped(y, nodes, length)
            total += walks.weight(length) * y
        passed = walks.scale * self._seeds[:, None] * total
        return [
            WalkSum(node, float(mass[at]), float(tail[at]), length, _largest(passed[:, at], top_seeds))
            for at, node in enumerate(nodes)
        ]

    def _reach(self, y: np.ndarray) -> np.ndarray:
        """A bound on Σ_v π(v) (M^j y)(v) / norm^j for all j ≥ 1."""
        if self._walks.step == "transition":
            return y.max(axis=0) * self._seeds[~self._isolated].sum()
        return np.sqrt((y**2).sum(axis=0)) * np.sqrt((self._seeds[~self._isolated] ** 2).sum())

    def _stepped(self, y: np.ndarray, nodes: Sequence[int], length: int) -> np.ndarray:
        moved = self._matrix @ (y if self._entering is None else self._entering * y)
        if self._leaving is not None:
            moved *= self._leaving
        if self._levels is not None:
            moved *= self._levels[:, None] == self._levels[list(nodes)] - length
        return moved


def _largest(passed: np.ndarray, k: int) -> tuple[tuple[int, float], ...]:
    rows = np.flatnonzero(passed)
    rows = rows[np.argsort(-passed[rows], kind="stable")][:k]
    return tuple((int(row), float(passed[row])) for row in rows)

"""The walks that the scores of a propagation method are the sum of, and their steps over an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from aeg.core.operator import Operator
from aeg.errors import ConfigError, DataError

STEPS = ("transition", "symmetric", "adjacency")


@dataclass(frozen=True, eq=False)
class Walks:
    r"""The walks that the scores of a method and a query are the sum of.

    With seeds π of sum 1 and a step matrix M the score of node v is

        score(v) = scale · Σ_l w_l Σ_{v_0, …, v_l = v} π(v_0) M(v_0, v_1) … M(v_{l−1}, v_l),

    and the mass of a walk is its term. `scale` is the final normalisation, so that masses are parts of the score
    that is ranked by, max(x, 0) scaled to sum 1 where the method does so.

    Attributes:
        step: M(u, v) is w(u, v) / degree(u) (`transition`, the P of eq. 7), w(u, v) / √(degree(u) degree(v))
            (`symmetric`) or w(u, v) (`adjacency`).
        weights: w_0, w_1, …, not negative, at least one.
        ratio: w_{l+1} = ratio · w_l from the last of `weights` on; 0 where longer walks do not count.
        staying: weight of an isolated node's own seed, which no walk leaves; None: w_0.
        scale: in (0, ∞).
        norm: a bound on the spectral norm of M (`adjacency`: its largest eigenvalue); norm · ratio < 1.
        levels: int64 [nodes], where a step may only go from a node to one of the next level; −1: never reached.

    Raises:
        ConfigError: if the step is unknown, there is no weight, or the sum does not converge.

    Example:
        >>> Walks("transition", (0.3,), 0.7).weight(2)
        0.14699999999999996
        >>> Walks("transition", (0.3,), 1.0)
        Traceback (most recent call last):
        ...
        aeg.errors.ConfigError: walks: got weights (0.3,), ratio 1 and norm 1, expected weights >= 0, ratio x norm < 1
    """

    step: str
    weights: tuple[float, ...]
    ratio: float = 0.0
    staying: float | None = None
    scale: float = 1.0
    norm: float = 1.0
    levels: Tensor | None = None

    def __post_init__(self) -> None:
        if self.step not in STEPS:
            raise ConfigError(f"walks: got step {self.step!r}, expected one of {', '.join(STEPS)}")
        sound = self.weights and min(self.weights) >= 0 and self.ratio >= 0 and self.ratio * self.norm < 1
        if not sound:
            raise ConfigError(
                f"walks: got weights {self.weights}, ratio {self.ratio:g} and norm {self.norm:g}, "
                "expected weights >= 0, ratio x norm < 1"
            )

    @property
    def last(self) -> int:
        """The length from which on weights are geometric, or end."""
        return len(self.weights) - 1

    def weight(self, length: int) -> float:
        """Return w_l."""
        if length <= self.last:
            return self.weights[length]
        return self.weights[-1] * self.ratio ** (length - self.last)

    def tail(self, length: int) -> float:
        """Return Σ_{j ≥ 1} w_{length + j} norm^j, what the norm leaves to all longer walks.

        Example:
            >>> round(Walks("transition", (0.3,), 0.7).tail(0), 6)
            0.7
        """
        listed = sum(self.weights[at] * self.norm ** (at - length) for at in range(length + 1, len(self.weights)))
        first = max(length, self.last) + 1
        geometric = self.weight(first) * self.norm ** (first - length) if self.ratio else 0.0
        return listed + geometric / (1 - self.ratio * self.norm)


@dataclass(frozen=True, eq=False)
class Steps:
    """The step matrix of walks over an operator, entry by entry, on the CPU in float64.

    Attributes:
        crow, col: the operator's pattern, int64.
        weight: float64 [nnz].
        leaving, entering: float64 [nodes]; M(u, v) = leaving[u] · w(u, v) · entering[v].
        levels: as in `Walks`.
    """

    crow: np.ndarray
    col: np.ndarray
    weight: np.ndarray
    leaving: np.ndarray
    entering: np.ndarray
    levels: np.ndarray | None

    @classmethod
    def of(cls, op: Operator, walks: Walks) -> Steps:
        """Return the steps of `walks` over `op`."""
        if "chains" not in op.memo:
            op.memo["chains"] = (
                op.crow.cpu().numpy().astype(np.int64),
                op.col.cpu().numpy().astype(np.int64),
                op.weight.cpu().numpy().astype(np.float64),
            )
        degree = op.walk_degree.cpu().numpy()
        ones = np.ones(op.num_nodes)
        scaling = {
            "transition": (1 / degree, ones),
            "symmetric": (1 / np.sqrt(degree), 1 / np.sqrt(degree)),
            "adjacency": (ones, ones),
        }
        levels = None if walks.levels is None else walks.levels.cpu().numpy()
        crow, col, weight = op.memo["chains"]
        leaving, entering = scaling[walks.step]
        return cls(crow, col, weight, leaving, entering, levels)

    def into(self, node: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes u from which a step leads to `node`, and M(u, node)."""
        part = slice(self.crow[node], self.crow[node + 1])
        nodes = self.col[part]
        factors = self.leaving[nodes] * self.weight[part] * self.entering[node]
        if self.levels is not None:
            factors = np.where(self.levels[nodes] == self.levels[node] - 1, factors, 0.0)
        return nodes, factors

    def spread(self, nodes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the end and the mass of every step out of `nodes`, whose prefixes weigh `values`."""
        sizes = self.crow[nodes + 1] - self.crow[nodes]
        ends = np.cumsum(sizes)
        at = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(self.crow[nodes] - (ends - sizes), sizes)
        start = np.repeat(nodes, sizes)
        end = self.col[at]
        mass = np.repeat(values * self.leaving[nodes], sizes) * self.weight[at] * self.entering[end]
        if self.levels is not None:
            mass = np.where(self.levels[end] == self.levels[start] + 1, mass, 0.0)
        return end, mass


def seed_distribution(op: Operator, seeds: Tensor) -> np.ndarray:
    """Return the seeds of one query as a distribution (eq. 6), float64 [nodes]; zero where there are none.

    Args:
        op: the operator.
        seeds: [nodes], finite and not negative.

    Raises:
        DataError: if they do not fit the operator, or are negative or not finite.
    """
    if seeds.shape != (op.num_nodes,):
        raise DataError(f"chains: got seeds of shape {tuple(seeds.shape)}, expected ({op.num_nodes},)")
    values = seeds.detach().cpu().numpy().astype(np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise DataError("chains: got seeds that are negative or not finite; expected a weight >= 0 a node")
    total = values.sum()
    return values / total if total > 0 else values


def check_nodes(op: Operator, nodes: Sequence[int]) -> None:
    """Raise a `DataError` where one of `nodes` lies outside the operator."""
    for node in nodes:
        if not 0 <= node < op.num_nodes:
            raise DataError(f"chains: got node {node}, expected 0 to {op.num_nodes - 1}")

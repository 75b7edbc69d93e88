"""Weighted breadth-first search: mass spreads outward and never returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.operator import Operator
from aeg.propagation.base import METHODS, Context, Info, Propagation
from aeg.propagation.ppr import column_stochastic


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

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Info]:
        """See `Propagation.propagate`."""
        front, scores = seeds, seeds
        for _ in range(self.hops):
            front = torch.where(scores > 0, 0.0, self.decay * op.pt(front))
            scores = scores + front
        return scores, Info.exact(seeds.shape[1], self.hops, seeds.device)

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`: the same hops in float64."""
        transition = column_stochastic(weights)
        front, scores = seeds, seeds
        for _ in range(self.hops):
            front = np.where(scores > 0, 0.0, self.decay * (transition @ front))
            scores = scores + front
        return scores

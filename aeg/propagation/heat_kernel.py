"""Heat-kernel PageRank."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.operator import Operator
from aeg.propagation.base import METHODS, Context, Info, Propagation
from aeg.propagation.ppr import column_stochastic


@METHODS.register("heat_kernel")
@dataclass(frozen=True)
class HeatKernel(Propagation):
    """Heat kernel: exp(−t (I − Pᵀ)) s = e^{−t} Σ_k t^k / k! (Pᵀ)^k s, isolated rows of P the identity.

    The series has only non-negative terms; it is cut where the Poisson tail, which bounds the L1 error, falls
    below `tol`, and the remaining mass is given to the last term, so that a column sums to 1.

    Attributes:
        t: diffusion time, > 0.
        tol: bound on the L1 error.

    Source:
        Chung, The heat kernel as the pagerank of a graph, PNAS 104 (2007).

    Example:
        >>> import torch
        >>> op = Operator.from_edges(2, torch.tensor([[0], [1]]))
        >>> scores, _ = HeatKernel(t=1.0)(op, torch.tensor([[1.0], [0.0]]))
        >>> [round(x, 4) for x in scores.squeeze().tolist()]
        [0.5677, 0.4323]
    """

    t: float = param(3.0, gt=0, le=500)
    tol: float = param(1e-6, gt=0, lt=1)

    mass_preserving: ClassVar[bool] = True

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Info]:
        """See `Propagation.propagate`."""
        weights = self.poisson()
        isolated = op.isolated.unsqueeze(1)
        term = seeds
        scores = weights[0] * seeds
        for weight in weights[1:]:
            term = torch.where(isolated, term, op.pt(term))
            scores = scores + weight * term
        return scores, Info.exact(seeds.shape[1], len(weights) - 1, seeds.device)

    def poisson(self) -> list[float]:
        """Return the weights e^{−t} t^k / k! for k = 0 … K, the last with the tail's mass added."""
        weights: list[float] = []
        left = 1.0
        while left > self.tol or len(weights) <= self.t:
            k = len(weights)
            weights.append(math.exp(k * math.log(self.t) - self.t - math.lgamma(k + 1)))
            left = 1.0 - math.fsum(weights)
        weights[-1] += max(left, 0.0)
        return weights

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`: a dense matrix exponential."""
        from scipy.linalg import expm

        transition = column_stochastic(weights)
        transition[np.diag_indices_from(transition)] += weights.sum(0) == 0
        return expm(-self.t * (np.eye(len(weights)) - transition)) @ seeds

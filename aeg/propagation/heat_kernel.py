"""Heat-kernel PageRank."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.special import gammainc
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.kernels import Equation
from aeg.core.kernels.memory import Space
from aeg.core.operator import Operator
from aeg.propagation.base import METHODS, Context, Info
from aeg.propagation.layout import Layout, walk_layout
from aeg.propagation.linear import ENGINES, Linear
from aeg.propagation.ppr import column_stochastic

_NESTED = 50.0  # diffusion time up to which e^t leaves room in float32


@METHODS.register("heat_kernel")
@dataclass(frozen=True)
class HeatKernel(Linear):
    """Heat kernel: exp(−t (I − Pᵀ)) s = e^{−t} Σ_k t^k / k! (Pᵀ)^k s, isolated rows of P the identity.

    The series has only non-negative terms; it is cut where twice the Poisson tail falls below `tol`, and the tail's
    mass is given to the last term: a column then sums to 1 and errs in L1 by twice the tail at most. (Folded, columns
    are kept to `tol`, and sum to 1 only to that.)

    Attributes:
        t: diffusion time, > 0.
        tol: bound on the L1 error.
        engine: see `Linear`.

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
    engine: str = param("auto", choices=ENGINES)

    mass_preserving: ClassVar[bool] = True

    def mapped(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Tensor, Info]:
        """See `Linear.mapped`."""
        weights, degree = self.poisson(), op.walk_degree
        info = Info.exact(seeds.shape[1], len(weights) - 1, seeds.device)
        info.residual.fill_(2 * self._tail(len(weights)))
        if self.t > _NESTED:
            return self._summed(op, seeds, weights), degree, info
        # Nested: with y = D⁻¹ s, g_K = y and g_k = y + w_{k+1} / w_k D⁻¹ W g_{k+1} the score is w_0 D g_0.
        space = context.space or Space()
        inverse, rooms = (
            (1 / degree).to(seeds.dtype),
            [space.take(f"term {at}", *seeds.shape, like=seeds) for at in (0, 1)],
        )
        term = seeds
        for k in range(len(weights) - 2, -1, -1):
            equation = Equation(inverse, degree, seeds, weights[k + 1] / weights[k])
            op.kernel.affine(equation, term, rooms[k % 2])
            term = rooms[k % 2]
        return term, torch.where(op.isolated, 1.0, weights[0] * degree), info

    def _summed(self, op: Operator, seeds: Tensor, weights: list[float]) -> Tensor:
        """Σ_k w_k (D⁻¹ W)^k y, term by term: for weights whose ratios leave the range of float32."""
        isolated, term = op.isolated.unsqueeze(1), seeds
        inverse = (1 / op.walk_degree).to(seeds.dtype).unsqueeze(1)
        scores = weights[0] * seeds
        for weight in weights[1:]:
            term = torch.where(isolated, term, op.w(term) * inverse)
            scores = scores + weight * term
        return scores

    @property
    def steps(self) -> float:
        """See `Linear.steps`."""
        return float(len(self.poisson()) - 1)

    def layout(self, op: Operator) -> Layout:
        """See `Propagation.layout`: an order that suits the caches, rows over their degree."""
        return walk_layout(op)

    def poisson(self) -> list[float]:
        """Return the weights e^{−t} t^k / k! for k = 0 … K, the last with the tail's mass added."""
        terms = int(self.t) + 1
        while 2 * self._tail(terms) > self.tol:
            terms += 1
        weights = [math.exp(k * math.log(self.t) - self.t - math.lgamma(k + 1)) for k in range(terms)]
        weights[-1] += self._tail(terms)
        return weights

    def _tail(self, terms: int) -> float:
        """The mass beyond so many terms: the regularised incomplete gamma function."""
        return float(gammainc(terms, self.t))

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`: a dense matrix exponential."""
        from scipy.linalg import expm

        transition = column_stochastic(weights)
        transition[np.diag_indices_from(transition)] += weights.sum(0) == 0
        return expm(-self.t * (np.eye(len(weights)) - transition)) @ seeds

"""Katz centrality from seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.kernels import Equation
from aeg.core.operator import Operator
from aeg.propagation.base import METHODS, Context, Info, Propagation
from aeg.propagation.chebyshev import chebyshev, precision


@METHODS.register("katz")
@dataclass(frozen=True)
class Katz(Propagation):
    """Katz: Σ_{l ≥ 1} (a W)^l s = (I − a W)⁻¹ s − s, with a = attenuation / λ_max(W).

    Solved by Chebyshev iteration on W / λ_max, whose spectrum lies in [−1, 1].

    Attributes:
        attenuation: in (0, 1); near 1 the walk ranks by global centrality.
        tol: bound on the residual's L1 norm over 1 − attenuation (relative to seeds of sum 1).
        max_iter: products at most; a column that needs more is flagged as not converged.

    Source:
        Katz, A new status index derived from sociometric analysis, Psychometrika 18 (1953).

    Example:
        >>> import torch
        >>> op = Operator.from_edges(2, torch.tensor([[0], [1]]))
        >>> scores, _ = Katz(attenuation=0.5, tol=1e-9)(op, torch.tensor([[1.0], [0.0]]))
        >>> [round(x, 4) for x in scores.squeeze().tolist()]
        [0.3333, 0.6667]
    """

    attenuation: float = param(0.5, gt=0, lt=1)
    tol: float = param(1e-5, gt=0)
    max_iter: int = param(1000, ge=4)

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Info]:
        """See `Propagation.propagate`."""
        top = op.lambda_max
        if top == 0:
            return torch.zeros_like(seeds), Info.exact(seeds.shape[1], 0, seeds.device)
        # Solving for the sum from l = 1 on, with b = a W s, keeps isolated seeds at exactly zero.
        first = self.attenuation / top * op.w(seeds.to(precision(self.tol)))
        ones = torch.ones(op.num_nodes, dtype=torch.float64, device=op.device)
        equation = Equation((ones / top).to(first.dtype), ones, first, self.attenuation)
        bound = 1 / (1 - self.attenuation)
        z, info = chebyshev(op.kernel, equation, self.tol, self.max_iter, bound, space=context.space)
        return z.to(torch.float32, copy=True).clamp_(min=0), info

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`: the closed form by a dense solve."""
        top = np.linalg.eigvalsh(weights)[-1] if len(weights) else 0.0
        if top <= 0:
            return np.zeros_like(seeds)
        attenuated = self.attenuation / top * weights
        return np.linalg.solve(np.eye(len(weights)) - attenuated, attenuated @ seeds)

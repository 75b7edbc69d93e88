"""Personalised PageRank, solved to a tolerance by Chebyshev iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.operator import Operator
from aeg.propagation.base import METHODS, Context, Info, Propagation
from aeg.propagation.chebyshev import chebyshev


@METHODS.register("ppr")
@dataclass(frozen=True)
class PPR(Propagation):
    """Personalised PageRank: the fixed point of r = ρ π + (1 − ρ) Pᵀ r.

    The linear core x = ρ (I − (1 − ρ) Pᵀ)⁻¹ π is solved by Chebyshev iteration (Pᵀ is similar to the symmetric
    S, so its spectrum is real and lies in [−1, 1]); the score is max(x, 0) scaled to sum 1, which is exactly
    "the mass of an isolated node returns to the seeds", as in igraph's PRPACK and in NetworkX.

    Attributes:
        restart: ρ in (0, 1), the probability of jumping back to the seeds. Eq. 7 sets 0.3; the published
            experiments ran igraph with `damping=0.3`, which is restart 0.7.
        tol: bound on the L1 error of a column before the final scaling (L1 norm of the residual over ρ).
        max_iter: products at most; a column that needs more is flagged as not converged.

    Source:
        Paper, section 3.3, eq. 7.

    Example:
        >>> import torch
        >>> op = Operator.from_edges(4, torch.tensor([[0, 1], [1, 2]]))
        >>> scores, _ = PPR(restart=0.5, tol=1e-7)(op, torch.tensor([[0.5], [0.0], [0.0], [0.5]]))
        >>> [round(x, 4) for x in scores.squeeze().tolist()]
        [0.3889, 0.2222, 0.0556, 0.3333]
    """

    restart: float = param(0.3, gt=0, lt=1)
    tol: float = param(1e-5, gt=0)
    max_iter: int = param(1000, ge=4)

    mass_preserving: ClassVar[bool] = True

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Info]:
        """See `Propagation.propagate`."""
        core, info = self.core(op, seeds)
        core.clamp_(min=0)
        total = core.sum(0, dtype=torch.float64)
        return core / torch.where(total == 0, 1.0, total).to(torch.float32), info

    def core(self, op: Operator, columns: Tensor) -> tuple[Tensor, Info]:
        """Return the linear core x = ρ (I − (1 − ρ) Pᵀ)⁻¹ b of signed columns b [nodes, columns], unscaled."""
        return chebyshev(
            op.pt, self.restart * columns, 1 - self.restart, self.tol, self.max_iter, bound=1 / self.restart
        )

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`: a dense solve."""
        transition = column_stochastic(weights)
        core = np.linalg.solve(np.eye(len(weights)) - (1 - self.restart) * transition, self.restart * seeds)
        total = core.sum(0)
        return core / np.where(total == 0, 1, total)


def column_stochastic(weights: np.ndarray) -> np.ndarray:
    """Return Pᵀ = W D⁻¹ in float64; columns of isolated nodes are zero.

    Example:
        >>> column_stochastic(np.array([[0.0, 2.0], [2.0, 0.0]])).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    degree = weights.sum(0)
    return weights * np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)

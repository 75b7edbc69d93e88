"""Label propagation with local and global consistency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.operator import Operator
from aeg.propagation.base import METHODS, Context, Info
from aeg.propagation.chebyshev import chebyshev, chebyshev_steps
from aeg.propagation.layout import Layout
from aeg.propagation.linear import ENGINES, Linear
from aeg.propagation.walk_system import WalkSystem, walk_system


@METHODS.register("label_propagation")
@dataclass(frozen=True)
class LabelPropagation(Linear):
    """Label propagation: the fixed point of F = γ S F + (1 − γ) Y, with S = D^{-1/2} W D^{-1/2} and Y the seeds.

    Attributes:
        gamma: γ in (0, 1), how much comes from neighbours.
        tol: bound on the residual's L1 norm over 1 − γ (relative to seeds of sum 1).
        max_iter: products at most; a column that needs more is flagged as not converged.
        engine: see `Linear`.

    Source:
        Zhou et al., Learning with local and global consistency, NIPS 2003, eq. 4.

    Example:
        >>> import torch
        >>> op = Operator.from_edges(2, torch.tensor([[0], [1]]))
        >>> scores, _ = LabelPropagation(gamma=0.5, tol=1e-9)(op, torch.tensor([[1.0], [0.0]]))
        >>> [round(x, 4) for x in scores.squeeze().tolist()]
        [0.6667, 0.3333]
    """

    gamma: float = param(0.7, gt=0, lt=1)
    tol: float = param(1e-5, gt=0)
    max_iter: int = param(1000, ge=4)
    engine: str = param("auto", choices=ENGINES)

    def mapped(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Tensor, Info]:
        """See `Linear.mapped`."""
        # Solved for z = D^{-1/2} F, with degree 1 for an isolated node: (D − γ W) z = (1 − γ) D^{1/2} Y.
        system = self._system(op)
        root, f, unit = system.degree.sqrt(), system.weighed(seeds, lambda: self._weights(system)), self._unit(system)
        equation = system.equation(f, 1 / root[: system.kept], unit)
        bound = 1 / (1 - self.gamma)
        z, info = chebyshev(system.kernel, equation, self.tol, self.max_iter, bound, space=context.space)
        return system.complete(z, f), root / unit, info

    @property
    def steps(self) -> float:
        """See `Linear.steps`."""
        return chebyshev_steps(self.gamma, self.tol)

    def layout(self, op: Operator) -> Layout:
        """See `Propagation.layout`."""
        system = self._system(op)
        return system.layout(op, self._weights(system))

    def _weights(self, system: WalkSystem) -> Tensor:
        return self._unit(system) * (1 - self.gamma) * system.degree.sqrt() * system.inverse

    def _unit(self, system: WalkSystem) -> float:
        return system.unit(1.0, 0.5)  # no score D^{1/2} z is above 1

    def _system(self, op: Operator) -> WalkSystem:
        return walk_system(op, self.gamma, self.tol)

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`: a dense solve."""
        degree = weights.sum(0)
        root = np.sqrt(np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0))
        symmetric = weights * root * root[:, None]
        return np.linalg.solve(np.eye(len(weights)) - self.gamma * symmetric, (1 - self.gamma) * seeds)

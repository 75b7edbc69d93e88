"""Katz centrality from seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.kernels.memory import Space
from aeg.core.kernels.threads import all_threads
from aeg.core.operator import Operator
from aeg.propagation.base import METHODS, Context, Info
from aeg.propagation.chebyshev import chebyshev, chebyshev_steps
from aeg.propagation.layout import Layout
from aeg.propagation.linear import ENGINES, Linear
from aeg.propagation.walk_system import WalkSystem, walk_system


@METHODS.register("katz")
@dataclass(frozen=True)
class Katz(Linear):
    """Katz: Σ_{l ≥ 1} (a W)^l s = (I − a W)⁻¹ s − s, with a = attenuation / λ_max(W).

    (λ_max − attenuation · W) z = λ_max s is solved by Chebyshev iteration, low-degree nodes eliminated
    (`aeg.propagation.walk_system`), for z = s + score.

    Attributes:
        attenuation: in (0, 1); near 1 the walk ranks by global centrality.
        tol: bound on the residual's L1 norm over 1 − attenuation (relative to seeds of sum 1).
        max_iter: products at most; a column that needs more is flagged as not converged.
        engine: see `Linear`.

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
    engine: str = param("auto", choices=ENGINES)

    def mapped(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Tensor, Info]:
        """See `Linear.mapped`."""
        ones = torch.ones(len(seeds), dtype=torch.float64, device=seeds.device)
        if op.lambda_max == 0:
            return torch.zeros_like(seeds), ones, Info.exact(seeds.shape[1], 0, seeds.device)
        system = self._system(op)
        unit, weights = self._unit(system), self._weights(system)
        f = system.weighed(seeds, lambda: weights)
        given = (context.space or Space()).take("given", *f.shape, like=f)
        with all_threads():
            torch.mul(f, (unit / weights).to(f.dtype).unsqueeze(1), out=given)
        equation = system.equation(f, ones[: system.kept] / op.lambda_max, unit)
        bound = 1 / (1 - self.attenuation)
        z, info = chebyshev(system.kernel, equation, self.tol, self.max_iter, bound, space=context.space)
        z = system.complete(z, f)
        with all_threads():
            z.sub_(given)  # where no walk leads z is the seed, bit for bit
        return z, ones / unit, info

    @property
    def steps(self) -> float:
        """See `Linear.steps`."""
        return chebyshev_steps(self.attenuation, self.tol)

    def layout(self, op: Operator) -> Layout:
        """See `Propagation.layout`."""
        if op.lambda_max == 0:
            return Layout(op)
        system = self._system(op)
        return system.layout(op, self._weights(system))

    def _weights(self, system: WalkSystem) -> Tensor:
        """What makes the right side λ s: λ / Δ, which is 1 where nothing was eliminated beside a node."""
        level = system.degree
        return self._unit(system) * level / torch.cat([system.diagonal, level[system.kept :]])

    def _unit(self, system: WalkSystem) -> float:
        return system.unit(1 / (1 - self.attenuation), 0.0)  # the bound on the L2 norm of the solution

    def _system(self, op: Operator) -> WalkSystem:
        return walk_system(op, self.attenuation, self.tol, op.lambda_max)

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`: the closed form by a dense solve."""
        top = np.linalg.eigvalsh(weights)[-1] if len(weights) else 0.0
        if top <= 0:
            return np.zeros_like(seeds)
        attenuated = self.attenuation / top * weights
        return np.linalg.solve(np.eye(len(weights)) - attenuated, attenuated @ seeds)

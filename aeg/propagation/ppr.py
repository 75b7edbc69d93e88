"""Personalised PageRank, solved to a tolerance by Chebyshev iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.kernels import compiled
from aeg.core.kernels.memory import Space
from aeg.core.kernels.tiles import Scaled, column_mass
from aeg.core.operator import Operator
from aeg.core.seeds import Seeds
from aeg.propagation.base import METHODS, Context, Info
from aeg.propagation.chebyshev import chebyshev, chebyshev_steps
from aeg.propagation.engines import choose_engine
from aeg.propagation.fitting import tile_width
from aeg.propagation.layout import Layout, check_shape
from aeg.propagation.linear import ENGINES, Linear
from aeg.propagation.push import Push
from aeg.propagation.ranking_rule import RankingRule
from aeg.propagation.walk_system import WalkSystem, walk_system


@METHODS.register("ppr")
@dataclass(frozen=True)
class PPR(Linear):
    """Personalised PageRank: the fixed point of r = ρ π + (1 − ρ) Pᵀ r.

    The linear core x = ρ (I − (1 − ρ) Pᵀ)⁻¹ π is solved by Chebyshev iteration (Pᵀ is similar to the symmetric
    S, so its spectrum is real and lies in [−1, 1]); the score is max(x, 0) scaled to sum 1, which is exactly
    "the mass of an isolated node returns to the seeds", as in igraph's PRPACK and in NetworkX.

    Engines: those of `Linear`, and `push`, which walks over the neighbourhood of sparse seeds only
    (`aeg.propagation.push`); it pays for few queries on a large graph.

    Attributes:
        restart: ρ in (0, 1), the probability of jumping back to the seeds. Eq. 7 sets 0.3; the published
            experiments ran igraph with `damping=0.3`, which is restart 0.7.
        tol: bound on the L1 error of a column before the final scaling (L1 norm of the residual over ρ); after it
            the error is at most twice that.
        max_iter: products at most; a column that needs more is flagged as not converged.
        engine: `auto`, `iterate`, `folded` or `push`; the last two need `Seeds`, and `push` sparse ones.
        stop: `tolerance`, or `ranking`, where `search` may stop as soon as the k best rows are certain
            (`aeg.propagation.ranking_rule`); their scores are then less exact than `tol`.
        epsilon: threshold of `push`, |r̂_v − r_v| ≤ ε d_v before the final scaling; null pushes down to `tol`.

    Raises:
        DataError: when called, if the engine does not take such seeds.

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
    engine: str = param("auto", choices=(*ENGINES, "push"))
    stop: str = param("tolerance", choices=("tolerance", "ranking"))
    epsilon: float | None = param(None, gt=0)

    mass_preserving: ClassVar[bool] = True

    def tiles(
        self, op: Operator, seeds: Tensor | Seeds, context: Context | None = None, rows: int | None = None
    ) -> Iterator[tuple[int, Tensor, Info]]:
        """See `Propagation.tiles`."""
        if self._chosen(op, seeds, rows) == "push" and isinstance(seeds, Seeds):
            check_shape(op, seeds)
            tile = None if context is None else context.tile
            push = Push(self.restart, self.epsilon, self.tol)
            yield from push.tiles(op, seeds.to(op.device), tile or tile_width(op, 16), rows)
            return
        yield from super().tiles(op, seeds, context, rows)

    @property
    def steps(self) -> float:
        """See `Linear.steps`."""
        return chebyshev_steps(1 - self.restart, self.tol)

    @property
    def kept(self) -> tuple[float, float]:
        """See `Linear.kept`: a walk from an isolated node is there at its end only if it has not moved."""
        return 1.0, self.restart

    def layout(self, op: Operator) -> Layout:
        """See `Propagation.layout`."""
        system = self._system(op)
        return system.layout(op, self._unit(system) * system.inverse)

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Scaled, Info]:
        """See `Propagation.propagate`."""
        system, rule = self._system(op), None
        if self.stop == "ranking" and context.ranked is not None:
            rule = partial(RankingRule, context.ranked, context.rows, system)
        z, info = self._solve(system, seeds, context.space, rule)
        mass = column_mass(z, system.degree, compiled(system.kernel))
        factor = 1 / torch.where(mass == 0, 1.0, mass)
        return Scaled(z, system.degree, factor), replace(info, engine="iterate")

    def mapped(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Tensor, Info]:
        """See `Linear.mapped`: the linear core x = ρ (I − (1 − ρ) Pᵀ)⁻¹ b, unscaled."""
        system = self._system(op)
        z, info = self._solve(system, seeds, context.space)
        return z, self.restart * system.degree / self._unit(system), info

    def _chosen(self, op: Operator, seeds: Tensor | Seeds, rows: int | None) -> str:
        return choose_engine(self.engine, op, seeds, rows, self.steps, push=True)

    def _unit(self, system: WalkSystem) -> float:
        return system.unit(1 / self.restart, 1.0)  # ρ D z sums to 1 at most

    def _system(self, op: Operator) -> WalkSystem:
        return walk_system(op, 1 - self.restart, self.tol)

    def _solve(
        self,
        system: WalkSystem,
        seeds: Tensor,
        space: Space | None,
        rule: Callable[[Tensor], RankingRule] | None = None,
    ) -> tuple[Tensor, Info]:
        """Solve (D − (1 − ρ) W) z = unit · π for a tile of seeds π by `layout`, which is overwritten.

        The core is x = ρ D z / unit; its L1 error is at most the L1 norm of the residual of π.
        """
        unit = self._unit(system)
        f = system.weighed(seeds, lambda: unit * system.inverse)
        equation = system.equation(f, torch.ones_like(system.diagonal), unit)
        stop = None if rule is None else rule(f)
        z, info = chebyshev(system.kernel, equation, self.tol, self.max_iter, 1.0, stop, space)
        return system.complete(z, f), info

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

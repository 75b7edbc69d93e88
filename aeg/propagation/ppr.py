"""Personalised PageRank, solved to a tolerance by Chebyshev iteration."""

from __future__ import annotations

import math
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
from aeg.core.kernels.threads import compiled_threads
from aeg.core.kernels.tiles import Scaled, column_mass
from aeg.core.operator import Operator
from aeg.core.seeds import Seeds
from aeg.propagation.base import METHODS, Context, Info, Propagation
from aeg.propagation.chebyshev import chebyshev, precision, rate
from aeg.propagation.engines import ENGINES, choose_engine
from aeg.propagation.fitting import tile_width
from aeg.propagation.folded import TILE as FOLDED_TILE
from aeg.propagation.folded import Folded
from aeg.propagation.layout import Layout, check_shape
from aeg.propagation.push import Push
from aeg.propagation.ranking_rule import RankingRule
from aeg.propagation.walk_system import WalkSystem, walk_system


@METHODS.register("ppr")
@dataclass(frozen=True)
class PPR(Propagation):
    """Personalised PageRank: the fixed point of r = ρ π + (1 − ρ) Pᵀ r.

    The linear core x = ρ (I − (1 − ρ) Pᵀ)⁻¹ π is solved by Chebyshev iteration (Pᵀ is similar to the symmetric
    S, so its spectrum is real and lies in [−1, 1]); the score is max(x, 0) scaled to sum 1, which is exactly
    "the mass of an isolated node returns to the seeds", as in igraph's PRPACK and in NetworkX.

    Engines: `iterate` is the iteration above, for any seeds. `folded` keeps what queries are mixtures of
    (`aeg.propagation.folded`) and answers without a walk; it pays where all atoms are seeded by many queries. `push`
    walks over the neighbourhood of sparse seeds only (`aeg.propagation.push`); it pays for few queries on a large
    graph. `auto` takes the one that should cost least for these seeds and this graph; the info says which it was.

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
    engine: str = param("auto", choices=ENGINES)
    stop: str = param("tolerance", choices=("tolerance", "ranking"))
    epsilon: float | None = param(None, gt=0)

    mass_preserving: ClassVar[bool] = True

    def tiles(
        self, op: Operator, seeds: Tensor | Seeds, context: Context | None = None, rows: int | None = None
    ) -> Iterator[tuple[int, Tensor, Info]]:
        """See `Propagation.tiles`."""
        engine = choose_engine(self.engine, op, seeds, rows, self.steps)
        if engine == "iterate" or not isinstance(seeds, Seeds):
            yield from super().tiles(op, seeds, context, rows)
            return
        check_shape(op, seeds)
        seeds, tile = seeds.to(op.device), None if context is None else context.tile
        if engine == "push":
            yield from Push(self.restart, self.epsilon, self.tol).tiles(op, seeds, tile or tile_width(op, 16), rows)
            return
        yield from self._kept(op, op.num_nodes if rows is None else rows).tiles(seeds, tile or FOLDED_TILE)

    def settled(self, op: Operator, seeds: Tensor | Seeds, rows: int | None = None) -> PPR:
        """See `Propagation.settled`: the engine; what it keeps of the graph is computed for all queries at once."""
        method = replace(self, engine=choose_engine(self.engine, op, seeds, rows, self.steps))
        if method.engine == "folded" and isinstance(seeds, Seeds):
            method._kept(op, op.num_nodes if rows is None else rows).prepare(seeds.to(op.device))
        return method

    @property
    def steps(self) -> float:
        """Products that the iteration should need for one column, roughly."""
        return 1.3 * math.log(self.tol) / math.log(rate(1 - self.restart))

    def layout(self, op: Operator) -> Layout:
        """See `Propagation.layout`."""
        system = self._system(op)
        return system.layout(op, self._unit(system) * system.inverse)

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Scaled, Info]:
        """See `Propagation.propagate`."""
        system, rule = self._system(op), None
        if self.stop == "ranking" and context.ranked is not None:
            rule = partial(RankingRule, context.ranked, context.rows, system)
        unit = self._unit(system)
        z, info = self._solve(system, system.weighed(seeds, unit * system.inverse), rule, context.space, unit)
        mass = column_mass(z, system.degree, compiled(system.kernel))
        factor = 1 / torch.where(mass == 0, 1.0, mass)
        return Scaled(z, system.degree, factor), replace(info, engine="iterate")

    def _kept(self, op: Operator, rows: int) -> Folded:
        """The folded columns that the operator remembers."""
        key = ("folded", self, rows)
        if key not in op.memo:
            op.memo[key] = self.folded(op, rows)
        return op.memo[key]

    def folded(self, op: Operator, rows: int) -> Folded:
        """Return the core's columns that queries are mixtures of, on the first `rows` nodes; nothing is solved yet."""
        return Folded(op, partial(replace(self, tol=self.tol / 8).core, op), rows, self.restart, self.tol)

    def core(self, op: Operator, columns: Tensor) -> tuple[Tensor, Info]:
        """Return the linear core x = ρ (I − (1 − ρ) Pᵀ)⁻¹ b of signed columns b [nodes, columns], unscaled."""
        system, space = self._system(op), Space()
        width = tile_width(op, columns.shape[1])
        f = space.take("right side", len(columns), width, like=columns, dtype=precision(self.tol))
        inverse = system.inverse.to(f.dtype).unsqueeze(1)
        settled = (self.restart * system.degree).to(f.dtype).unsqueeze(1)
        cores, infos = [], []
        with compiled_threads():
            for part in columns.split(width, dim=1):
                f.zero_()  # the last tile is padded, as compiled loops know some widths only
                placed = (
                    part if system.position is None else torch.empty_like(part).index_copy_(0, system.position, part)
                )
                f[:, : part.shape[1]] = placed
                z, info = self._solve(system, f.mul_(inverse), space=space)
                core = (z * settled).to(torch.float32)
                core = core if system.position is None else core[system.position]
                cores.append(core[:, : part.shape[1]])
                infos.append(info.cut(part.shape[1]))
        return torch.cat(cores, 1), Info.join(infos)

    def _unit(self, system: WalkSystem) -> float:
        """A unit for the solutions z of seeds that sum to 1, where ρ D z sums to 1 at most."""
        return system.unit(1 / self.restart)

    def _system(self, op: Operator) -> WalkSystem:
        return walk_system(op, 1 - self.restart, self.tol)

    def _solve(
        self,
        system: WalkSystem,
        f: Tensor,
        rule: Callable[[Tensor], RankingRule] | None = None,
        space: Space | None = None,
        unit: float = 1.0,
    ) -> tuple[Tensor, Info]:
        """Solve (D − (1 − ρ) W) z = g for g times `unit` and the system's inverse diagonal, `f`, which is overwritten.

        The core is x = ρ D z / unit; its L1 error is at most the L1 norm of the residual of g.
        """
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

"""Plain power iteration of eq. 7, the paper's own variant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.kernels import Equation
from aeg.core.kernels.memory import Space
from aeg.core.kernels.tiles import Scaled
from aeg.core.operator import Operator
from aeg.propagation.base import METHODS, Context, Info, Propagation
from aeg.propagation.layout import Layout, walk_layout
from aeg.propagation.ppr import column_stochastic


@METHODS.register("power_iteration")
@dataclass(frozen=True)
class PowerIteration(Propagation):
    """Power iteration: r₀ = π, r_{k+1} = ρ π + (1 − ρ) (Pᵀ r_k + isolated mass of r_k · π).

    Attributes:
        restart: ρ in (0, 1).
        num_iter: steps.
        tol: a column may stop early when a step moves it by at most this much in L1; null runs all steps.

    Source:
        Paper, eq. 7 iterated; `propagation_num_iter=20` of Table 5.

    Example:
        >>> import torch
        >>> op = Operator.from_edges(2, torch.tensor([[0], [1]]))
        >>> scores, info = PowerIteration(restart=0.5, num_iter=2)(op, torch.tensor([[1.0], [0.0]]))
        >>> scores.squeeze().tolist(), int(info.iterations)
        ([0.75, 0.25], 2)
    """

    restart: float = param(0.3, gt=0, lt=1)
    num_iter: int = param(20, ge=1)
    tol: float | None = param(None, gt=0)

    linear: ClassVar[bool] = True
    mass_preserving: ClassVar[bool] = True

    def layout(self, op: Operator) -> Layout:
        """See `Propagation.layout`: an order that suits the caches, rows over their degree."""
        return walk_layout(op)

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Scaled, Info]:
        """See `Propagation.propagate`."""
        # In z = D⁻¹ r, y = D⁻¹ π: z_{k+1} = β_k y + (1 − ρ) D⁻¹ W z_k with β_k = ρ + (1 − ρ) times the mass of r_k on
        # isolated nodes. These have r_k = i_k π with i_{k+1} = β_k, as nothing else comes to them.
        space, columns = context.space or Space(), seeds.shape[1]
        room = partial(space.take, like=seeds)
        degree, c = op.walk_degree, 1 - self.restart
        inverse, right = (1 / degree).to(seeds.dtype), room("right side", *seeds.shape)
        alone, share = _isolated_mass(op, seeds), torch.ones(columns, dtype=torch.float64, device=seeds.device)
        looked = _Looked(columns, seeds.device, self.tol)
        z = seeds
        for step in range(1, self.num_iter + 1):
            if alone is not None or step == 1:
                share = self.restart + c * share * (0.0 if alone is None else alone)
                torch.mul(seeds, share.to(seeds.dtype), out=right)
            equation = Equation(inverse, degree, right, c)
            moved = room(f"iterate {step % 2}", *seeds.shape)
            if self.tol is None and step < self.num_iter:
                op.kernel.affine(equation, z, moved)
                z = moved
                continue
            change = op.kernel.check(equation, z, room("same", *seeds.shape).zero_(), 1.0, moved)
            z = looked.note(step, z, moved, change)
            if looked.over(step):
                break
        return Scaled(z, degree, torch.ones_like(z[0])), looked.info

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`: the same steps in float64."""
        return power_iterates(weights, seeds, self.restart, self.num_iter)[-1]


def _isolated_mass(op: Operator, seeds: Tensor) -> Tensor | None:
    """The mass of a tile on isolated nodes, float64 [columns]; None where it is known to be 0."""
    if "isolated nodes" not in op.memo:
        op.memo["isolated nodes"] = op.isolated.nonzero().squeeze(1)
    nodes: Tensor = op.memo["isolated nodes"]
    if not len(nodes):
        return None
    mass = seeds[nodes].sum(0, dtype=torch.float64)
    return mass if seeds.device.type == "cuda" or bool((mass > 0).any()) else None  # looking would wait for the device


class _Looked:
    """The iterate of each column at the step at which it was done."""

    def __init__(self, columns: int, device: torch.device, tol: float | None) -> None:
        self.tol, self.every = tol, 1 if device.type == "cpu" else 4  # a look waits for the device
        self.done = torch.zeros(columns, dtype=torch.bool, device=device)
        self.iterations = torch.zeros(columns, dtype=torch.int64, device=device)
        self.residual = torch.full((columns,), torch.inf, dtype=torch.float64, device=device)
        self.some = False

    def note(self, step: int, z: Tensor, moved: Tensor, change: Tensor) -> Tensor:
        """Take note of a step and return the iterate, in which columns that were done have not moved."""
        self.residual = torch.where(self.done, self.residual, change)
        self.iterations = torch.where(self.done, self.iterations, step)
        if self.some:
            moved.copy_(torch.where(self.done, z, moved))
        if self.tol is not None:
            self.done = self.done | (change <= self.tol)
            self.some = z.device.type == "cuda" or bool(self.done.any())
        return moved

    def over(self, step: int) -> bool:
        """Tell whether all columns are done."""
        return self.tol is not None and step % self.every == 0 and bool(self.done.all())

    @property
    def info(self) -> Info:
        met = torch.ones_like(self.done) if self.tol is None else self.residual <= self.tol
        return Info(self.iterations, self.residual, met)


def power_iterates(weights: np.ndarray, seeds: np.ndarray, restart: float, steps: int) -> np.ndarray:
    """Return the iterates r₀ … r_steps in float64, [steps + 1, nodes, columns]."""
    transition = column_stochastic(weights)
    isolated = weights.sum(0) == 0
    iterates = [seeds]
    for _ in range(steps):
        moved = transition @ iterates[-1] + iterates[-1][isolated].sum(0) * seeds
        iterates.append(restart * seeds + (1 - restart) * moved)
    return np.stack(iterates)

"""Plain power iteration of eq. 7, the paper's own variant."""

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

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Info]:
        """See `Propagation.propagate`."""
        scores = seeds
        columns, device = seeds.shape[1], seeds.device
        done = torch.zeros(columns, dtype=torch.bool, device=device)
        iterations = torch.zeros(columns, dtype=torch.int64, device=device)
        residual = torch.full((columns,), torch.inf, dtype=torch.float64, device=device)
        isolated = op.isolated.to(torch.float32).unsqueeze(0)
        look_every = 1 if device.type == "cpu" else 4  # a look waits for the device; done columns do not change
        for step in range(1, self.num_iter + 1):
            moved = op.pt(scores) + (isolated @ scores) * seeds
            moved = self.restart * seeds + (1 - self.restart) * moved
            change = (moved - scores).abs().sum(0, dtype=torch.float64)
            residual = torch.where(done, residual, change)
            iterations = torch.where(done, iterations, step)
            scores = torch.where(done, scores, moved)
            if self.tol is not None:
                done = done | (change <= self.tol)
                if step % look_every == 0 and bool(done.all()):
                    break
        met = torch.ones_like(done) if self.tol is None else residual <= self.tol
        return scores, Info(iterations, residual, met)

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`: the same steps in float64."""
        return power_iterates(weights, seeds, self.restart, self.num_iter)[-1]


def power_iterates(weights: np.ndarray, seeds: np.ndarray, restart: float, steps: int) -> np.ndarray:
    """Return the iterates r₀ … r_steps in float64, [steps + 1, nodes, columns]."""
    transition = column_stochastic(weights)
    isolated = weights.sum(0) == 0
    iterates = [seeds]
    for _ in range(steps):
        moved = transition @ iterates[-1] + iterates[-1][isolated].sum(0) * seeds
        iterates.append(restart * seeds + (1 - restart) * moved)
    return np.stack(iterates)

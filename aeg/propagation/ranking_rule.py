"""Stopping an iteration when the k best rows are certain, whatever their scores will be."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from aeg.core.kernels import Equation
from aeg.core.ranking import TIE
from aeg.propagation.walk_system import WalkSystem


@dataclass(frozen=True, eq=False)
class RankingRule:
    """A column is done when no row outside its current k best can still enter them.

    For x = ρ D z and the residual r of (D − (1 − ρ) W) z = π in float64, D^{-1/2} r is the residual of the symmetric
    system (I − (1 − ρ) S) y = D^{-1/2} π in y = D^{1/2} z = D^{-1/2} x / ρ. The eigenvalues of its matrix are at
    least ρ, so ‖y − y*‖₂ ≤ ‖D^{-1/2} r‖₂ / ρ, and for every node

        |x_v − x*_v| ≤ √d_v · ‖D^{-1/2} r‖₂  =:  √d_v · B.

    r is zero on the nodes that were eliminated, isolated ones among them. With L the k-th largest lower bound
    x_v − √d_v B of the ranked rows, the k best are certain as soon as exactly k rows have an upper bound above
    L · (1 − 1e-7) (rows whose scores are closer than that are a tie). r is computed in float64 from the iterate as
    it is, so rounding in the iteration cannot break the bound; the system itself is taken as it is kept, in float32.

    Attributes:
        k: how many rows are wanted.
        rows: int64, the rows that are ranked; None for all.
        system: the system.
        f: its right side as `WalkSystem.equation` left it.

    Source:
        The bound is the residual bound for symmetric positive definite systems (Golub and Van Loan, Matrix
        Computations, 4th ed., section 2.6).
    """

    k: int
    rows: Tensor | None
    system: WalkSystem
    f: Tensor

    def __call__(self, equation: Equation, z: Tensor) -> Tensor:
        """Return bool [columns]: whether the k best ranked rows of iterate `z` are certain."""
        system, c = self.system, self.system.c
        z, diagonal, degree = z.to(torch.float64), system.diagonal.unsqueeze(1), system.degree.unsqueeze(1)
        moved = system.kernel.product(z).mul_(c / diagonal).add_(equation.b)
        residual = (moved - z).mul_(diagonal)
        bound = residual.square_().div_(degree[: system.kept]).sum(0).sqrt()
        whole = system.complete(z, self.f.to(torch.float64, copy=True))
        rows = slice(None) if self.rows is None else self.rows
        weight = degree[rows]
        score, reach = whole[rows] * weight * (1 - c), weight.sqrt() * bound
        if len(score) <= self.k:
            return torch.ones_like(bound, dtype=torch.bool)
        lowest = torch.topk(score - reach, self.k, dim=0).values[-1]
        return (lowest > 0) & ((score + reach > lowest * (1 - TIE)).sum(0) <= self.k)

"""Stopping an iteration when the k best rows are certain, whatever their scores will be."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from aeg.core.kernels import Equation, Residual
from aeg.core.operator import Operator
from aeg.core.ranking import TIE


@dataclass(frozen=True, eq=False)
class RankingRule:
    """A column is done when no row outside its current k best can still enter them.

    For x = D z and the residual r = ρπ − (I − (1 − ρ) Pᵀ) x, which is zero on isolated nodes (they are solved
    directly, being without neighbours), D^{-1/2} r is the residual of the symmetric system
    (I − (1 − ρ) S) y = ρ D^{-1/2} π in y = D^{-1/2} x. The eigenvalues of its matrix are at least ρ, so
    ‖y − y*‖₂ ≤ ‖D^{-1/2} r‖₂ / ρ, and for every node

        |x_v − x*_v| ≤ √d_v · ‖D^{-1/2} r‖₂ / ρ  =:  √d_v · B.

    With L the k-th largest lower bound x_v − √d_v B of the ranked rows, the k best are certain as soon as exactly
    k rows have an upper bound above L · (1 − 1e-7) (rows whose scores are closer than that are a tie). r is
    computed in float64 from the iterate as it is, so rounding in the iteration cannot break the bound.

    Attributes:
        op: the operator.
        k: how many rows are wanted.
        rows: int64, the rows of the operator that are ranked; None for all.
        bound: 1 / ρ.

    Source:
        The bound is the residual bound for symmetric positive definite systems (Golub and Van Loan, Matrix
        Computations, 4th ed., section 2.6).
    """

    op: Operator
    k: int
    rows: Tensor | None
    bound: float

    def __call__(self, equation: Equation, z: Tensor, residual: Residual) -> Tensor:
        """Return bool [columns]: whether the k best ranked rows of iterate `z` are certain."""
        degree = equation.weights
        z = z.to(torch.float64)
        moved = self.op.kernel.product(z).mul_((equation.c / degree).unsqueeze(1)).add_(equation.b.to(torch.float64))
        error = self.bound * (degree @ (moved - z).square()).sqrt()
        rows = slice(None) if self.rows is None else self.rows
        weight = degree[rows].unsqueeze(1)
        score, reach = z[rows] * weight, weight.sqrt() * error
        if len(score) <= self.k:
            return torch.ones_like(error, dtype=torch.bool)
        lowest = torch.topk(score - reach, self.k, dim=0).values[-1]
        return (lowest > 0) & ((score + reach > lowest * (1 - TIE)).sum(0) <= self.k)

"""The truth that every contender is held against: a float64 solve, apart from all engines."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import eigsh

from aeg.core.operator import Operator
from aeg.core.ranking import TIE, top_k
from aeg.propagation import METHODS, make

_EXACT = 1e-13
DEFAULTS: dict[str, Any] = {name: make(name) for name in METHODS}
"""Every propagation method at its defaults, whose parameters the references and the peers take."""


class Reference:
    """Float64 solutions on one graph, by conjugate gradients on the symmetric form to 1e-10 in L1 (checked)."""

    def __init__(self, op: Operator, num_atoms: int) -> None:
        self.w: csr_array = op.scipy()
        self.num_atoms = num_atoms
        degree = self.w.sum(axis=1)
        self.live = degree > 0
        self.root = np.sqrt(np.where(self.live, degree, 1.0))
        scale = diags_array(np.where(self.live, 1.0 / self.root, 0.0))
        self.s = csr_array(scale @ self.w @ scale)
        self.pt = csr_array(self.w @ diags_array(np.where(self.live, 1.0 / np.where(self.live, degree, 1.0), 0.0)))

    def solve(self, method: str, seeds: np.ndarray, restart: float) -> np.ndarray:
        """Return the scores [nodes, queries] of a propagation method at its defaults (and `restart`)."""
        solution = getattr(self, method)
        return solution(seeds, restart) if method in ("ppr", "rwr", "power_iteration") else solution(seeds)

    def ppr(self, seeds: np.ndarray, restart: float) -> np.ndarray:
        """Return PPR: (I − (1 − ρ) S) y = ρ D^{-1/2} π, x = D^{1/2} y, scaled to sum 1."""
        right = restart * seeds / self.root[:, None]
        core = self.root[:, None] * conjugate_gradients(self.s, 1 - restart, right)
        residual = np.abs(restart * seeds + (1 - restart) * (self.pt @ core) - core).sum(0) / restart
        assert (residual <= 1e-10).all(), f"reference: residual {residual.max():.1e}"
        return core / core.sum(0)

    def power_iteration(self, seeds: np.ndarray, restart: float) -> np.ndarray:
        """Return the last of the default number of power iterates."""
        return self._iterates(seeds, restart, DEFAULTS["power_iteration"].num_iter)[-1]

    def rwr(self, seeds: np.ndarray, restart: float) -> np.ndarray:
        """Return the expectation of random walks: the mean of the first iterates of eq. 7."""
        return np.mean(self._iterates(seeds, restart, DEFAULTS["rwr"].walk_length), axis=0)

    def katz(self, seeds: np.ndarray) -> np.ndarray:
        """Return (I − a W)⁻¹ a W s with a = attenuation / λ_max."""
        attenuation = DEFAULTS["katz"].attenuation
        scaled = self.w / self.lambda_max
        return conjugate_gradients(scaled, attenuation, attenuation * (scaled @ seeds))

    def label_propagation(self, seeds: np.ndarray) -> np.ndarray:
        """Return (I − γ S)⁻¹ (1 − γ) Y."""
        gamma = DEFAULTS["label_propagation"].gamma
        return conjugate_gradients(self.s, gamma, (1 - gamma) * seeds)

    def weighted_bfs(self, seeds: np.ndarray) -> np.ndarray:
        """Return Σ_h x_h, mass on nodes not reached before."""
        front, scores = seeds, seeds
        for _ in range(DEFAULTS["weighted_bfs"].hops):
            front = np.where(scores > 0, 0.0, DEFAULTS["weighted_bfs"].decay * (self.pt @ front))
            scores = scores + front
        return scores

    def heat_kernel(self, seeds: np.ndarray) -> np.ndarray:
        """Return Σ_k e^{−t} t^k / k! (Pᵀ)^k s, isolated rows the identity, until the tail is below 1e-15."""
        t, term = DEFAULTS["heat_kernel"].t, seeds
        weight = left = float(np.exp(-t))
        scores, k = weight * term, 0
        while left < 1 - 1e-15 and k < 500:
            k += 1
            term = np.where(self.live[:, None], self.pt @ term, term)
            weight *= t / k
            left += weight
            scores = scores + weight * term
        return scores

    @cached_property
    def lambda_max(self) -> float:
        """The largest eigenvalue of W."""
        return float(eigsh(self.w, k=1, which="LA", return_eigenvectors=False, v0=self.root, tol=1e-12)[0])

    def _iterates(self, seeds: np.ndarray, restart: float, steps: int) -> list[np.ndarray]:
        found = [seeds]
        for _ in range(steps):
            moved = self.pt @ found[-1] + found[-1][~self.live].sum(0) * seeds
            found.append(restart * seeds + (1 - restart) * moved)
        return found


def conjugate_gradients(matrix: csr_array, c: float, right: np.ndarray, steps: int = 2000) -> np.ndarray:
    """Solve (I − c M) y = b for symmetric M of spectral radius at most 1, all columns at once, in float64."""
    y = np.zeros_like(right)
    residual, direction = right.copy(), right.copy()
    square = (residual**2).sum(0)
    floor = _EXACT**2 * square
    for _ in range(steps):
        if (square <= floor).all():
            break
        moved = direction - c * (matrix @ direction)
        along = (direction * moved).sum(0)
        step = np.divide(square, along, out=np.zeros_like(square), where=along > 0)
        y += step * direction
        residual -= step * moved
        before, square = square, (residual**2).sum(0)
        direction = residual + np.divide(square, before, out=np.zeros_like(square), where=before > 0) * direction
    return y


def l1(scores: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the L1 distance of each column."""
    return np.abs(scores - truth).sum(0)


def agreement(scores: np.ndarray, truth: np.ndarray, k: int = 25) -> np.ndarray:
    """Return for each column the share of the contender's top k rows that belong into the true top k.

    Rows that tie with the k-th (closer than 1e-7 relative) belong into it. Both have one row a ranked thing: give
    the rows of the atoms alone.
    """
    return agreement_of_rows(top_k(torch.from_numpy(scores), k)[0].numpy(), truth, k)


def agreement_of_rows(rows: np.ndarray, truth: np.ndarray, k: int = 25) -> np.ndarray:
    """Return the same for ranked rows [queries, k], −1 where there are fewer."""
    best = top_k(torch.from_numpy(truth), k)[1].numpy()
    shares = []
    for column, found in enumerate(rows):
        wanted = int((best[column] > 0).sum())
        least = best[column, max(wanted - 1, 0)] * (1 - TIE)
        found = found[found >= 0]
        right = int((truth[found, column] >= least).sum()) if wanted else 0
        shares.append(right / wanted if wanted else float(len(found) == 0))
    return np.array(shares)

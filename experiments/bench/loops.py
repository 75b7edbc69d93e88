"""The recursions of propagation methods as loops of SciPy CSR products, float32, one query a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array, diags_array

from experiments.bench.reference import DEFAULTS, Reference

Recursion = Callable[[np.ndarray, int], np.ndarray]


def katz(reference: Reference) -> Recursion:
    """Σ_{l ≥ 1} (a W)^l s, cut after the given number of terms."""
    matrix = (DEFAULTS["katz"].attenuation / reference.lambda_max * reference.w).astype(np.float32)

    def solve(column: np.ndarray, steps: int) -> np.ndarray:
        term, scores = column, np.zeros_like(column)
        for _ in range(steps):
            term = matrix @ term
            scores += term
        return scores

    return solve


def labels(reference: Reference) -> Recursion:
    """F ← γ S F + (1 − γ) Y from Y."""
    gamma = DEFAULTS["label_propagation"].gamma
    matrix = (gamma * reference.s).astype(np.float32)

    def solve(column: np.ndarray, steps: int) -> np.ndarray:
        given = np.float32(1 - gamma) * column
        scores = column
        for _ in range(steps):
            scores = matrix @ scores + given
        return scores

    return solve


def power(reference: Reference, restart: float) -> Recursion:
    """R ← ρπ + (1 − ρ) (Pᵀ r + isolated mass · π) from π."""
    matrix, isolated = ((1 - restart) * reference.pt).astype(np.float32), ~reference.live

    def solve(column: np.ndarray, steps: int) -> np.ndarray:
        scores = column
        for _ in range(steps):
            back = np.float32(restart) + np.float32(1 - restart) * scores[isolated].sum()
            scores = matrix @ scores + back * column
        return scores

    return solve


def heat(reference: Reference) -> Recursion:
    """The Taylor series of exp(−t (I − Pᵀ)) s, cut after the given number of terms."""
    matrix = (reference.pt + diagonal(~reference.live)).astype(np.float32)
    t = DEFAULTS["heat_kernel"].t

    def solve(column: np.ndarray, steps: int) -> np.ndarray:
        term = np.float32(math.exp(-t)) * column
        scores = term
        for k in range(1, steps + 1):
            term = matrix @ term
            term *= np.float32(t / k)
            scores = scores + term
        return scores

    return solve


def bfs(reference: Reference) -> Recursion:
    """Mass that moves on to nodes not reached before."""
    matrix = (DEFAULTS["weighted_bfs"].decay * reference.pt).astype(np.float32)

    def solve(column: np.ndarray, steps: int) -> np.ndarray:
        front, scores = column, column
        for _ in range(steps):
            front = np.where(scores > 0, np.float32(0), matrix @ front)
            scores = scores + front
        return scores

    return solve


def diagonal(mask: np.ndarray) -> csr_array:
    """Return the diagonal matrix of a mask."""
    return csr_array(diags_array(mask.astype(np.float64)))

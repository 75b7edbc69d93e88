"""The linear system of a walk, its low-degree nodes eliminated: half the rows, the same solution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array
from torch import Tensor

from aeg.core.kernels import Equation, Kernel, Matrix, choose
from aeg.core.kernels.base import LANES
from aeg.core.operator import Operator
from aeg.core.order import LARGE, SMALL, locality_order
from aeg.propagation.chebyshev import precision
from aeg.propagation.layout import Layout

_NARROW = 2.0**14  # a quarter of what float16 holds
MAX_DEGREE = 4  # eliminating a node of more neighbours makes more entries than it saves
_ROUNDS = 6


@dataclass(frozen=True, eq=False)
class WalkSystem:
    """(D − c W) z = f for the degrees D, 1 for isolated nodes: what PPR and label propagation solve.

    For Katz D is λ_max(W) on all nodes.

    A set E of nodes may be eliminated exactly: nodes with at most four neighbours, no two of them adjacent (in an
    Atom-Entity Graph: most atoms, and entities mentioned once or twice), so that D_E is diagonal. For the others, K,

        (Δ − c Ω) z_K = f_K + c W_KE D_E⁻¹ f_E,        z_E = D_E⁻¹ (f_E + c W_EK z_K),

    where D_K − Δ + c Ω = c W_KK + c² W_KE D_E⁻¹ W_EK, Ω without a diagonal. Row sums of c Δ⁻¹ Ω are at most c, so
    its spectrum lies in [−c, c] as that of c D⁻¹ W does. The residual of the whole system is zero on E, and on K it is
    Δ times that of z_K, so errors are bounded as before.

    With D = λ the same holds for sums weighed by a vector v > 0, each component's own Perron vector: W v ≤ λ v, and so
    Δ v_K − c Ω v_K = (λ v − c W v)_K + c W_KE λ⁻¹ (λ v − c W v)_E ≥ (1 − c) λ v_K ≥ (1 − c) Δ v_K, as Δ ≤ λ. Δ is
    positive, being at least λ (1 − c²): a row of W has a norm of λ at most.

    Attributes:
        c: in (0, 1).
        position: int64 [nodes], the row of each node, K first, in an order that suits the caches; None: as it is.
        kernel: multiplies by Ω, [kept, kept]; by W where nothing is eliminated.
        diagonal: Δ, float64 [kept].
        degree: D in the order of the rows, float64 [nodes].
        exact: iterate in float64; the tiles that `layout` asks for are then not weighed in float32.
        down, up: multiply by W_KE [kept, eliminated] and W_EK [eliminated, kept]; None where nothing is.

    Source:
        Schur complement with an independent set: Saad, Iterative Methods for Sparse Linear Systems, 2nd ed.,
        section 3.3.4 and 14.2.
    """

    c: float
    position: Tensor | None
    kernel: Kernel
    diagonal: Tensor
    degree: Tensor
    exact: bool
    down: Kernel | None = None
    up: Kernel | None = None
    _scales: dict[torch.dtype, Tensor] = field(default_factory=dict, repr=False)

    @property
    def kept(self) -> int:
        """The number of nodes that are iterated on."""
        return len(self.diagonal)

    @cached_property
    def inverse(self) -> Tensor:
        """1 / Δ on the kept nodes and 1 / D on the others, float64 [nodes]: what the right side is multiplied by."""
        return 1 / torch.cat([self.diagonal, self.degree[self.kept :]])

    def unit(self, most: float, power: float) -> float:
        """Return a power of two to multiply the right side with, so that iterates may be kept in float16.

        Solutions then lie below 2¹⁴, two octaves below what float16 holds, as iterates may lie above the solution;
        numbers down to 2⁻¹⁴ keep all their digits. It is 1 where the kernel takes no iterates in float16.

        Args:
            most: bound on D^power |z| for the seeds of a query, which sum to 1.
            power: see `most`.
        """
        if self._least is None:
            return 1.0
        return 2.0 ** math.floor(math.log2(_NARROW * self._least**power / most))

    @cached_property
    def _least(self) -> float | None:
        """The least degree of the kept nodes, where iterates may be kept in float16."""
        tile = torch.empty(
            1, max(LANES), dtype=torch.float64 if self.exact else torch.float32, device=self.degree.device
        )
        return float(self.degree[: self.kept].min()) if self.kept and self.kernel.halves(tile) else None

    def layout(self, op: Operator, weights: Tensor) -> Layout:
        """Return the tiles to ask for, where the right side is `weights` [nodes] / `inverse` times the seeds."""
        return Layout(op, self.position, None if self.exact else weights.to(torch.float32))

    def weighed(self, seeds: Tensor, weights: Callable[[], Tensor]) -> Tensor:
        """Return `weights` times the seeds of a tile by `layout`, in the precision of the iteration.

        The weights are asked for where the tile is not weighed already.
        """
        return seeds.to(torch.float64).mul_(weights().unsqueeze(1)) if self.exact else seeds

    def equation(self, f: Tensor, weights: Tensor, unit: float = 1.0) -> Equation:
        """Return the equation for z_K; the first rows of `f` are overwritten by its right side.

        Args:
            f: the right side times `inverse` and `unit`, [nodes, columns] in the order of the rows.
            weights: float64 [kept], how the residual of f_K is measured.
            unit: see `unit`; z is then `unit` times the solution, and the residual is measured as that of the solution.
        """
        scale, b = self._scale(f.dtype), f[: self.kept]
        if self.down is not None:
            self.down.affine(Equation(scale[: self.kept], weights, b, self.c), f[self.kept :], b)
        return Equation(scale[: self.kept], weights * self.diagonal / unit, b, self.c, unit != 1.0)

    def complete(self, z: Tensor, f: Tensor) -> Tensor:
        """Return z of all nodes for z_K, written over `f` as `equation` left it."""
        f[: self.kept] = z
        if self.up is not None:
            rest, scale = f[self.kept :], self._scale(f.dtype)[self.kept :]
            self.up.affine(Equation(scale, self.inverse[self.kept :], rest, self.c), f[: self.kept], rest)
        return f

    def _scale(self, dtype: torch.dtype) -> Tensor:
        if dtype not in self._scales:
            self._scales[dtype] = self.inverse.to(dtype)
        return self._scales[dtype]


def walk_system(op: Operator, c: float, tol: float, level: float | None = None) -> WalkSystem:
    """Return the system of an operator, made once for each c, precision and level.

    Where float64 is asked for, nothing is eliminated: Ω, kept in float32, is too coarse.

    Args:
        op: the operator.
        c: in (0, 1).
        tol: of the solution.
        level: what stands for the degree of every node, at least the spectral radius of W; None: the degrees.
    """
    exact = precision(tol) == torch.float64
    plain = exact or op.num_nodes <= SMALL or not 0 < len(op.col) <= LARGE or op.sharding is not None
    key = ("walk system", c, exact, level)
    if key not in op.memo:
        op.memo[key] = _whole(op, c, exact, level) if plain else _condensed(op, c, level)
    found: WalkSystem = op.memo[key]
    return found


def _degrees(op: Operator, level: float | None) -> Tensor:
    return op.walk_degree if level is None else torch.full_like(op.walk_degree, level)


def _whole(op: Operator, c: float, exact: bool, level: float | None) -> WalkSystem:
    inside = op.arranged.op
    degree = _degrees(inside, level)
    return WalkSystem(c, op.arranged.position, inside.kernel, degree, degree, exact)


def _condensed(op: Operator, c: float, level: float | None = None) -> WalkSystem:
    matrix, degree = op.scipy(), _degrees(op, level).cpu().numpy()
    out = independent(matrix.indptr, matrix.indices, MAX_DEGREE)
    kept, rest = np.flatnonzero(~out), np.flatnonzero(out)
    if not len(kept) or not len(rest):
        return _whole(op, c, False, level)
    by_rows = matrix[kept]
    across = by_rows[:, rest].tocsr()
    inner = (by_rows[:, kept] + c * (across @ diags_array(1 / degree[rest]) @ across.T)).tocsr()
    diagonal = degree[kept] - c * inner.diagonal()
    inner.setdiag(0)
    inner.eliminate_zeros()
    near = locality_order(torch.from_numpy(inner.indptr), torch.from_numpy(inner.indices))
    order = np.arange(len(kept)) if near is None else near.numpy()
    ranked = _behind(across, order)
    inner, across = inner[order][:, order], across[order][:, ranked].tocsr()
    nodes = np.concatenate([kept[order], rest[ranked]])
    position = np.empty_like(nodes)
    position[nodes] = np.arange(len(nodes))
    tensors = (torch.from_numpy(array).to(op.device) for array in (position, diagonal[order], degree[nodes]))
    places, kept_diagonal, degrees = tensors
    down, up = _kernel(across, op), _kernel(across.T.tocsr(), op)
    return WalkSystem(c, places, _kernel(inner, op), kept_diagonal, degrees, False, down, up)


def _behind(across: csr_array, order: np.ndarray) -> np.ndarray:
    """The eliminated nodes by their first neighbour in `order`; those without any come last."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    columns = across.tocsc()
    lead = np.full(across.shape[1], len(order))
    filled = np.flatnonzero(np.diff(columns.indptr))
    if len(filled):
        lead[filled] = np.minimum.reduceat(place[columns.indices], columns.indptr[filled])
    return np.argsort(lead, kind="stable")


def independent(indptr: np.ndarray, indices: np.ndarray, max_degree: int) -> np.ndarray:
    """Return nodes of at most `max_degree` neighbours, no two adjacent, as a mask; isolated ones are among them.

    In each round a node is taken if it comes first, by degree and then row, among itself and its neighbours that
    are still undecided.

    Example:
        >>> independent(np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1]), 4)
        array([ True, False,  True])
    """
    count, sizes = len(indptr) - 1, np.diff(indptr)
    taken, open_ = np.zeros(count, dtype=bool), sizes <= max_degree
    rank = np.empty(count, dtype=np.int64)
    rank[np.lexsort((np.arange(count), sizes))] = np.arange(count)
    for _ in range(_ROUNDS):
        rows = np.flatnonzero(open_)
        if not len(rows):
            break
        waiting = np.where(open_, rank, count)
        ends = np.cumsum(sizes[rows])
        entry = np.arange(ends[-1] if len(ends) else 0) + np.repeat(indptr[rows] - (ends - sizes[rows]), sizes[rows])
        neighbours = indices[entry]
        least = np.full(len(rows), count)
        filled = np.flatnonzero(sizes[rows])
        if len(filled):
            least[filled] = np.minimum.reduceat(waiting[neighbours], (ends - sizes[rows])[filled])
        chosen = rank[rows] < least
        taken[rows[chosen]] = True
        open_[rows[chosen]] = False
        open_[neighbours[np.repeat(chosen, sizes[rows])]] = False
    return taken


def _kernel(matrix: csr_array, op: Operator) -> Kernel:
    matrix = matrix.tocsr()
    crow, col = torch.from_numpy(matrix.indptr.astype(np.int32)), torch.from_numpy(matrix.indices.astype(np.int32))
    weight = torch.from_numpy(matrix.data.astype(np.float32))
    held = Matrix(crow.to(op.device), col.to(op.device), weight.to(op.device), matrix.shape[1])
    return choose(held, op.kernel_name)

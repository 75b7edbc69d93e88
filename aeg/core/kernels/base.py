"""The sparse product behind every propagation method, and the kernel that torch offers everywhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from aeg.core.tensors import csr_matrix

LANES = (1, 8, 16, 32)  # widths of tiles that the compiled loops know: powers of two


@dataclass(frozen=True, eq=False)
class Matrix:
    """A symmetric sparse matrix W in CSR form, or a block of its rows.

    Attributes:
        crow: int32 [rows + 1].
        col: int32 [nnz], columns in [0, n).
        weight: float32 [nnz].
        num_nodes: n.
        first: the first row of the block.
    """

    crow: Tensor
    col: Tensor
    weight: Tensor
    num_nodes: int
    first: int = 0

    @property
    def rows(self) -> slice:
        """The rows of W that are held."""
        return slice(self.first, self.first + len(self.crow) - 1)


@dataclass(frozen=True, eq=False)
class Equation:
    """The linear system (I − c · diag(scale) · W) z = b, and the weights in which its residual is measured.

    Attributes:
        scale: [n], in the dtype of `b`.
        weights: float64 [n].
        b: contiguous [n, columns], float32 or float64.
        c: in (0, 1), or any positive number where nothing is solved, as in `Kernel.affine`.
        narrow: the numbers of z lie within what float16 holds (±65,504), so that iterates may be kept in it.
    """

    scale: Tensor
    weights: Tensor
    b: Tensor
    c: float
    narrow: bool = False


class Kernel(ABC):
    """One way to multiply by a matrix W, alone or fused with the update of an iteration.

    Dense arguments are contiguous, float32 or float64, on the matrix's device: x is [n, columns], all others have
    the rows of the matrix (n, or those of its block). A row's sum runs over its entries in their order, so results
    do not depend on the number of threads.

    The iteration is Chebyshev's for an `Equation`: with moved = b + c · scale · (W x), the new iterate
    ω · (moved − previous) + previous is written over `previous`. Where `halves` says so, x and previous may also be
    kept in float16 for a float32 equation: half the memory that a product gathers from; sums, b and `moved` are
    float32 all the same.
    """

    name: ClassVar[str]

    def halves(self, b: Tensor) -> bool:
        """Tell whether `step` and `check` take iterates in float16 for this right side."""
        return False

    @abstractmethod
    def product(self, x: Tensor) -> Tensor:
        """Return W x, the rows of the matrix."""

    def affine(self, equation: Equation, x: Tensor, out: Tensor) -> None:
        """Write b + c · scale · (W x) to `out`, which may be b itself."""
        moved = self.product(x).mul_((equation.c * equation.scale).unsqueeze(1))
        torch.add(moved, equation.b, out=out)

    @abstractmethod
    def step(self, equation: Equation, x: Tensor, previous: Tensor, omega: float) -> None:
        """Do one step in place of `previous`."""

    @abstractmethod
    def check(self, equation: Equation, x: Tensor, previous: Tensor, omega: float, moved: Tensor) -> Tensor:
        """Do one step as `step` does, write b + c · scale · (W x) to `moved` as well, and measure the residual.

        Returns:
            Σ_v w_v |moved_v − x_v| for the equation's weights w, float64 [columns].
        """


@dataclass(frozen=True, eq=False)
class TorchKernel(Kernel):
    """torch's CSR product with the update beside it: any device, any width; the fall-back everywhere."""

    matrix: Matrix
    _cached: dict[torch.dtype, Tensor] = field(default_factory=dict, repr=False)

    name = "torch"

    def product(self, x: Tensor) -> Tensor:
        """See `Kernel.product`."""
        if not len(self.matrix.col):
            return x.new_zeros(len(self.matrix.crow) - 1, x.shape[1])
        return self._csr(x.dtype) @ x

    def step(self, equation: Equation, x: Tensor, previous: Tensor, omega: float) -> None:
        """See `Kernel.step`."""
        moved = torch.empty_like(previous)
        self.affine(equation, x, moved)
        _update(previous, moved, omega)

    def check(self, equation: Equation, x: Tensor, previous: Tensor, omega: float, moved: Tensor) -> Tensor:
        """See `Kernel.check`."""
        self.affine(equation, x, moved)
        _update(previous, moved, omega)
        off = moved.to(torch.float64) - x[self.matrix.rows]
        return equation.weights @ off.abs_()

    def _csr(self, dtype: torch.dtype) -> Tensor:
        if dtype not in self._cached:
            m = self.matrix
            self._cached[dtype] = csr_matrix(m.crow, m.col, m.weight.to(dtype), (len(m.crow) - 1, m.num_nodes))
        return self._cached[dtype]


def _update(previous: Tensor, moved: Tensor, omega: float) -> None:
    previous.mul_(1 - omega).add_(moved, alpha=omega)

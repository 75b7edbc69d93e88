"""The CPU kernel: tiles of a fixed number of columns in vector registers, rows shared among threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from aeg.core.kernels.base import LANES, Equation, Kernel, Matrix, Residual, TorchKernel
from aeg.core.kernels.threads import bounds, share

_ROW = 8  # entries that the rest of a row's work costs as much as
_PARTS = 16  # parts of the rows, whatever the number of threads: sums are added in the same order


@dataclass(frozen=True, eq=False)
class NumbaKernel(Kernel):
    """Compiled loops for tiles of 1, 8, 16 or 32 columns; other widths go through torch.

    Every gathered row of x is one cache line (16 float32 columns) that is prefetched; sums stay in registers;
    the update of the iteration happens while the row is at hand.
    """

    matrix: Matrix
    _torch: TorchKernel = field(init=False, repr=False)
    _csr: tuple[Any, ...] = field(init=False, repr=False)
    _bounds: list[int] = field(init=False, repr=False)

    name = "numba"

    def __post_init__(self) -> None:
        m = self.matrix
        work = m.crow.to(torch.int64) + _ROW * torch.arange(len(m.crow))
        object.__setattr__(self, "_torch", TorchKernel(m))
        object.__setattr__(self, "_csr", (m.crow.numpy(), m.col.numpy(), m.weight.numpy()))
        object.__setattr__(self, "_bounds", bounds(work, _PARTS))

    def product(self, x: Tensor) -> Tensor:
        """See `Kernel.product`."""
        if not _fits(x):
            return self._torch.product(x)
        from aeg.core.kernels import loops

        out, at = x.new_empty(len(self.matrix.crow) - 1, x.shape[1]), self._bounds
        rest = (*self._csr, x.numpy(), out.numpy(), (0,) * x.shape[1])
        share(lambda part: loops.product(at[part], at[part + 1], *rest), _PARTS)
        return out

    def step(self, equation: Equation, x: Tensor, previous: Tensor, omega: float) -> None:
        """See `Kernel.step`."""
        if not _fits(x, equation.b, previous):
            return self._torch.step(equation, x, previous, omega)
        from aeg.core.kernels import loops

        e, at, number = equation, self._bounds, x.numpy().dtype.type
        dense = (e.scale.numpy(), e.b.numpy(), x.numpy(), previous.numpy(), number(e.c), number(omega))
        rest = (*self._csr, *dense, (0,) * x.shape[1])
        return share(lambda part: loops.step(at[part], at[part + 1], *rest), _PARTS)

    def check(self, equation: Equation, x: Tensor, previous: Tensor, omega: float, moved: Tensor) -> Residual:
        """See `Kernel.check`."""
        if not _fits(x, equation.b, previous, moved):
            return self._torch.check(equation, x, previous, omega, moved)
        from aeg.core.kernels import loops

        e, at, number = equation, self._bounds, x.numpy().dtype.type
        own = x[self.matrix.rows]
        vectors = (e.scale.numpy(), e.weights.numpy(), e.b.numpy(), x.numpy(), own.numpy(), previous.numpy())
        rest: tuple[Any, ...] = (*self._csr, *vectors, number(e.c), number(omega), moved.numpy())
        sums, lanes = torch.zeros(_PARTS, 3, x.shape[1], dtype=torch.float64), (0,) * x.shape[1]
        share(lambda part: loops.check(at[part], at[part + 1], *rest, sums[part].numpy(), lanes), _PARTS)
        return Residual(*sums.cumsum(0)[-1])  # in order, which `sum` is not at every width


def _fits(*tiles: Tensor) -> bool:
    return all(
        t.ndim == 2
        and t.shape[1] in LANES
        and t.is_contiguous()
        and t.dtype in (torch.float32, torch.float64)
        and t.dtype == tiles[0].dtype
        for t in tiles
    )

"""The CPU kernel: tiles of a fixed number of columns in vector registers, rows shared among threads."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from aeg.core.kernels.base import LANES, Equation, Kernel, Matrix, TorchKernel
from aeg.core.kernels.threads import bounds, share, threads

_ROW = 8  # entries that the rest of a row's work costs as much as
_PARTS = 4  # parts of the rows for sums, whatever the number of threads: they are added in the same order


@dataclass(frozen=True, eq=False)
class NumbaKernel(Kernel):
    """Compiled loops for tiles of 1, 8, 16 or 32 columns; other widths go through torch.

    Every gathered row of x is one cache line (16 float32 columns) that is prefetched; sums stay in registers;
    the update of the iteration happens while the row is at hand.
    """

    matrix: Matrix
    _torch: TorchKernel = field(init=False, repr=False)
    _csr: tuple[Any, ...] = field(init=False, repr=False)
    _work: Tensor = field(init=False, repr=False)
    _cuts: dict[int, list[int]] = field(default_factory=dict, repr=False)

    name = "numba"

    def __post_init__(self) -> None:
        m = self.matrix
        work = m.crow.to(torch.int64) + _ROW * torch.arange(len(m.crow))
        object.__setattr__(self, "_torch", TorchKernel(m))
        object.__setattr__(self, "_csr", (m.crow.numpy(), m.col.numpy(), m.weight.numpy()))
        object.__setattr__(self, "_work", work)

    def halves(self, b: Tensor) -> bool:
        """See `Kernel.halves`: where a tile is wide enough and the processor converts halves."""
        return _fits(b) and b.dtype == torch.float32 and b.shape[1] > 1 and _converts()

    def product(self, x: Tensor) -> Tensor:
        """See `Kernel.product`."""
        if not _fits(x):
            return self._torch.product(x)
        from aeg.core.kernels import loops

        out, at = x.new_empty(len(self.matrix.crow) - 1, x.shape[1]), self._bounds(threads())
        rest = (*self._csr, x.numpy(), out.numpy(), (0,) * x.shape[1])
        share(lambda part: loops.product(at[part], at[part + 1], *rest), len(at) - 1, self._size(x))
        return out

    def affine(self, equation: Equation, x: Tensor, out: Tensor) -> None:
        """See `Kernel.affine`."""
        if not _fits(x, equation.b, out):
            return self._torch.affine(equation, x, out)
        from aeg.core.kernels import loops

        e, at = equation, self._bounds(threads())
        dense = (e.scale.numpy(), e.b.numpy(), x.numpy(), out.numpy(), x.numpy().dtype.type(e.c))
        rest = (*self._csr, *dense, (0,) * x.shape[1])
        return share(lambda part: loops.affine(at[part], at[part + 1], *rest), len(at) - 1, self._size(x))

    def step(self, equation: Equation, x: Tensor, previous: Tensor, omega: float) -> None:
        """See `Kernel.step`."""
        half = x.dtype == torch.float16
        if not half and not _fits(x, equation.b, previous):
            return self._torch.step(equation, x, previous, omega)
        from aeg.core.kernels import half_loops, loops

        e, at, number = equation, self._bounds(threads()), equation.b.numpy().dtype.type
        dense = (e.scale.numpy(), e.b.numpy(), _bits(x), _bits(previous), number(e.c), number(omega))
        rest, step = (*self._csr, *dense, (0,) * x.shape[1]), half_loops.step if half else loops.step
        return share(lambda part: step(at[part], at[part + 1], *rest), len(at) - 1, self._size(x))

    def check(self, equation: Equation, x: Tensor, previous: Tensor, omega: float, moved: Tensor) -> Tensor:
        """See `Kernel.check`."""
        half = x.dtype == torch.float16
        if not half and not _fits(x, equation.b, previous, moved):
            return self._torch.check(equation, x, previous, omega, moved)
        from aeg.core.kernels import half_loops, loops

        e, at, number = equation, self._bounds(_PARTS), equation.b.numpy().dtype.type
        own = x[self.matrix.rows]
        vectors = (e.scale.numpy(), e.weights.numpy(), e.b.numpy(), _bits(x), _bits(own), _bits(previous))
        rest: tuple[Any, ...] = (*self._csr, *vectors, number(e.c), number(omega), moved.numpy())
        sums = torch.zeros(_PARTS, x.shape[1], dtype=torch.float64)
        check = half_loops.check if half else loops.check

        def work(part: int) -> None:
            last: tuple[Any, ...] = (sums[part].numpy(), (0,) * x.shape[1])
            check(at[part], at[part + 1], *rest, *last)

        share(work, _PARTS, self._size(x))
        return sums.cumsum(0)[-1]  # in order, which `sum` is not at every width

    def _bounds(self, parts: int) -> list[int]:
        if parts not in self._cuts:
            self._cuts[parts] = bounds(self._work, parts)
        return self._cuts[parts]

    def _size(self, x: Tensor) -> int:
        return int(self._work[-1]) * x.shape[1]


def _fits(*tiles: Tensor) -> bool:
    return all(
        t.ndim == 2
        and t.shape[1] in LANES
        and t.is_contiguous()
        and t.dtype in (torch.float32, torch.float64)
        and t.dtype == tiles[0].dtype
        for t in tiles
    )


def _bits(x: Tensor) -> Any:
    """A tensor as the compiled loops take it: halves as the int16 of the same bits."""
    return (x.view(torch.int16) if x.dtype == torch.float16 else x).numpy()


@cache
def _converts() -> bool:
    """Tell whether the processor has instructions that convert halves, without which each is a call of a function."""
    import llvmlite.binding as llvm

    return platform.machine().lower() in ("aarch64", "arm64") or llvm.get_host_cpu_features().get("f16c", False)

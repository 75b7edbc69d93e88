"""The GPU kernel: the product and the update of the iteration in one pass, in Triton."""

from __future__ import annotations

import contextlib
import logging
import subprocess
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from aeg.core.kernels.base import Equation, Kernel, Matrix, TorchKernel
from aeg.errors import ConfigError, DeviceError

logger = logging.getLogger(__name__)

LONG = 256  # entries of a row above which it is cut into pieces, so that no program is at work long after the others
_WIDE = 128  # numbers of a tile that one warp holds: four a thread, loads of 16 bytes in float32
_MOST_ROWS = 32  # rows a program at most
_UNROLL = 4  # rows of x that a warp gathers at once
_PARTS = 1024  # parts of the rows whose residuals are summed apart, whatever the device
_OPTIONS = {"num_warps": 1, "enable_fp_fusion": True}


@dataclass(frozen=True, eq=False)
class TritonKernel(Kernel):
    """A warp for each row: it gathers the row's entries, 128 columns at a time, and updates the row at hand.

    Rows of more than 256 entries are cut into pieces, which are summed first; then a row is the sum of its pieces.
    A row's entries, and its pieces, are added in their order, so a column has the same bits at every width of the
    tile. Nothing waits for the device. On the CPU it runs in Triton's interpreter only, for tests.
    """

    matrix: Matrix
    _torch: TorchKernel = field(init=False, repr=False)
    _rows: _Rows = field(init=False, repr=False)
    _pieces: _Rows | None = field(init=False, repr=False)
    _joined: _Rows | None = field(init=False, repr=False)

    name = "triton"

    def __post_init__(self) -> None:
        if self.matrix.weight.device.type != "cuda" and not interpreted():
            raise ConfigError(
                "kernel: 'triton' runs on a GPU (on the CPU only with TRITON_INTERPRET=1 in the environment, for "
                "tests); take 'auto', 'numba' or 'torch' on the CPU"
            )
        rows, pieces, joined = _divided(self.matrix)
        object.__setattr__(self, "_torch", TorchKernel(self.matrix))
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "_pieces", pieces)
        object.__setattr__(self, "_joined", joined)

    def halves(self, b: Tensor) -> bool:
        """See `Kernel.halves`."""
        return _fits(b) and b.dtype == torch.float32 and b.shape[1] > 1

    def product(self, x: Tensor) -> Tensor:
        """See `Kernel.product`."""
        if not _fits(x):
            return self._torch.product(x)
        out = x.new_empty(len(self.matrix.crow) - 1, x.shape[1])
        self._run(x, out=out)
        return out

    def affine(self, equation: Equation, x: Tensor, out: Tensor) -> None:
        """See `Kernel.affine`."""
        if not _fits(x, equation.b, out):
            return self._torch.affine(equation, x, out)
        return self._run(x, out=out, **_added(equation))

    def step(self, equation: Equation, x: Tensor, previous: Tensor, omega: float) -> None:
        """See `Kernel.step`."""
        if x.dtype != torch.float16 and not _fits(x, equation.b, previous):
            return self._torch.step(equation, x, previous, omega)
        return self._run(x, previous=previous, omega=_filled(omega, equation.b), **_added(equation))

    def check(self, equation: Equation, x: Tensor, previous: Tensor, omega: float, moved: Tensor) -> Tensor:
        """See `Kernel.check`."""
        if x.dtype != torch.float16 and not _fits(x, equation.b, previous, moved):
            return self._torch.check(equation, x, previous, omega, moved)
        self._run(x, out=moved, previous=previous, omega=_filled(omega, equation.b), **_added(equation))
        return _residual(moved, x[self.matrix.rows], equation.weights)

    def _run(self, x: Tensor, **target: Any) -> None:
        with _on(x.device):
            self._rows.launch(x, **target)
            if self._pieces is not None and self._joined is not None:
                partial = x.new_empty(len(self._pieces.rows), x.shape[1], dtype=_sums(x))
                self._pieces.launch(x, out=partial)
                self._joined.launch(partial, **target)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows that one launch computes: row `rows[i]` sums the entries from `low[i]` to `high[i]`, all int32."""

    rows: Tensor
    low: Tensor
    high: Tensor
    col: Tensor
    weight: Tensor

    def launch(
        self,
        x: Tensor,
        out: Tensor | None = None,
        factor: Tensor | None = None,
        b: Tensor | None = None,
        previous: Tensor | None = None,
        omega: Tensor | None = None,
    ) -> None:
        """Multiply these rows by x; see `triton_loops.rows_of_product`."""
        import triton.language as tl

        from aeg.core.kernels.triton_loops import rows_of_product

        count, columns = len(self.rows), x.shape[1]
        if not count or not columns:
            return
        wide = _columns(columns)
        rows = min(_MOST_ROWS, _WIDE // wide)
        rows_of_product[(-(-count // rows), -(-columns // wide))](
            *(self.rows, self.low, self.high, count, self.col, self.weight, x, columns, out),
            *(factor, b, previous, omega),
            AFFINE=b is not None,
            STEP=previous is not None,
            KEEP=out is not None,
            ROWS=rows,
            COLUMNS=wide,
            UNROLL=_UNROLL,
            NUMBER=tl.float64 if _sums(x) == torch.float64 else tl.float32,
            **_OPTIONS,
        )


def _divided(m: Matrix) -> tuple[_Rows, _Rows | None, _Rows | None]:
    """The rows that are computed at once, the pieces of the long ones, and the long ones as sums of their pieces."""
    low, high = m.crow[:-1], m.crow[1:]
    sizes = high - low
    rows = torch.arange(len(sizes), dtype=torch.int32, device=low.device)
    long = (sizes > LONG).nonzero().squeeze(1)
    if not len(long):
        return _Rows(rows, low, high, m.col, m.weight), None, None
    short = (sizes <= LONG).nonzero().squeeze(1)
    counts = (sizes[long].to(torch.int64) + LONG - 1) // LONG
    ends = counts.cumsum(0)
    pieces = torch.arange(int(ends[-1]), device=low.device)
    of = torch.repeat_interleave(long, counts)
    begin = low[of] + LONG * (pieces - torch.repeat_interleave(ends - counts, counts))
    numbers = pieces.to(torch.int32)
    cut = _Rows(numbers, begin.to(torch.int32), torch.minimum(begin + LONG, high[of]).to(torch.int32), m.col, m.weight)
    ones = torch.ones_like(pieces, dtype=m.weight.dtype)
    joined = _Rows(rows[long], (ends - counts).to(torch.int32), ends.to(torch.int32), numbers, ones)
    return _Rows(rows[short], low[short], high[short], m.col, m.weight), cut, joined


def _added(equation: Equation) -> dict[str, Tensor]:
    return {"factor": (equation.c * equation.scale).to(equation.b.dtype), "b": equation.b}


def _sums(x: Tensor) -> torch.dtype:
    """The precision in which rows of x are added."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _filled(number: float, like: Tensor) -> Tensor:
    """A number where a program can read it, put there by the device; an argument would be rounded to float32."""
    return torch.full((1,), number, dtype=like.dtype, device=like.device)


def _residual(moved: Tensor, own: Tensor, weights: Tensor) -> Tensor:
    from aeg.core.kernels.triton_loops import added, measures

    count, columns = moved.shape
    total = torch.zeros(columns, dtype=torch.float64, device=moved.device)
    if moved.numel():
        span = -(-count // _PARTS)
        parts, wide = -(-count // span), _columns(columns)
        partial = total.new_empty(parts, columns)
        with _on(moved.device):
            measures[(parts, -(-columns // wide))](
                *(moved, own, weights, partial, count, span, columns), COLUMNS=wide, UNROLL=_UNROLL, **_OPTIONS
            )
            added[(columns,)](partial, total, parts, columns, COUNT=_PARTS, **_OPTIONS)
    return total


def _columns(columns: int) -> int:
    """The columns that a program takes of so many."""
    return min(_WIDE, 1 << (columns - 1).bit_length())


def _fits(*tiles: Tensor) -> bool:
    kinds = (torch.float32, torch.float64)
    return all(t.ndim == 2 and t.is_contiguous() and t.dtype in kinds and t.dtype == tiles[0].dtype for t in tiles)


def _on(device: torch.device) -> Any:
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def interpreted() -> bool:
    """Tell whether Triton runs in its interpreter here (TRITON_INTERPRET=1)."""
    from triton.runtime.interpreter import InterpretedFunction

    from aeg.core.kernels.triton_loops import added

    return isinstance(added, InterpretedFunction)


@cache
def fault(device: torch.device) -> str:
    """Return why the kernel does not work on a device, "" where it does: asked once, by tiny steps.

    Triton compiles for the GPU at hand when a kernel is first run, which needs a GPU that it knows and, for the
    launcher, a C compiler.
    """
    try:
        from triton.errors import TritonError
    except (ImportError, OSError) as error:
        return f"triton cannot be imported: {error}"
    try:
        return _tried(device)
    except (TritonError, RuntimeError, OSError, subprocess.SubprocessError, ConfigError) as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _tried(device: torch.device) -> str:
    crow, col = torch.tensor([0, 1, 3, 4], dtype=torch.int32), torch.tensor([1, 0, 2, 1], dtype=torch.int32)
    matrix = Matrix(crow.to(device), col.to(device), torch.tensor([2.0, 2.0, 0.5, 0.5], device=device), 3)
    for dtype in (torch.float32, torch.float64):
        x = torch.arange(1.0, 25.0, dtype=dtype, device=device).view(3, 8) / 7
        weights = torch.ones(3, dtype=torch.float64, device=device)
        equation = Equation(torch.full((3,), 0.4, dtype=dtype, device=device), weights, 0.3 * x, 0.7)
        found = []
        for kernel in (TritonKernel(matrix), TorchKernel(matrix)):
            previous, moved = x.clone(), torch.empty_like(x)
            sums = kernel.check(equation, x, previous, 1.1, moved)
            found.append(torch.stack([kernel.product(x), previous, moved]).cpu())
            found.append(sums.cpu())
        if not (torch.allclose(found[0], found[2], atol=1e-5) and torch.allclose(found[1], found[3], atol=1e-4)):
            return "a tiny step gave wrong numbers"
    half, narrow = x.half(), x.half()
    TritonKernel(matrix).step(replace(equation, b=equation.b.float(), scale=equation.scale.float()), half, narrow, 1.1)
    if not torch.allclose(narrow.cpu().double(), found[2][1].cpu().double(), rtol=2e-3, atol=2e-3):
        return "a tiny step in float16 gave wrong numbers"
    return ""


@cache
def usable(device: torch.device) -> bool:
    """Tell whether the kernel works on a device; where it does not, a warning says why, once."""
    why = fault(device)
    if why:
        logger.warning("triton does not work on %s, torch's slower product is used instead: %s", device, why)
    return not why


def require(device: torch.device) -> None:
    """Raise `DeviceError` where the kernel, asked for by name, does not work on a device."""
    if fault(device):
        raise DeviceError(f"kernel 'triton' does not work on {device}: {fault(device)}; take 'auto' or 'torch'")

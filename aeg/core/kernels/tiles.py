"""Moving tiles of columns in and out of the propagation: scaled, in another order of the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from aeg.core.kernels.base import LANES
from aeg.core.kernels.memory import empty
from aeg.core.kernels.threads import all_threads, share_rows

_PARTS = 4  # parts of the rows, whatever the number of threads: sums are added in the same order
PANEL = 4  # tiles that are taken from a wide tensor in one pass over its rows


@dataclass(frozen=True, eq=False)
class Tile:
    """Some queries' seeds, each scaled to sum 1 (eq. 6).

    Attributes:
        seeds: float32 [nodes, width].
        zero: bool [width], columns without mass.
        bad: bool [width], columns with a NaN, an infinity or a negative number; they are zero.
    """

    seeds: Tensor
    zero: Tensor
    bad: Tensor


@dataclass(frozen=True, eq=False)
class Scaled:
    """Numbers that are still to be scaled: max(x, 0) · weights[row] · factor[column].

    Attributes:
        x: [nodes, width], which `all` and nobody else may overwrite.
        weights: [nodes].
        factor: [width].
    """

    x: Tensor
    weights: Tensor
    factor: Tensor

    def all(self, compiled: bool) -> Tensor:
        """Return the scaled numbers, float32, written over `x` where that is float32."""
        return scale_rows(self.x, self.weights, self.factor, compiled).to(torch.float32)


def room(seeds: Tensor, nodes: int, width: int, tiles: int) -> Tensor:
    """Return memory for `tiles` tiles, float32 [tiles, nodes, width], on the device of `seeds`."""
    return empty(tiles, nodes, width, like=seeds, dtype=torch.float32)


def load(part: Tensor, position: Tensor | None, weights: Tensor | None, compiled: bool, into: Tensor) -> Iterator[Tile]:
    """Yield the columns of `part` in tiles, the last one padded with zeros, rows moved.

    The rows of a wide tensor lie far apart in memory, so that each costs a fetch of its own: they are read once for
    all tiles, not once a tile.

    Args:
        part: float32 [nodes, columns].
        position: int64 [nodes], the row of the tile that each row becomes; None keeps the order.
        weights: float32 [nodes], what the rows are multiplied by once they are moved and scaled; None: nothing.
        compiled: use the compiled loops (CPU).
        into: the tiles' memory (`room`), overwritten by the next call.
    """
    width = into.shape[2]
    tiles = into[: -(-part.shape[1] // width)]
    if part.shape[1] < len(tiles) * width:
        tiles[-1].zero_()
    total, least = (_place if compiled and width in LANES else _placed)(part, position, tiles)
    zero, bad, factor = scaling(total, least < 0)
    weights = torch.ones(len(part), dtype=torch.float32, device=part.device) if weights is None else weights
    for tile, z, wrong, f in zip(tiles, zero, bad, factor, strict=True):
        if part.device.type == "cuda" or bool(wrong.any()):  # looking would wait for the device
            tile.masked_fill_(wrong, 0.0)
        yield Tile(scale_rows(tile, weights, f, compiled), z, wrong)


def scaling(total: Tensor, wrong: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return what scales columns to sum 1: which have no mass, which are bad, and the factors, float32; 0 for both.

    Args:
        total: float64 [columns], the sums.
        wrong: bool [columns], columns with a negative number.
    """
    bad = ~torch.isfinite(total) | wrong
    zero = bad | (total == 0)
    return zero, bad, torch.where(zero, 0.0, 1.0 / torch.where(zero, 1.0, total)).to(torch.float32)


def scattered(
    column: Tensor, node: Tensor, value: Tensor, position: Tensor | None, weights: Tensor | None, into: Tensor
) -> Tile:
    """Return the tile of sparse seeds, the same as `load` gives of them.

    Args:
        column: int64 [entries], of the tile.
        node: int64 [entries].
        value: float32 [entries]; entries of the same column and node add.
        position: see `load`.
        weights: see `load`.
        into: the tile's memory, float32 [nodes, width], overwritten by the next call.
    """
    total = torch.zeros(into.shape[1], dtype=torch.float64, device=into.device)
    odd = total.index_put((column,), (~(value >= 0)).to(total.dtype), accumulate=True) > 0
    total = total.index_put((column,), value.to(total.dtype), accumulate=True)  # in order, on a GPU too
    zero, bad, factor = scaling(total, odd)
    row = node if position is None else position[node]
    value = torch.where(zero[column], 0.0, value if weights is None else value * weights[row])
    with all_threads():
        into.zero_()
    into.index_put_((row, column), value * factor[column], accumulate=True)
    return Tile(into, zero, bad)


def scale_rows(x: Tensor, weights: Tensor, factor: Tensor, compiled: bool) -> Tensor:
    """Return max(x, 0) · weights[row] · factor[column], written over `x`."""
    weights, factor = weights.to(x.dtype), factor.to(x.dtype)
    if not compiled:
        return x.clamp_(min=0).mul_(weights.unsqueeze(1)).mul_(factor)
    from aeg.core.kernels import loops

    arrays = (x.numpy(), weights.numpy(), factor.numpy())
    _shared(lambda first, stop, _: loops.scale_rows(first, stop, *arrays), len(x), x.shape[1])
    return x


def column_mass(x: Tensor, weights: Tensor, compiled: bool) -> Tensor:
    """Return Σ_rows weights[row] · max(x, 0), float64 [columns]."""
    if not compiled or x.shape[1] not in LANES:
        return weights @ x.to(torch.float64).clamp(min=0)
    from aeg.core.kernels import loops

    sums, lanes = torch.zeros(_PARTS, x.shape[1], dtype=torch.float64), (0,) * x.shape[1]
    arrays = (x.numpy(), weights.numpy())
    _shared(lambda first, stop, at: loops.mass(first, stop, *arrays, sums[at].numpy(), lanes), len(x), x.shape[1])
    return sums.cumsum(0)[-1]


def take(x: Tensor | Scaled, position: Tensor, columns: int, compiled: bool) -> Tensor:
    """Return `x[position, :columns]`, scaled in the same pass where it is still to be."""
    if isinstance(x, Scaled) and not (compiled and x.x.dtype == torch.float32):
        x = x.all(compiled)
    if not compiled:
        assert isinstance(x, Tensor)
        return x[position, :columns]
    from aeg.core.kernels import loops

    source, given = (x.x, [x.weights, x.factor]) if isinstance(x, Scaled) else (x, [])
    out = empty(len(position), columns, like=source)
    rest = (source.numpy(), position.numpy(), *(one.to(source.dtype).numpy() for one in given), out.numpy())
    loop = loops.take_scaled if given else loops.take
    _shared(lambda first, stop, _: loop(first, stop, *rest), len(out), columns)
    return out


def rounded(x: Tensor, out: Tensor) -> None:
    """Write x, float32 [rows, width] with a width of the compiled loops, to `out`, in float16."""
    from aeg.core.kernels import half_loops

    arrays = (x.numpy(), out.view(torch.int16).numpy(), (0,) * x.shape[1])
    _shared(lambda first, stop, _: half_loops.rounded(first, stop, *arrays), len(x), x.shape[1])


def _place(part: Tensor, position: Tensor | None, out: Tensor) -> tuple[Tensor, Tensor]:
    """Write `part` to `out` [tiles, nodes, width], rows moved; return the columns' sums and minima, [tiles, width]."""
    from aeg.core.kernels import loops

    sums = torch.zeros(_PARTS, len(out), 2, out.shape[2], dtype=torch.float64)
    rows = torch.arange(len(part)) if position is None else position
    part = part if part.stride(1) == 1 else part.contiguous()
    arrays, lanes = (part.numpy(), rows.numpy(), out.numpy()), (0,) * out.shape[2]
    _shared(
        lambda first, stop, at: loops.place(first, stop, *arrays, sums[at].numpy(), lanes), len(part), 4 * part.shape[1]
    )
    return sums[:, :, 0].cumsum(0)[-1], sums[:, :, 1].amin(0)  # in order, which `sum` is not at every width


def _placed(part: Tensor, position: Tensor | None, out: Tensor) -> tuple[Tensor, Tensor]:
    """As `_place`, by torch's operations."""
    moved = part if position is None else torch.empty_like(part).index_copy_(0, position, part)
    for tile, columns in zip(out, moved.split(out.shape[2], dim=1), strict=True):
        tile[:, : columns.shape[1]] = columns
    least = out.amin(1) if out.shape[1] else out.new_zeros(len(out), out.shape[2])
    return out.sum(1, dtype=torch.float64), least.to(torch.float64)


def _shared(work: Callable[[int, int, int], None], rows: int, columns: int) -> None:
    """Call `work(first, stop, part)` for the same parts of the rows, whatever the number of threads."""
    share_rows(work, rows, _PARTS, rows * columns)

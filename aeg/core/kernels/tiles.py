"""Moving tiles of columns in and out of the propagation: scaled, in another order of the nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from aeg.core.kernels.threads import share

_PARTS = 16


def load(part: Tensor, width: int, position: Tensor | None, compiled: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return seeds as distributions: each column scaled to sum 1, padded with zeros, rows moved.

    Args:
        part: float32 [nodes, columns].
        width: columns of the result, at least as many.
        position: int64 [nodes], the row of the result that each row becomes; None keeps the order.
        compiled: use the compiled loops (CPU).

    Returns:
        the tile, float32 [nodes, width]; bool [width], where the column has no mass; bool [width], where it has
        a NaN, an infinity or a negative number. Both kinds of columns are zero.
    """
    total, least = _survey(part, compiled)
    bad = ~torch.isfinite(total) | (least < 0)
    zero = bad | (total == 0)
    factor = torch.where(zero, 0.0, 1.0 / torch.where(zero, 1.0, total))
    missing = width - part.shape[1]
    out = _place(part, factor, width, position, compiled)
    pad = torch.nn.functional.pad
    return out, pad(zero, (0, missing), value=True), pad(bad, (0, missing))


def scale_rows(x: Tensor, weights: Tensor, factor: Tensor, compiled: bool) -> Tensor:
    """Return max(x, 0) · weights[row] · factor[column], written over `x`."""
    weights, factor = weights.to(x.dtype), factor.to(x.dtype)
    if not compiled:
        return x.clamp_(min=0).mul_(weights.unsqueeze(1)).mul_(factor)
    from aeg.core.kernels import loops

    arrays = (x.numpy(), weights.numpy(), factor.numpy())
    _shared(lambda first, stop, _: loops.scale_rows(first, stop, *arrays), len(x))
    return x


def take(x: Tensor, position: Tensor, columns: int, compiled: bool) -> Tensor:
    """Return `x[position, :columns]`."""
    if not compiled:
        return x[position, :columns]
    from aeg.core.kernels import loops

    out = torch.empty(len(position), columns, dtype=x.dtype)
    arrays = (x.numpy(), position.numpy(), out.numpy())
    _shared(lambda first, stop, _: loops.take(first, stop, *arrays), len(out))
    return out


def _survey(part: Tensor, compiled: bool) -> tuple[Tensor, Tensor]:
    """The sum and the smallest number of each column, float64."""
    if not compiled:
        least = part.amin(0) if len(part) else part.new_zeros(part.shape[1])
        return part.sum(0, dtype=torch.float64), least.to(torch.float64)
    from aeg.core.kernels import loops

    sums = torch.zeros(_PARTS, 2, part.shape[1], dtype=torch.float64)
    array = part.numpy()
    _shared(lambda first, stop, at: loops.survey(first, stop, array, sums[at].numpy()), len(part))
    return sums[:, 0].sum(0), sums[:, 1].amin(0)


def _place(part: Tensor, factor: Tensor, width: int, position: Tensor | None, compiled: bool) -> Tensor:
    columns = part.shape[1]
    new = torch.empty if width == columns else torch.zeros
    out = new(len(part), width, dtype=torch.float32, device=part.device)
    if compiled:
        from aeg.core.kernels import loops

        rows = torch.arange(len(part)) if position is None else position
        arrays = (part.numpy(), rows.numpy(), factor.numpy(), out.numpy())
        _shared(lambda first, stop, _: loops.place(first, stop, *arrays), len(part))
        return out
    scaled = torch.where(factor == 0, 0.0, part * factor).to(torch.float32)
    out[:, :columns] = scaled if position is None else torch.empty_like(scaled).index_copy_(0, position, scaled)
    return out


def _shared(work: object, rows: int) -> None:
    """Call `work(first, stop, part)` for the same parts of the rows, whatever the number of threads."""
    at = [rows * part // _PARTS for part in range(_PARTS + 1)]
    share(lambda part: work(at[part], at[part + 1], part), _PARTS)  # type: ignore[operator]

"""Top-k with the one tie rule: by score, scores closer than 1e-7 relative in row order."""

from __future__ import annotations

import torch
from torch import Tensor

from aeg.core.prefix import Prefixes

TIE = 1e-7
_MARGIN = 64
_BATCH = 1024  # columns finished together


class TopK:
    """The rows of the k largest positive scores of each column, of columns that come some at a time.

    Neighbours in the sorted order whose scores differ by less than 1e-7 relative form one tie; within a tie
    the smaller row (the smaller id) comes first. The same rows come out on every device, however the columns are
    parted.

    Attributes:
        k: at least 1.

    Example:
        >>> best = TopK(2)
        >>> best.add(torch.tensor([[0.2, 0.0], [0.5, 0.0], [0.2, 0.7]]))
        >>> best.add(torch.tensor([[0.1], [0.2], [0.3]]))
        >>> best.result()[0].tolist()
        [[1, 0], [2, -1], [2, 1]]
    """

    def __init__(self, k: int) -> None:
        """Start without columns."""
        self.k = k
        self._prefixes = Prefixes(k, TIE)
        self._parts: list[tuple[Tensor, Tensor]] = []

    def add(self, scores: Tensor) -> None:
        """Take in columns of scores [rows, columns], finite; nothing of it is kept but what may be ranked."""
        if scores.device.type != "cpu" or scores.dtype != torch.float32:
            self._parts.append(_sorted(scores, self.k))
            return
        self._prefixes.add(scores)
        if self._prefixes.columns >= _BATCH:
            self._parts.append(self._prefixes.take())

    def result(self) -> tuple[Tensor, Tensor]:
        """Return the rows, int64 [columns, k], and scores [columns, k], on the CPU.

        Where a column has fewer than k positive scores the rest is row −1 with score 0.
        """
        if self._prefixes.columns or not self._parts:
            self._parts.append(self._prefixes.take())
        rows, values = (torch.cat([part.cpu() for part in column]) for column in zip(*self._parts, strict=True))
        return rows, values


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the rows of the k largest positive scores of each column, ties in row order.

    Neighbours in the sorted order whose scores differ by less than 1e-7 relative form one tie; within a tie
    the smaller row (the smaller id) comes first. The same rows come out on every device.

    Args:
        scores: [rows, columns], finite.
        k: at least 1.

    Returns:
        rows, int64 [columns, k], and scores [columns, k], on the device of `scores`; where a column has fewer than
        k positive scores the rest is row −1 with score 0.

    Example:
        >>> import torch
        >>> rows, _ = top_k(torch.tensor([[0.2], [0.5], [0.2], [0.0]]), 4)
        >>> rows.tolist()
        [[1, 0, 2, -1]]
    """
    if scores.device.type != "cpu" or scores.dtype != torch.float32:
        return _sorted(scores, k)
    prefixes = Prefixes(k, TIE)
    prefixes.add(scores)
    return prefixes.take()


def _sorted(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The same with torch's own operations, for other devices and types."""
    by_column = scores.T.contiguous()
    total = by_column.shape[1]
    width = min(total, k + _MARGIN)
    values, rows, open_tie = _ordered(by_column, width, k)
    if width < total and bool(open_tie.any()):
        at = open_tie.nonzero().squeeze(1)  # the tie at rank k may go on past the candidates: sort these whole
        all_values, all_rows, _ = _ordered(by_column[at], total, k)
        values[at], rows[at] = all_values[:, :width], all_rows[:, :width]
    return _padded(values, rows, k)


def _ordered(by_column: Tensor, width: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    if width == by_column.shape[1]:
        values, rows = torch.sort(by_column, dim=1, descending=True, stable=True)
    else:
        values, rows = torch.topk(by_column, width, dim=1)
    if width == 0:
        return values, rows, torch.zeros(len(values), dtype=torch.bool, device=values.device)
    apart = (values[:, :-1] - values[:, 1:]) > TIE * values[:, :-1].abs()
    group = torch.zeros_like(rows)
    group[:, 1:] = torch.cumsum(apart, 1)
    open_tie = (group[:, min(k, width) - 1] == group[:, -1]) & (values[:, -1] > 0)
    order = torch.argsort(group * by_column.shape[1] + rows, dim=1)
    return values.gather(1, order), rows.gather(1, order), open_tie


def _padded(values: Tensor, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, rows = values[:, :k], rows[:, :k]
    empty = values <= 0
    rows = rows.masked_fill(empty, -1)
    values = values.masked_fill(empty, 0)
    missing = k - values.shape[1]
    if missing > 0:
        rows = torch.nn.functional.pad(rows, (0, missing), value=-1)
        values = torch.nn.functional.pad(values, (0, missing), value=0)
    return rows, values

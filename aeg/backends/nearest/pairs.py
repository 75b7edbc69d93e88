"""All pairs of near vectors: the candidates of synonym edges (paper, eq. 3)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import torch

from aeg.backends.nearest.cap import nearest, within_cap
from aeg.backends.nearest.ranking import pair_cosines, slack, squared_lengths
from aeg.backends.threads import map_threads
from aeg.core.progress import progress

_CPU_BLOCK = 1024
_GPU_BLOCK = 8192
_MOST = 1 << 25  # pairs above the threshold that are held at once
_ROWS = 1 << 10  # rows, or pairs, whose cosines one thread computes again
_UNIT = 2e-6

_Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Pairs(NamedTuple):
    """Unordered pairs of rows, src < dst, sorted by (src, dst).

    Attributes:
        src, dst: int64 [m], on the CPU.
        cosine: float32 [m], on the CPU.
        cut: pairs above the threshold that the cap removed.
    """

    src: torch.Tensor
    dst: torch.Tensor
    cosine: torch.Tensor
    cut: int


def neighbours_above(vectors: torch.Tensor, threshold: float, top_k: int, device: torch.device | str = "cpu") -> Pairs:
    """Return the pairs i < j with cosine at least `threshold`, each once, exactly.

    A pair is kept if j is among the `top_k` nearest of i or i among those of j (self excluded; ties closer than
    1e-7 by row ascending). Works on blocks of rows, each two multiplied once; where more than 33 million pairs are
    above the threshold, they are not held: each row is then multiplied by all and cut to its nearest at once, which
    takes twice as long. Beside the vectors, memory is bounded by that number of pairs (under 2 GB) and by n times
    `top_k`.

    Args:
        vectors: [n, d], rows of length 1.
        threshold: in [-1, 1]; compared with the cosine rounded to float32.
        top_k: at least 1.
        device: where to compute; the result is on the CPU.

    Raises:
        ValueError: if the shape, the threshold or `top_k` is out of range, or a row is not of length 1.

    Source: paper, eq. 3; the cap is `synonym_top_k`.

    Example:
        >>> vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [1.0, 0.0]])
        >>> neighbours_above(vectors, threshold=0.7, top_k=1)
        Pairs(src=tensor([0, 1]), dst=tensor([3, 2]), cosine=tensor([1.0000, 0.8000]), cut=0)
    """
    if vectors.ndim != 2 or not -1.0 <= threshold <= 1.0 or top_k < 1:
        raise ValueError(
            f"got vectors {tuple(vectors.shape)}, threshold {threshold}, top_k {top_k}; expected [n, d], [-1, 1], >= 1"
        )
    unit = vectors.detach().to(device=device, dtype=torch.float32).contiguous()
    if len(unit) and not bool((torch.linalg.vector_norm(unit, dim=1) - 1.0).abs().max() < _UNIT):
        raise ValueError("vectors: expected finite rows of length 1; scale them with torch.nn.functional.normalize")
    found = _each_once(unit, threshold)
    if found is None:
        src, dst, total = _row_by_row(unit, threshold, top_k)
    else:
        kept = within_cap(unit, *found, top_k)
        src, dst, total = found[0][kept].to(torch.int64), found[1][kept].to(torch.int64), len(kept)
    return Pairs(src.cpu(), dst.cpu(), _cosines(unit, src, dst).cpu(), total - len(src))


def _each_once(unit: torch.Tensor, threshold: float) -> _Found | None:
    """Return all pairs i < j at or above the threshold, sorted, int32 and float32; None where they are too many."""
    step = _block(unit)
    product = _Product(unit, threshold, step)
    starts = range(0, len(unit), step)
    blocks = [(i, j) for i in starts for j in starts if i <= j]
    stripes: list[_Found] = []
    held: list[_Found] = []
    total = 0
    with closing(_share(unit, lambda at: product.above(*at), blocks)) as found:
        for (_, j), part in zip(blocks, progress(found, len(blocks), "nearest neighbours", "block"), strict=True):
            held.append(part)
            total += len(part[0])
            if total > _MOST:
                return None
            if j + step >= len(unit):
                stripes.append(_joined(held, len(unit)))
                held = []
    return _joined(stripes, len(unit), ordered=True)


def _row_by_row(unit: torch.Tensor, threshold: float, top_k: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return the pairs within the cap, sorted, and the number of pairs at or above the threshold."""
    size, step = len(unit), _block(unit)
    product = _Product(unit, threshold, step)

    def rows(start: int) -> tuple[torch.Tensor, int]:
        stripe = _joined([product.above(start, at, both=True) for at in range(0, size, step)], size)
        best = nearest(unit, stripe[0].to(torch.int64), stripe[1].to(torch.int64), stripe[2], top_k)
        left, right = (part[best].to(torch.int64) for part in stripe[:2])
        return torch.minimum(left, right) * size + torch.maximum(left, right), len(stripe[0])

    starts = range(0, size, step)
    parts = list(progress(_share(unit, rows, starts), len(starts), "nearest neighbours, row by row", "block"))
    keys = torch.unique(torch.cat([keys for keys, _ in parts]))
    return keys // size, keys % size, sum(count for _, count in parts) // 2


class _Product:
    """Products of two blocks of rows, in memory that each thread uses again and again."""

    def __init__(self, unit: torch.Tensor, threshold: float, step: int) -> None:
        self.unit, self.threshold, self.step = unit, threshold, step
        self._memory = threading.local()

    def above(self, first: int, second: int, both: bool = False) -> _Found:
        """Return (i, j, cosine) with a cosine of at least the threshold, i in the first block and j in the second.

        Of pairs within one block only those with i < j are returned, or with `both` all but (i, i). Cosines within
        the product's error of the threshold are computed again in float64.
        """
        one, other = self.unit[first : first + self.step], self.unit[second : second + self.step]
        cosines = torch.mm(one, other.T, out=self._room(len(one) * len(other)).view(len(one), len(other)))
        error = slack()
        rows = (cosines.amax(1) >= self.threshold - error).nonzero().squeeze(1)
        at, right = (cosines[rows] >= self.threshold - error).nonzero(as_tuple=True)
        left = rows[at]
        values = cosines[left, right]
        left, right = left + first, right + second
        good = left != right if both else left < right
        left, right, values = left[good], right[good], values[good]
        unsure = (values < self.threshold + error).nonzero().squeeze(1)
        values[unsure] = pair_cosines(self.unit, left[unsure], right[unsure])
        good = values >= torch.tensor(self.threshold, dtype=torch.float32, device=values.device)
        return left[good].to(torch.int32), right[good].to(torch.int32), values[good]

    def _room(self, cells: int) -> torch.Tensor:
        if not hasattr(self._memory, "cosines"):
            self._memory.cosines = self.unit.new_empty(min(self.step, len(self.unit)) ** 2)
        room: torch.Tensor = self._memory.cosines[:cells]
        return room


def _cosines(unit: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    squares = torch.cat(list(_share(unit, squared_lengths, unit.split(_ROWS))))
    parts = list(zip(src.split(_ROWS), dst.split(_ROWS), strict=True))
    found = _share(unit, lambda part: pair_cosines(unit, part[0], part[1], squares), parts)
    return torch.cat(list(found))


def _block(unit: torch.Tensor) -> int:
    return max(1, _CPU_BLOCK if unit.device.type == "cpu" else _GPU_BLOCK)


def _share(unit: torch.Tensor, function: Callable[[Any], Any], items: Sequence[Any]) -> Any:
    """Yield `function(item)` for each item in order, on the CPU one thread to an item."""
    return map_threads(function, items) if unit.device.type == "cpu" else (function(item) for item in items)


def _joined(parts: Iterable[_Found], size: int, ordered: bool = False) -> _Found:
    """Return parts as one, sorted by (i, j) unless they are already."""
    columns = list(zip(*parts, strict=True))
    left, right, values = (torch.cat(column) for column in columns) if columns else _nothing()
    if ordered:
        return left, right, values
    order = (left.to(torch.int64) * size + right).argsort(stable=True)
    return left[order], right[order], values[order]


def _nothing() -> _Found:
    none = torch.zeros(0, dtype=torch.int32)
    return none, none, torch.zeros(0)

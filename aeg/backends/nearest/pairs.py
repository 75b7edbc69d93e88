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
_MOST_CUT = 1 << 23  # pairs removed by the cap that are handed on

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


class Known(NamedTuple):
    """Pairs at or above the threshold that an earlier search found, by rows of the vectors that are searched now.

    Attributes:
        left, right: int64 [m], left < right, sorted by (left, right).
        cosine: float32 [m], not a number where it is to be computed.
        fresh: int64, ascending: the rows that the earlier search did not have. All pairs of other rows are known.
    """

    left: torch.Tensor
    right: torch.Tensor
    cosine: torch.Tensor
    fresh: torch.Tensor


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
    return capped(vectors, threshold, top_k, device)[0]


def capped(
    vectors: torch.Tensor,
    threshold: float,
    top_k: int,
    device: torch.device | str = "cpu",
    known: Known | None = None,
) -> tuple[Pairs, torch.Tensor | None]:
    """Return what `neighbours_above` does, and the pairs that the cap removed.

    With `known` only its fresh rows are multiplied with all rows; the pairs are the same as without, bit for bit,
    since cosines that decide anything are computed in float64, and the cap is applied to all pairs again.

    Returns:
        The pairs, and int32 [2, cut] the others at or above the threshold; None where they are too many to be held.

    Raises:
        ValueError: as `neighbours_above`.
    """
    unit = _checked(vectors, threshold, top_k, device)
    found = _each_once(unit, threshold) if known is None else _grown(unit, threshold, known)
    if found is None:
        src, dst, total = _row_by_row(unit, threshold, top_k)
        return Pairs(src.cpu(), dst.cpu(), _cosines(unit, src, dst).cpu(), total - len(src)), None
    kept = within_cap(unit, *found, top_k)
    src, dst = found[0][kept].to(torch.int64), found[1][kept].to(torch.int64)
    cosines = _cosines(unit, src, dst) if known is None else found[2][kept]
    cut = len(kept) - len(src)
    spare = None if cut > _MOST_CUT else torch.stack([found[0][~kept], found[1][~kept]]).cpu()
    return Pairs(src.cpu(), dst.cpu(), cosines.cpu(), cut), spare


def _checked(vectors: torch.Tensor, threshold: float, top_k: int, device: torch.device | str) -> torch.Tensor:
    if vectors.ndim != 2 or not -1.0 <= threshold <= 1.0 or top_k < 1:
        raise ValueError(
            f"got vectors {tuple(vectors.shape)}, threshold {threshold}, top_k {top_k}; expected [n, d], [-1, 1], >= 1"
        )
    unit = vectors.detach().to(device=device, dtype=torch.float32).contiguous()
    if len(unit) and not bool((torch.linalg.vector_norm(unit, dim=1) - 1.0).abs().max() < _UNIT):
        raise ValueError("vectors: expected finite rows of length 1; scale them with torch.nn.functional.normalize")
    return unit


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


def _grown(unit: torch.Tensor, threshold: float, known: Known) -> _Found | None:
    """Return all pairs at or above the threshold, their cosines exact; None where they are too many."""
    step, fresh = _block(unit), known.fresh.to(unit.device)
    product, new = _Product(unit, threshold, step), torch.zeros(len(unit), dtype=torch.bool, device=unit.device)
    new[fresh] = True
    blocks = [(rows, start) for rows in fresh.split(step) for start in range(0, len(unit), step)] if len(fresh) else []
    with closing(_share(unit, lambda at: product.touching(at[0], at[1], new), blocks)) as found:
        parts = list(progress(found, len(blocks), "nearest neighbours of new rows", "block"))
    left, right, _ = _joined(parts, len(unit))
    if len(left) + len(known.left) > _MOST:
        return None
    held = known.left.to(unit.device), known.right.to(unit.device), known.cosine.to(unit.device, copy=True)
    unknown = held[2].isnan().nonzero().squeeze(1)
    held[2][unknown] = _cosines(unit, held[0][unknown], held[1][unknown])
    exact = left, right, _cosines(unit, left.to(torch.int64), right.to(torch.int64))
    return _joined([(held[0].to(torch.int32), held[1].to(torch.int32), held[2]), exact], len(unit))


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
        rows = torch.arange(first, min(first + self.step, len(self.unit)), device=self.unit.device)
        left, right, values = self._candidates(self.unit[first : first + self.step], rows, second)
        good = left != right if both else left < right
        return self._certain(left[good], right[good], values[good])

    def touching(self, rows: torch.Tensor, second: int, new: torch.Tensor) -> _Found:
        """Return (i, j, cosine), i < j, of the rows with those of the second block, as `above` does.

        Args:
            rows: int64, some rows where `new`.
            second: start of a block.
            new: bool [n]; two rows where it holds are a pair in one order only, as both meet all rows.
        """
        left, right, values = self._candidates(self.unit[rows], rows, second)
        good = (left != right) & (~new[right] | (left < right))
        left, right = left[good], right[good]
        return self._certain(torch.minimum(left, right), torch.maximum(left, right), values[good])

    def _candidates(
        self, one: torch.Tensor, rows: torch.Tensor, second: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        other = self.unit[second : second + self.step]
        cosines = torch.mm(one, other.T, out=self._room(len(one) * len(other)).view(len(one), len(other)))
        least = self.threshold - slack()
        hit = (cosines.amax(1) >= least).nonzero().squeeze(1)
        at, right = (cosines[hit] >= least).nonzero(as_tuple=True)
        at = hit[at]
        return rows[at], right + second, cosines[at, right]

    def _certain(self, left: torch.Tensor, right: torch.Tensor, values: torch.Tensor) -> _Found:
        unsure = (values < self.threshold + slack()).nonzero().squeeze(1)
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

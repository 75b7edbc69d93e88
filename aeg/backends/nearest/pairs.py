"""All pairs of near vectors: the candidates of synonym edges (paper, eq. 3)."""

from __future__ import annotations

import threading
from typing import NamedTuple

import torch

from aeg.backends.nearest.ranking import TIE, pair_cosines, slack
from aeg.backends.threads import map_threads
from aeg.core.progress import progress

_CPU_CELLS = 1 << 22
_GPU_CELLS = 1 << 26
_UNIT = 2e-6


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
    1e-7 by row ascending). Works on blocks of rows: memory is bounded by a block and by n times `top_k`.

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
    unit = vectors.detach().to(device=device, dtype=torch.float32)
    size = len(unit)
    if size and not bool((torch.linalg.vector_norm(unit, dim=1) - 1.0).abs().max() < _UNIT):
        raise ValueError("vectors: expected finite rows of length 1; scale them with torch.nn.functional.normalize")
    on_cpu = unit.device.type == "cpu"
    cells = _CPU_CELLS if on_cpu else _GPU_CELLS
    step = max(1, min(cells // max(1, size), size))
    buffers = threading.local()

    def block(start: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not hasattr(buffers, "cosines"):
            buffers.cosines = unit.new_empty(step, size)
        left, right, cosines = _above(unit, start, buffers.cosines[: size - start], threshold)
        above = (left < right).sum()
        left, right = _capped(unit, left, right, cosines, top_k)
        return above, torch.minimum(left, right) * size + torch.maximum(left, right)

    starts = range(0, size, step)
    found = map_threads(block, starts) if on_cpu else map(block, starts)
    blocks = list(progress(found, len(starts), "nearest neighbours", "block"))
    total = sum(int(above) for above, _ in blocks)
    kept = [torch.empty(0, dtype=torch.int64, device=unit.device), *(keys for _, keys in blocks)]
    keys = torch.unique(torch.cat(kept))
    src, dst = keys // max(1, size), keys % max(1, size)
    cosines = pair_cosines(unit, src, dst)
    return Pairs(src.cpu(), dst.cpu(), cosines.cpu(), total - len(keys))


def _above(
    unit: torch.Tensor, start: int, buffer: torch.Tensor, threshold: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (i, j, cosine) for each row i of the block and every other j with a cosine of at least `threshold`.

    The block begins at row `start` and has as many rows as `buffer`, which is overwritten. Cosines within the
    product's error of the threshold are computed again in float64.
    """
    stop = start + len(buffer)
    cosines = torch.mm(unit[start:stop], unit.T, out=buffer)
    cosines[:, start:stop].fill_diagonal_(-torch.inf)
    error = slack()
    left, right = (cosines >= threshold - error).nonzero(as_tuple=True)
    values = cosines[left, right]
    left = left + start
    unsure = (values < threshold + error).nonzero().squeeze(1)
    values[unsure] = pair_cosines(unit, left[unsure], right[unsure])
    good = values >= torch.tensor(threshold, dtype=torch.float32, device=values.device)
    return left[good], right[good], values[good]


def _capped(
    unit: torch.Tensor, left: torch.Tensor, right: torch.Tensor, cosines: torch.Tensor, top_k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pairs (i, j) where j is among the `top_k` nearest of i; `left` is sorted.

    Only rows with more than `top_k` pairs are sorted, and only what may reach rank `top_k` is computed again in
    float64, so the outcome does not depend on the product's rounding.
    """
    rows, row, counts = left.unique_consecutive(return_inverse=True, return_counts=True)
    crowded = counts > top_k
    over = crowded[row].nonzero().squeeze(1)
    if not len(over):
        return left, right
    over = over[cosines[over].argsort(descending=True, stable=True)]
    over = over[row[over].argsort(stable=True)]
    worst = torch.full((len(rows),), -torch.inf, device=cosines.device)
    at_cap = _ranks(row[over]) == top_k - 1
    worst[row[over[at_cap]]] = cosines[over[at_cap]]
    near = over[cosines[over] >= worst[row[over]] - 2 * slack()]
    exact = pair_cosines(unit, left[near], right[near])
    by_cosine = exact.argsort(descending=True, stable=True)
    by_cosine = by_cosine[row[near[by_cosine]].argsort(stable=True)]
    near, exact = near[by_cosine], exact[by_cosine]
    new = torch.ones_like(near, dtype=torch.bool)
    new[1:] = (exact[:-1] - exact[1:] >= TIE) | (row[near[1:]] != row[near[:-1]])
    near = near[(new.cumsum(0) * len(unit) + right[near]).argsort(stable=True)]
    best = near[_ranks(row[near]) < top_k]
    chosen = torch.cat([(~crowded[row]).nonzero().squeeze(1), best])
    return left[chosen], right[chosen]


def _ranks(row: torch.Tensor) -> torch.Tensor:
    """Return each entry's position among those of its row; `row` is grouped."""
    _, counts = row.unique_consecutive(return_counts=True)
    starts = counts.cumsum(0) - counts
    return torch.arange(len(row), device=row.device) - starts.repeat_interleave(counts)

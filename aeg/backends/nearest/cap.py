"""The cap on an entity's synonyms: which of a row's pairs are among its nearest, exactly and whatever the rounding."""

from __future__ import annotations

import torch

from aeg.backends.nearest.ranking import TIE, pair_cosines, slack

_ENTRIES = 1 << 22  # entries ranked at once


def nearest(
    unit: torch.Tensor, left: torch.Tensor, right: torch.Tensor, cosines: torch.Tensor, top_k: int
) -> torch.Tensor:
    """Return the positions of the pairs (i, j) where j is among the `top_k` nearest of i; `left` is sorted.

    Only rows with more than `top_k` pairs are sorted, and only what may reach rank `top_k` is computed again in
    float64, so the outcome does not depend on the product's rounding.
    """
    rows, row, counts = left.unique_consecutive(return_inverse=True, return_counts=True)
    crowded = counts > top_k
    over = crowded[row].nonzero().squeeze(1)
    if not len(over):
        return torch.arange(len(left), device=left.device)
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
    return torch.cat([(~crowded[row]).nonzero().squeeze(1), best])


def within_cap(
    unit: torch.Tensor, src: torch.Tensor, dst: torch.Tensor, cosines: torch.Tensor, top_k: int
) -> torch.Tensor:
    """Return which unordered pairs, each there once and sorted by `src`, one of the two rows has among its nearest.

    Args:
        unit: float32 [n, d], unit rows.
        src: int32 [m], sorted.
        dst: int32 [m].
        cosines: float32 [m].
        top_k: at least 1.

    Returns:
        bool [m].
    """
    size = len(unit)
    counts = torch.bincount(src, minlength=size) + torch.bincount(dst, minlength=size)
    crowded = counts > top_k
    kept = ~(crowded[src] & crowded[dst])
    rows = crowded.nonzero().squeeze(1)
    held = counts[rows].cumsum(0)
    part = torch.div(held - 1, _ENTRIES, rounding_mode="floor")
    for chunk in rows.split(part.unique_consecutive(return_counts=True)[1].tolist()):
        low, high = int(chunk[0]), int(chunk[-1])
        forward = ((src >= low) & (src <= high) & crowded[src]).nonzero().squeeze(1)
        backward = ((dst >= low) & (dst <= high) & crowded[dst]).nonzero().squeeze(1)
        pair = torch.cat([forward, backward])
        left = torch.cat([src[forward], dst[backward]]).to(torch.int64)
        right = torch.cat([dst[forward], src[backward]]).to(torch.int64)
        order = left.argsort(stable=True)
        pair = pair[order]
        best = nearest(unit, left[order], right[order], cosines[pair], top_k)
        kept[pair[best]] = True
    return kept


def _ranks(row: torch.Tensor) -> torch.Tensor:
    """Return each entry's position among those of its row; `row` is grouped."""
    _, counts = row.unique_consecutive(return_counts=True)
    starts = counts.cumsum(0) - counts
    return torch.arange(len(row), device=row.device) - starts.repeat_interleave(counts)

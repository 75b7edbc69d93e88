"""Keeping atoms that say the same thing twice from filling the top of a ranking."""

from __future__ import annotations

import torch
from torch import Tensor

_TILE = 64


def diversified(rows: Tensor, scores: Tensor, vectors: Tensor, strength: float, k: int) -> tuple[Tensor, Tensor]:
    """Return k atoms of each ranking, chosen one after the other for their score and for being unlike those before.

        next = argmax_a  ln score(a) − strength · max(0, max_{b chosen} cos(a, b))

    The value of what is chosen never rises, so that exp(value) ranks as scores do.

    Args:
        rows: int64 [queries, pool], ranked atoms; −1 where there is none.
        scores: [queries, pool], positive where there is an atom.
        vectors: [atoms, d], unit rows.
        strength: λ, at least 0; the log-score that an exact repetition loses.
        k: atoms kept, at most pool.

    Returns:
        rows, int64 [queries, k], and scores [queries, k]; row −1 with score 0 where there are fewer.

    Source:
        Carbonell and Goldstein, The use of MMR, diversity-based reranking, 1998.

    Example:
        >>> vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> rows, _ = diversified(torch.tensor([[0, 1, 2]]), torch.tensor([[0.9, 0.8, 0.5]]), vectors, 1.0, 3)
        >>> rows.tolist()
        [[0, 2, 1]]
    """
    parts = [
        _chosen(some, values, vectors, strength, k)
        for some, values in zip(rows.split(64), scores.split(64), strict=True)
    ]
    return torch.cat([found for found, _ in parts]), torch.cat([values for _, values in parts])


def _chosen(rows: Tensor, scores: Tensor, vectors: Tensor, strength: float, k: int) -> tuple[Tensor, Tensor]:
    pool = vectors[rows.clamp(min=0).to(vectors.device)]  # [queries, pool, d]
    cosines = torch.bmm(pool, pool.transpose(1, 2)).cpu()
    worth = torch.where(rows >= 0, scores.clamp(min=torch.finfo(scores.dtype).tiny).log(), -torch.inf)
    repeated = torch.zeros_like(worth)
    query = torch.arange(len(rows))
    picked, values = [], []
    for _ in range(min(k, rows.shape[1])):
        value, at = (worth - strength * repeated).max(1)  # the first of equal ones: the order of the ranking
        picked.append(at)
        values.append(value)
        worth[query, at] = -torch.inf
        repeated = torch.maximum(repeated, cosines[query, at])
    at, value = torch.stack(picked, 1), torch.stack(values, 1)
    there = torch.isfinite(value)
    return torch.where(there, rows.gather(1, at), -1), torch.where(there, value.exp(), 0.0).to(scores)

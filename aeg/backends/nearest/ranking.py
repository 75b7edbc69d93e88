"""One definition of scores and ties for every engine: rescored in float64, near-equal scores by row."""

from __future__ import annotations

import numpy as np
import torch

TIE = 1e-7
"""Scores closer than this are ties."""

_ELEMENTS = 1 << 17  # numbers computed with at once: as many as the caches hold
_GPU_ELEMENTS = 1 << 23


def slack() -> float:
    """Return a bound on the error of a float32 product of unit vectors, at torch's current precision."""
    return 8e-6 if torch.get_float32_matmul_precision() == "highest" else 2e-2


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in float64, in float32 where the device has no float64."""
    return tensor.float() if tensor.device.type == "mps" else tensor.double()


def _elements(vectors: torch.Tensor) -> int:
    return _ELEMENTS if vectors.device.type == "cpu" else _GPU_ELEMENTS


def exact_scores(queries: torch.Tensor, vectors: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the inner products of queries and candidate rows, computed in float64.

    Args:
        queries: float32 [q, d].
        vectors: float32 [n, d].
        rows: int64 [q, c], -1 for no candidate.

    Returns:
        float32 [q, c], -inf for no candidate. Independent of the engine that found the candidates.
    """
    scores = torch.empty(rows.shape, dtype=torch.float32, device=vectors.device)
    step = max(1, 4 * _elements(vectors) // max(1, rows.shape[1] * vectors.shape[1]))
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        places = rows[block].clamp(min=0)
        gathered = _wide(vectors.index_select(0, places.view(-1))).view(*places.shape, -1)
        scores[block] = _products(gathered, _wide(queries[block]).unsqueeze(2)).squeeze(2).float()
    return scores.masked_fill(rows < 0, -torch.inf)


def _products(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return products of matrices [q, c, d] and [q, d, 1]; numpy's of so small ones are faster than torch's."""
    if one.device.type != "cpu":
        return torch.bmm(one, other)
    return torch.from_numpy(np.matmul(one.numpy(), other.numpy()))


def squared_lengths(vectors: torch.Tensor) -> torch.Tensor:
    """Return the squared length of each row, float64 [n] (float32 where the device has no float64)."""
    step = max(1, _elements(vectors) // max(1, vectors.shape[1]))
    found = []
    for block in vectors.split(step):
        wide = _wide(block)
        found.append((wide * wide).sum(dim=1))
    return torch.cat(found)


def pair_cosines(
    vectors: torch.Tensor, left: torch.Tensor, right: torch.Tensor, squares: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the cosines of pairs of rows, computed in float64.

    Args:
        vectors: float32 [n, d], not zero.
        left: first row of each pair, int64 [m].
        right: second row of each pair, int64 [m].
        squares: `squared_lengths` of the vectors, where many pairs are computed; None computes what is needed.

    Returns:
        float32 [m] in [-1, 1]; the same for (i, j) and (j, i), 1 for equal vectors.
    """
    cosines = torch.empty(len(left), dtype=torch.float32, device=vectors.device)
    step = max(1, _elements(vectors) // max(1, vectors.shape[1]))
    for start in range(0, len(left), step):
        block = slice(start, start + step)
        a, b = (_wide(vectors.index_select(0, rows[block])) for rows in (left, right))
        if squares is None:
            lengths = (a * a).sum(dim=1) * (b * b).sum(dim=1)
        else:
            lengths = squares[left[block]] * squares[right[block]]
        cosines[block] = ((a * b).sum(dim=1) / lengths.sqrt()).clamp(-1.0, 1.0).float()
    return cosines


def order(scores: torch.Tensor, rows: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k best candidates of each query: scores descending, ties by row ascending.

    A run of scores each closer than 1e-7 to the next is one tie; its members share the largest of their scores.

    Args:
        scores: float32 [q, c], -inf for no candidate.
        rows: int64 [q, c].
        k: at most c.

    Returns:
        float32 [q, k] and int64 [q, k].

    Example:
        >>> order(torch.tensor([[0.5, 0.75, 0.5]]), torch.tensor([[7, 9, 3]]), 2)
        (tensor([[0.7500, 0.5000]]), tensor([[9, 3]]))
    """
    scores, by_score = scores.sort(dim=1, descending=True, stable=True)
    rows = rows.gather(1, by_score)
    new = torch.ones_like(scores, dtype=torch.bool)
    new[:, 1:] = scores[:, :-1] - scores[:, 1:] >= TIE
    if bool(new.all()):
        return scores[:, :k], rows[:, :k]
    positions = torch.arange(scores.shape[1], device=scores.device).expand_as(rows)
    leader = torch.where(new, positions, 0).cummax(dim=1).values
    largest = int(rows.max()) + 2 if rows.numel() else 1
    by_row = (leader * largest + rows + 1).argsort(dim=1, stable=True)[:, :k]
    return scores.gather(1, leader.gather(1, by_row)), rows.gather(1, by_row)

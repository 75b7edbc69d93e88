"""Uniting what the effective queries of one question found (paper, eq. 10)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from aeg.core.ranking import TIE
from aeg.errors import DataError


def merge_effective(
    rows: Tensor, scores: Tensor, effective_to_query: Tensor, num_queries: int, k: int
) -> tuple[Tensor, Tensor]:
    """Return the k best candidates of each question, each with its best score over the effective queries.

    Candidates are ordered by score; neighbours closer than 1e-7 relative are in row order.

    Lists that are in this order already, one for each question in turn, are only cut or padded.

    Args:
        rows: int64 [effective, candidates]; −1 where there is none.
        scores: [effective, candidates], finite where there is a candidate.
        effective_to_query: int64 [effective], the question of each effective query, in [0, num_queries).
        num_queries: the number of questions; one without effective queries finds nothing.
        k: at least 1.

    Returns:
        rows, int64 [num_queries, k], and scores [num_queries, k]; row −1 with score 0 where there are fewer.

    Raises:
        DataError: if the shapes do not fit or a question lies outside [0, num_queries).

    Source: section 3.4, eq. 10.

    Example:
        >>> rows, scores = torch.tensor([[4, 7], [7, -1]]), torch.tensor([[0.5, 0.25], [0.75, 0.0]])
        >>> [t.tolist() for t in merge_effective(rows, scores, torch.tensor([0, 0]), 1, 3)]
        [[[7, 4, -1]], [[0.75, 0.5, 0.0]]]
    """
    _check(rows, scores, effective_to_query, num_queries)
    if len(rows) == num_queries and _ordered(rows, scores, effective_to_query):
        missing = k - rows.shape[1]
        scores = scores.masked_fill(rows < 0, 0)
        return pad(rows, (0, missing), value=-1), pad(scores, (0, missing))  # a negative pad cuts
    query, row, score = _best(rows, scores, effective_to_query.to(rows.device))
    order = torch.argsort(score, descending=True, stable=True)
    order = order[torch.argsort(query[order], stable=True)]  # by question, score, row
    query, row, score = query[order], row[order], score[order]
    apart = torch.ones_like(query, dtype=torch.bool)
    apart[1:] = (query[1:] != query[:-1]) | ((score[:-1] - score[1:]) > TIE * score[:-1].abs())
    order = torch.argsort(row, stable=True)
    order = order[torch.argsort(torch.cumsum(apart, 0)[order], stable=True)]  # row order within a tie
    query, row, score = query[order], row[order], score[order]
    rank = torch.arange(len(query), device=query.device) - torch.searchsorted(query, query)
    kept = rank < k
    out_rows = torch.full((num_queries, k), -1, dtype=torch.int64, device=rows.device)
    out_scores = scores.new_zeros(num_queries, k)
    out_rows[query[kept], rank[kept]] = row[kept]
    out_scores[query[kept], rank[kept]] = score[kept]
    return out_rows, out_scores


def _ordered(rows: Tensor, scores: Tensor, query_of: Tensor) -> bool:
    """Tell whether list i is of question i, each in order, by score and by row within ties, and no row in it twice."""
    if not torch.equal(query_of.cpu(), torch.arange(len(rows))):
        return False
    apart = (scores[:, :-1] - scores[:, 1:]) > TIE * scores[:, :-1].abs()
    follows = (rows[:, :-1] >= 0) & (apart | (rows[:, 1:] > rows[:, :-1]))
    if not bool((follows | (rows[:, 1:] < 0)).all()):
        return False
    by_row = np.sort(rows.cpu().numpy(), axis=1)
    return not bool(((by_row[:, 1:] == by_row[:, :-1]) & (by_row[:, 1:] >= 0)).any())


def _best(rows: Tensor, scores: Tensor, query_of: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    there = rows >= 0
    query = query_of.unsqueeze(1).expand_as(rows)[there]
    row, score = rows[there], scores[there]
    width = int(row.max()) + 1 if len(row) else 1
    pairs, at = torch.unique(query * width + row, return_inverse=True)
    best = torch.full((len(pairs),), -torch.inf, dtype=scores.dtype, device=scores.device)
    return pairs // width, pairs % width, best.scatter_reduce(0, at, score, "amax")


def _check(rows: Tensor, scores: Tensor, query_of: Tensor, num_queries: int) -> None:
    if rows.ndim != 2 or rows.shape != scores.shape or query_of.shape != rows.shape[:1]:
        raise DataError(
            f"merge: got rows {tuple(rows.shape)}, scores {tuple(scores.shape)} and questions "
            f"{tuple(query_of.shape)}, expected [effective, candidates] twice and [effective]"
        )
    if len(query_of) and not 0 <= int(query_of.min()) <= int(query_of.max()) < num_queries:
        raise DataError(
            f"merge: got questions {int(query_of.min())} to {int(query_of.max())}, expected 0 to {num_queries - 1}"
        )

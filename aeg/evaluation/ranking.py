"""Measures of a ranking against the documents known to be relevant: recall@k, MRR and nDCG@k."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from aeg.errors import DataError

FloatArray = npt.NDArray[np.float64]


def ranking_metrics(
    ranked: Sequence[Sequence[str]],
    gold: Sequence[Collection[str]],
    ks: Sequence[int] = (2, 5, 10),
) -> dict[str, FloatArray]:
    r"""Return recall@k, MRR@k and nDCG@k for every k, and MRR, one value per query.

    With G the gold documents and h_i = 1 where the document at rank i is in G:
    recall@k = Σ_{i≤k} h_i / |G|; MRR@k = 1 / (smallest i ≤ k with h_i = 1), 0 where there is none; MRR the
    same over the whole list; nDCG@k = Σ_{i≤k} h_i / log2(i+1) divided by Σ_{i≤min(k,|G|)} 1 / log2(i+1).

    Args:
        ranked: for each query, distinct document ids, best first; may be shorter than k, or empty.
        gold: for each query, the ids of its relevant documents.
        ks: cut-offs, each at least 1.

    Returns:
        `recall@k`, `mrr@k`, `ndcg@k` for each k, and `mrr`: float64 [queries] in [0, 1], NaN for a query
        without gold.

    Raises:
        DataError: if the lengths differ, a k is below 1, or a document stands twice in a ranking.

    Source: trec_eval's `recall_k`, `recip_rank` and `ndcg_cut_k` (Jarvelin & Kekalainen 2002), binary gains.

    Example:
        >>> values = ranking_metrics([["a", "b", "c"], ["x"]], [{"c", "d"}, set()], ks=[2, 3])
        >>> [round(float(values[name][0]), 3) for name in ("recall@2", "recall@3", "mrr", "mrr@2", "ndcg@3")]
        [0.0, 0.5, 0.333, 0.0, 0.307]
        >>> float(values["mrr"][1])
        nan
    """
    if len(ranked) != len(gold):
        raise DataError(f"got {len(ranked)} rankings, {len(gold)} gold sets; expected one of each a query")
    if any(k < 1 for k in ks):
        raise DataError(f"cut-offs k: got {list(ks)}, expected whole numbers of at least 1")
    hits = _hits(ranked, gold, width=max(ks, default=1))
    sizes = np.array([len(set(ids)) for ids in gold], dtype=np.float64)
    sizes[sizes == 0] = np.nan
    first = np.array([_first_hit(ids, set(wanted)) for ids, wanted in zip(ranked, gold, strict=True)])
    values: dict[str, FloatArray] = {}
    for k in ks:
        values[f"recall@{k}"] = hits[:, :k].sum(axis=1) / sizes
    for k in ks:
        values[f"mrr@{k}"] = _blank(np.where(first <= k, 1.0 / first, 0.0), sizes)
    for k in ks:
        values[f"ndcg@{k}"] = _ndcg(hits[:, :k], sizes)
    values["mrr"] = _blank(1.0 / first, sizes)
    return values


def _hits(ranked: Sequence[Sequence[str]], gold: Sequence[Collection[str]], width: int) -> FloatArray:
    hits = np.zeros((len(ranked), width))
    for row, (ids, wanted) in enumerate(zip(ranked, gold, strict=True)):
        if len(set(ids)) != len(ids):
            twice = next(doc for i, doc in enumerate(ids) if doc in ids[:i])
            raise DataError(f"ranking {row}: document {twice!r} stands twice; rank each document once")
        relevant = set(wanted)
        hits[row, : len(ids)] = [doc in relevant for doc in ids[:width]]
    return hits


def _first_hit(ids: Sequence[str], wanted: set[str]) -> float:
    return next((float(rank) for rank, doc in enumerate(ids, start=1) if doc in wanted), np.inf)


def _ndcg(hits: FloatArray, sizes: FloatArray) -> FloatArray:
    discounts = 1.0 / np.log2(np.arange(2, hits.shape[1] + 2))
    best = np.cumsum(discounts)
    attainable = np.nan_to_num(np.minimum(sizes, hits.shape[1]), nan=1.0).astype(int)
    return _blank(hits @ discounts / best[attainable - 1], sizes)


def _blank(values: FloatArray, sizes: FloatArray) -> FloatArray:
    return np.where(np.isnan(sizes), np.nan, values)

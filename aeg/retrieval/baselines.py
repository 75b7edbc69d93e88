"""Retrieval without a graph: dense (nearest embeddings) and BM25, over atoms or passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from aeg.backends.nearest import build_index
from aeg.core.bm25 import Bm25
from aeg.core.ranking import top_k
from aeg.core.records import Passage
from aeg.errors import ConfigError, DataError

_BLOCK = 1 << 25  # scores held at once


def dense(query_embeddings: Tensor, vectors: Tensor, k: int, index: Any | None = None) -> tuple[Tensor, Tensor]:
    """Return the k rows of `vectors` nearest to each query by cosine, ties in row order.

    Args:
        query_embeddings: [queries, d], unit rows.
        vectors: [rows, d], unit rows.
        k: at least 1.
        index: `search(queries, k) -> (scores, rows)` over `vectors`; exact search where None.

    Returns:
        rows, int64 [queries, k], and cosines [queries, k]; row −1 with score 0 where there are fewer than k.

    Raises:
        ConfigError: if k is less than 1.
        DataError: if the dimensions differ.

    Example:
        >>> vectors = torch.tensor([[0.6, 0.8], [1.0, 0.0], [0.6, -0.8]])
        >>> rows, scores = dense(torch.tensor([[1.0, 0.0]]), vectors, 2)
        >>> rows.tolist(), [round(s, 6) for s in scores[0].tolist()]
        ([[1, 0]], [1.0, 0.6])
    """
    _check_k(k)
    if query_embeddings.ndim != 2 or query_embeddings.shape[1:] != vectors.shape[1:]:
        raise DataError(
            f"dense: got queries {tuple(query_embeddings.shape)} and vectors {tuple(vectors.shape)}, "
            "expected [queries, d] and [rows, d]; embed both with the same encoder"
        )
    queries = query_embeddings.to(vectors)
    if not len(queries) or not len(vectors):
        return _nothing(len(queries), k, vectors.device)
    index = index or build_index(vectors, kind="torch", device=vectors.device)
    scores, rows = (part.to(vectors.device) for part in index.search(queries, min(k, len(vectors))))
    return _padded(rows, scores, k)


def bm25(
    texts: Sequence[str], queries: Sequence[str], k: int, k1: float = 1.5, b: float = 0.75
) -> tuple[Tensor, Tensor]:
    """Return the k texts with the largest BM25 score for each query, ties in row order.

    BM25 as in Lucene (bm25s), words of two or more characters, lower-cased, without English stop words,
    stemmed by Snowball's English stemmer. The defaults are bm25s's own.

    Args:
        texts: what is searched: atoms, or `searchable` passages.
        queries: the questions.
        k: at least 1.
        k1: saturation of term frequency, not negative.
        b: normalisation by length, in [0, 1].

    Returns:
        rows, int64 [queries, k], and scores, float32 [queries, k]; row −1 with score 0 where fewer than k
        texts share a word with the query.

    Raises:
        ConfigError: if a parameter is out of range.
        DependencyError: if bm25s or PyStemmer is not installed.

    Example:
        >>> rows, _ = bm25(["Ann leads the lab.", "Labs are led.", "A dog barks."], ["Who leads labs?"], 3)
        >>> rows.tolist()
        [[0, 1, -1]]
    """
    _check_k(k)
    return best_texts(Bm25(texts, k1, b), queries, k)


def best_texts(index: Bm25, queries: Sequence[str], k: int) -> tuple[Tensor, Tensor]:
    """Return the k texts with the largest BM25 score for each query, as `bm25` does, for texts that are indexed."""
    if not len(index) or not len(queries):
        return _nothing(len(queries), k, torch.device("cpu"))
    width = max(1, _BLOCK // len(index))
    parts = [top_k(index.scores(queries[start : start + width]), k) for start in range(0, len(queries), width)]
    return torch.cat([rows for rows, _ in parts]), torch.cat([scores for _, scores in parts])


def searchable(passage: Passage) -> str:
    r"""Return what BM25 and dense passage retrieval read of a passage: its title and its text.

    Example:
        >>> searchable(Passage("1", "1", "She leads Tarn Lab.", "Mira Voss"))
        'Mira Voss\nShe leads Tarn Lab.'
    """
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


def _check_k(k: int) -> None:
    if k < 1:
        raise ConfigError(f"k: got {k}, expected at least 1")


def _nothing(queries: int, k: int, device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.full((queries, k), -1, dtype=torch.int64, device=device), torch.zeros(queries, k, device=device)


def _padded(rows: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    missing = k - rows.shape[1]
    scores = scores.masked_fill(rows < 0, 0)
    return (
        torch.nn.functional.pad(rows, (0, missing), value=-1),
        torch.nn.functional.pad(scores, (0, missing), value=0),
    )

"""Retrieval without a graph: dense (nearest embeddings) and BM25, over atoms or passages."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aeg.backends.nearest import build_index
from aeg.core.ranking import top_k
from aeg.core.records import Passage
from aeg.errors import ConfigError, DataError, DependencyError

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
    if not k1 >= 0 or not 0 <= b <= 1:
        raise ConfigError(f"bm25: got k1 = {k1}, b = {b}; expected k1 >= 0 and b from 0 to 1")
    words, asked = _tokens(texts), _tokens(queries)
    if not any(words) or not asked:
        return _nothing(len(queries), k, torch.device("cpu"))
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it installs a handler that shows DEBUG
    index = bm25s.BM25(method="lucene", k1=k1, b=b, backend="numpy")
    index.index(words, show_progress=False)
    known = set(index.vocab_dict)
    parts = []
    for start in range(0, len(asked), _width(len(texts))):
        block = [[word for word in query if word in known] for query in asked[start : start + _width(len(texts))]]
        columns = [index.get_scores(query) if query else np.zeros(len(texts), np.float32) for query in block]
        parts.append(top_k(torch.from_numpy(np.stack(columns, axis=1)), k))
    return torch.cat([rows for rows, _ in parts]), torch.cat([scores for _, scores in parts])


def searchable(passage: Passage) -> str:
    r"""Return what BM25 and dense passage retrieval read of a passage: its title and its text.

    Example:
        >>> searchable(Passage("1", "1", "She leads Tarn Lab.", "Mira Voss"))
        'Mira Voss\nShe leads Tarn Lab.'
    """
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


def _tokens(texts: Sequence[str]) -> list[list[str]]:
    try:
        import bm25s
        import Stemmer
    except ImportError as error:
        raise DependencyError(f"BM25 needs bm25s and PyStemmer ({error}); run: pip install bm25s PyStemmer") from None
    if not texts:
        return []
    stemmer = Stemmer.Stemmer("english")
    return bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False)


def _check_k(k: int) -> None:
    if k < 1:
        raise ConfigError(f"k: got {k}, expected at least 1")


def _width(rows: int) -> int:
    return max(1, _BLOCK // rows)


def _nothing(queries: int, k: int, device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.full((queries, k), -1, dtype=torch.int64, device=device), torch.zeros(queries, k, device=device)


def _padded(rows: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    missing = k - rows.shape[1]
    scores = scores.masked_fill(rows < 0, 0)
    return (
        torch.nn.functional.pad(rows, (0, missing), value=-1),
        torch.nn.functional.pad(scores, (0, missing), value=0),
    )

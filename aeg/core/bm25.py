"""BM25 scores of many texts for many queries, as one sparse product."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from aeg.core.tensors import csr_matrix
from aeg.errors import ConfigError, DependencyError


class Bm25:
    r"""BM25 over texts: score(q, t) = Σ_{w ∈ q} idf(w) · tf (k1 + 1) / (tf + k1 (1 − b + b |t| / mean length)).

    As in Lucene (bm25s), words of two or more characters, lower-cased, without English stop words, stemmed by
    Snowball's English stemmer. A word counts as often as the query has it.

    Args:
        texts: what is searched.
        k1: saturation of term frequency, not negative.
        b: normalisation by length, in [0, 1].
        device: where the products are done.

    Raises:
        ConfigError: if a parameter is out of range.
        DependencyError: if bm25s or PyStemmer is not installed.

    Source:
        Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009.

    Example:
        >>> found = Bm25(["Ann leads the lab.", "Labs are led.", "A dog barks."]).scores(["Who leads labs?"])
        >>> found.squeeze(1).argsort(descending=True).tolist()
        [0, 1, 2]
    """

    def __init__(
        self, texts: Sequence[str], k1: float = 1.5, b: float = 0.75, device: torch.device | str = "cpu"
    ) -> None:
        if not k1 >= 0 or not 0 <= b <= 1:
            raise ConfigError(f"bm25: got k1 = {k1}, b = {b}; expected k1 >= 0 and b from 0 to 1")
        self._texts, self._device = len(texts), torch.device(device)
        words = _words(texts)
        self._column: dict[str, int] = {}
        self._matrix: Tensor | None = None
        if any(words):
            self._matrix = self._weighed(words, k1, b).to(self._device)

    def __len__(self) -> int:
        return self._texts

    def scores(self, queries: Sequence[str]) -> Tensor:
        """Return the score of each text for each query, float32 [texts, queries], not negative."""
        if self._matrix is None or not queries:
            return torch.zeros(self._texts, len(queries), device=self._device)
        counts = torch.zeros(len(self._column), len(queries))
        for at, words in enumerate(_words(queries)):
            for word, times in Counter(words).items():
                if word in self._column:
                    counts[self._column[word], at] = times
        return self._matrix @ counts.to(self._device)

    def _weighed(self, words: list[list[str]], k1: float, b: float) -> Tensor:
        """The score that each word of the texts brings to each text, [texts, vocabulary]."""
        import bm25s
        from scipy.sparse import csc_array

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it installs a handler that shows DEBUG
        index = bm25s.BM25(method="lucene", k1=k1, b=b, backend="numpy")
        index.index(words, show_progress=False)
        names = sorted(word for word in index.vocab_dict if word)  # its own order is that of a set: another each time
        self._column = {word: column for column, word in enumerate(names)}
        parts = (index.scores["data"], index.scores["indices"], index.scores["indptr"])
        by_text = csc_array(parts, shape=(len(words), len(parts[2]) - 1))
        by_text = by_text[:, [index.vocab_dict[word] for word in names]].tocsr()
        by_text.sort_indices()
        crow, col, data = (torch.from_numpy(part) for part in (by_text.indptr, by_text.indices, by_text.data))
        return csr_matrix(crow.int(), col.int(), data.float(), by_text.shape)


def _words(texts: Sequence[str]) -> list[list[str]]:
    try:
        import bm25s
        import Stemmer
    except ImportError as error:
        raise DependencyError(f"BM25 needs bm25s and PyStemmer ({error}); run: pip install bm25s PyStemmer") from None
    if not texts:
        return []
    stemmer = Stemmer.Stemmer("english")
    return bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False)

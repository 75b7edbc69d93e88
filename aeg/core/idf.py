"""How much a stemmed word tells: its inverse document frequency over the corpus's passages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from aeg.core.text import content_stems


@dataclass(frozen=True)
class Idf:
    """Inverse passage frequencies of stemmed content words.

    idf(w) = ln(1 + (N - df(w) + 0.5) / (df(w) + 0.5)), with N passages, df(w) of them with w: always positive;
    ln(2N + 2) for a word that no passage has (df = 0).

    Source: BM25's idf as Lucene computes it.

    Example:
        >>> idf = Idf.of(["a tumour grows", "the tumour shrinks"])
        >>> [round(idf(stem), 3) for stem in ("tumour", "grow", "unseen")]
        [0.182, 0.693, 1.792]
    """

    passages: int
    frequencies: dict[str, int]

    @classmethod
    def of(cls, passages: Iterable[str]) -> Idf:
        """Return the inverse frequencies of the content words of `passages`."""
        counts: Counter[str] = Counter()
        total = 0
        for text in passages:
            counts.update(content_stems(text))
            total += 1
        return cls(total, dict(counts))

    def __call__(self, stem: str) -> float:
        """Return idf of a stem, seen or not."""
        frequency = self.frequencies.get(stem, 0)
        return math.log1p((self.passages - frequency + 0.5) / (frequency + 0.5))

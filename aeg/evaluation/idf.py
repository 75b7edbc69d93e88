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

    idf(w) = ln((N + 1) / (df(w) + 1)) + 1, with N passages, df(w) of them with w: always at least 1 (a word that
    every passage has), ln(N + 1) + 1 for a word that none has.

    Example:
        >>> idf = Idf.of(["a tumour grows", "the tumour shrinks"])
        >>> [round(idf(stem), 3) for stem in ("tumour", "grow", "unseen")]
        [1.0, 1.405, 2.099]
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
        return math.log((self.passages + 1) / (self.frequencies.get(stem, 0) + 1)) + 1

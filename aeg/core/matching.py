"""Finding one text inside another: entities on word boundaries, statements up to white space."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from aeg.core.keys import canonical_key
from aeg.core.lexicon import word_spans


class KeyedText:
    """A text whose words are known, so that many entities can be looked for in it.

    Example:
        >>> text = KeyedText("Mira Voss teaches C++ in 青岛.")
        >>> [text.mentions(name) for name in ("MIRA  Voss", "C", "C++", "青岛", "Voss teach")]
        [True, False, True, True, False]
    """

    def __init__(self, text: str) -> None:
        self._key = canonical_key(text)
        spans = word_spans(self._key)
        self._starts = {start for start, _ in spans}
        self._ends = {end for _, end in spans}

    def mentions(self, name: str) -> bool:
        """Tell whether the canonical key of `name` stands in the text and cuts no word of it."""
        key = canonical_key(name)
        words = word_spans(key)
        if not words:
            return False
        first, last = words[0][0], words[-1][1]
        at = self._key.find(key)
        while at >= 0:
            if at + first in self._starts and at + last in self._ends:
                return True
            at = self._key.find(key, at + 1)
        return False


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that differ in canonical key, the first form of each, in order; empty keys are left out.

    Example:
        >>> distinct(["Tarn Lab", "tarn  lab", "...", "C"])
        ('Tarn Lab', 'C')
    """
    kept: dict[str, str] = {}
    for name in names:
        key = canonical_key(name)
        if key:
            kept.setdefault(key, name)
    return tuple(kept.values())


def verbatim_span(text: str, statement: str) -> tuple[int, int] | None:
    r"""Return the character span of `statement` in `text`, white space aside, or None where it is not verbatim.

    The first occurrence counts. The comparison is otherwise exact: case and punctuation included.

    Example:
        >>> verbatim_span("It is so. Ann  owns\nBix. Yes.", "Ann owns Bix.")
        (10, 24)
    """
    words: Sequence[str] = statement.split()
    if not words:
        return None
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    return found.span() if found else None

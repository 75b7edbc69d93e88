"""Looking up stretches of a text's words among canonical keys."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from aeg.core.keys import canonical_key
from aeg.core.lexicon import FUNCTION_WORDS, word_spans

_POSSESSIVE = frozenset({"'s", "’s"})


class KeyIndex:
    """Canonical keys that can be looked for in texts.

    Attributes:
        row: the row of each key.

    Example:
        >>> index = KeyIndex(["lothair", "lothair ii", "mother"])
        >>> index.longest_matches("When did Lothair Ii's mother die?")
        [(1, 'Lothair Ii')]
    """

    def __init__(self, keys: Sequence[str]) -> None:
        """Take the keys, each once, row by row."""
        self.row = {key: row for row, key in enumerate(keys)}
        self._sorted = sorted(keys)
        self._reach: dict[str, int] = {}

    def longest_matches(
        self, text: str, max_tokens: int = 12, lower_case_tokens: bool = False
    ) -> list[tuple[int, str]]:
        """Return (row, words as written) of the greedy longest matches of `text`.

        From left to right, the longest stretch of up to `max_tokens` words whose canonical key is known is taken
        and its words are used up. A match has more than two characters (or several words), is not made of function
        words only, and is no single lower-case word unless `lower_case_tokens`.

        Args:
            text: a question.
            max_tokens: longest match, in words of `aeg.core.lexicon.word_spans`.
            lower_case_tokens: whether a single lower-case word may match.
        """
        text = " ".join(text.split())
        spans = word_spans(text)
        ends = [end for _, end in spans]
        folded = _folded(text)
        found, first = [], 0
        while first < len(spans):
            start, after = spans[first][0], first + 1
            stop = first + max_tokens
            if folded is not None:
                reach = self._longest(folded[start : ends[first]])
                stop = bisect_right(ends, start + reach, first, min(stop, len(ends))) if reach else first
            alone = lower_case_tokens or not text[start : ends[first]].islower()
            for last in range(min(stop, len(ends)) - 1, first - alone, -1):
                end = ends[last]
                row = self.row.get(canonical_key(text[start:end]) if folded is None else folded[start:end])
                if row is not None and _admitted(text, spans[first : last + 1], alone):
                    found.append((row, text[start:end]))
                    after = last + 1
                    break
            first = after
        return found

    def _longest(self, start: str) -> int:
        """Return the length of the longest key that begins with `start`, 0 where none does."""
        reach = self._reach.get(start)
        if reach is None:
            size = len(start)
            low = bisect_left(self._sorted, start)
            high = bisect_right(self._sorted, start, low, key=lambda key: key[:size])
            reach = self._reach[start] = max(map(len, self._sorted[low:high]), default=0)
        return reach


def _folded(text: str) -> str | None:
    """Return `text` such that the canonical key of any stretch of words is its slice, None where there is no such.

    There is one where normalising leaves the text as it is and folding maps each character to one character: then
    both act on every slice as on the whole, and a stretch of words has nothing at its ends to strip.
    """
    folded = text.casefold()
    if text.isascii():
        return folded
    alike = len(folded) == len(text) and folded.casefold() == folded
    stable = unicodedata.is_normalized("NFKC", text) and unicodedata.is_normalized("NFKC", folded)
    return folded if alike and stable else None


def _admitted(text: str, spans: Sequence[tuple[int, int]], alone: bool) -> bool:
    """Tell whether words may match; `alone` says whether the first of them may by itself."""
    words = [text[start:end].casefold() for start, end in spans]
    if words[0] in _POSSESSIVE or all(word in FUNCTION_WORDS for word in words):
        return False
    if sum(word not in _POSSESSIVE for word in words) > 1:
        return True
    return alone and len(canonical_key(text[spans[0][0] : spans[-1][1]])) > 2

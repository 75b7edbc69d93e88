"""Retrieved texts as the evidence measures read them: tokens, sentences, stems; each distinct text once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from aeg.core.text import content_words, sentence_spans
from aeg.errors import DataError

TokenSpans = Callable[[list[str]], list[list[tuple[int, int]]]]
"""Half-open character spans of the tokens of each text, in order, without special tokens, never truncated."""

IntArray = npt.NDArray[np.int32]


@dataclass
class Vocabulary:
    """Strings numbered in the order in which they are first seen.

    Example:
        >>> words = Vocabulary()
        >>> [words.number(word) for word in ("a", "b", "a")]
        [0, 1, 0]
    """

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        """Return the number of `text`, giving it the next one where it is new."""
        return self.numbers.setdefault(text, len(self.numbers))

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Portion:
    """The beginning of a text: `end` characters of it, None where it is whole."""

    text: str
    end: int | None = None


@dataclass(frozen=True)
class _Words:
    stems: IntArray  # [words]
    ends: IntArray  # [words], characters


class Reader:
    r"""Tokenises, splits and stems texts, keeping what it found for each distinct text.

    Args:
        token_spans: the judge's tokenizer.
        block: texts handed to it at a time.

    Example:
        >>> import re
        >>> words = lambda texts: [[match.span() for match in re.finditer(r"\w+", text)] for text in texts]
        >>> reader = Reader(words)
        >>> reader.tokenise(["Ann owns Bix.", "Bix is a dog."])
        >>> reader.within(["Ann owns Bix.", "Bix is a dog."], budget=5)
        ([Portion(text='Ann owns Bix.', end=None), Portion(text='Bix is a dog.', end=6)], True)
    """

    def __init__(self, token_spans: TokenSpans, block: int = 1024) -> None:
        self.stems = Vocabulary()
        self.sentences = Vocabulary()
        self._token_spans = token_spans
        self._block = block
        self._token_ends: dict[str, IntArray] = {}
        self._words: dict[str, _Words] = {}
        self._spans: dict[str, list[tuple[int, int]]] = {}

    def tokenise(self, texts: Iterable[str]) -> None:
        """Tokenise those of `texts` that are new, in blocks.

        Raises:
            DataError: if the tokenizer returns another number of lists than it was given texts.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._token_ends]
        for start in range(0, len(new), self._block):
            block = new[start : start + self._block]
            spans = self._token_spans(block)
            if len(spans) != len(block):
                raise DataError(f"token_spans: got {len(spans)} lists, expected {len(block)}, one a text")
            for text, tokens in zip(block, spans, strict=True):
                self._token_ends[text] = np.array([end for _, end in tokens], dtype=np.int32)

    def within(self, texts: Sequence[str], budget: int, partial: bool = True) -> tuple[list[Portion], bool]:
        """Return what the first `budget` tokens of `texts` hold, in order, and whether there was text enough.

        Args:
            texts: texts tokenised before.
            budget: tokens, at least 1.
            partial: cut the text in which the budget ends; else leave it out, unless it is the first.
        """
        portions: list[Portion] = []
        left = budget
        for text in texts:
            ends = self._token_ends[text]
            if len(ends) > left:
                if left and (partial or not portions):
                    portions.append(Portion(text, int(ends[left - 1])))
                return portions, True
            portions.append(Portion(text))
            left -= len(ends)
        return portions, left == 0

    def stems_in(self, portion: Portion) -> IntArray:
        """Return the numbers of the stems of the content words that stand wholly in `portion`."""
        words = self._words.get(portion.text)
        if words is None:
            found = content_words(portion.text)
            words = _Words(
                np.array([self.stems.number(word.stem) for word in found], dtype=np.int32),
                np.array([word.end for word in found], dtype=np.int32),
            )
            self._words[portion.text] = words
        return words.stems if portion.end is None else words.stems[words.ends <= portion.end]

    def sentences_in(self, portion: Portion) -> list[int]:
        """Return the numbers of the sentences of `portion`, the last one cut where the portion ends."""
        if portion.text not in self._spans:
            self._spans[portion.text] = sentence_spans(portion.text)
        end = len(portion.text) if portion.end is None else portion.end
        cut = (portion.text[a : min(b, end)].rstrip() for a, b in self._spans[portion.text] if a < end)
        return [self.sentences.number(sentence) for sentence in cut]

"""Entity linking by longest match of words against the graph's keys; no model needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aeg.config.ranges import param
from aeg.core.keys import canonical_key
from aeg.core.lexicon import FUNCTION_WORDS, word_spans
from aeg.core.records import EffectiveQuery
from aeg.core.tables import EntityTable
from aeg.query.base import LINKERS, Link, Linker

_POSSESSIVE = frozenset({"'s", "’s"})


@LINKERS.register("lexical")
@dataclass(frozen=True)
class Lexical(Linker):
    """Links the longest stretches of a question's words whose canonical key is an entity's.

    From left to right, the longest stretch of up to `max_tokens` words that matches is taken and its words
    are used up. A match has more than two characters (or several words, as in scripts without spaces), is not
    made of function words only, and is no single lower-case word. The weight of a link is the entity's
    specificity s(e) = 1 / (1 + ln(1 + mentions of e)).

    Attributes:
        max_tokens: longest match, in words.
        lower_case_tokens: whether a single lower-case word may match; for lower-cased corpora.
        use_mentions: link the mentions instead of the question's words: each by its key, or, where no entity
            has that, by the longest matches inside it.

    Example:
        >>> import torch
        >>> table = EntityTable(["ann lee", "director", "lee"], ["Ann Lee", "director", "Lee"],
        ...                     torch.tensor([0, 3, 5]), None)
        >>> [links] = Lexical().link([EffectiveQuery(0, "Who is the director of Ann Lee's film?")], table)
        >>> [(link.entity, link.weight, link.mention) for link in links]
        [(0, 1.0, 'Ann Lee')]
    """

    max_tokens: int = param(12, ge=1)
    lower_case_tokens: bool = False
    use_mentions: bool = False

    @property
    def needs_mentions(self) -> bool:  # type: ignore[override]
        """Whether effective queries must carry mentions; decided by `use_mentions`."""
        return self.use_mentions

    def link(
        self, effective: Sequence[EffectiveQuery], entities: EntityTable, encoder: Any | None = None
    ) -> list[tuple[Link, ...]]:
        """Return the links of each effective query, strongest first, equal weights in row order."""
        rows = {key: row for row, key in enumerate(entities.keys)}
        weights = entities.specificity().tolist()
        return [_links(self._matches(item, rows), weights) for item in effective]

    def _matches(self, item: EffectiveQuery, rows: Mapping[str, int]) -> list[tuple[int, str]]:
        if not self.use_mentions:
            return longest_matches(item.text, rows, self.max_tokens, self.lower_case_tokens)
        found = []
        for mention in item.mentions:
            row = rows.get(canonical_key(mention))
            inside = [] if row is not None else longest_matches(mention, rows, self.max_tokens, self.lower_case_tokens)
            found += inside if row is None else [(row, mention)]
        return found


def longest_matches(
    text: str, rows: Mapping[str, int], max_tokens: int = 12, lower_case_tokens: bool = False
) -> list[tuple[int, str]]:
    """Return (row, words as written) of the greedy longest matches of `text` against canonical keys.

    Args:
        text: a question.
        rows: row of each canonical key.
        max_tokens: longest match, in words of `aeg.core.lexicon.word_spans`.
        lower_case_tokens: whether a single lower-case word may match.

    Example:
        >>> longest_matches("When did Lothair Ii's mother die?", {"lothair ii": 0, "lothair": 1, "mother": 2})
        [(0, 'Lothair Ii')]
    """
    text = " ".join(text.split())
    spans = word_spans(text)
    words = [text[start:end] for start, end in spans]
    folded = text.lower() if text.isascii() else None  # ASCII: the key of words i to j is a slice
    found, first = [], 0
    while first < len(words):
        step = 1
        for last in range(min(first + max_tokens, len(words)) - 1, first - 1, -1):
            start, end = spans[first][0], spans[last][1]
            key = folded[start:end] if folded is not None else canonical_key(text[start:end])
            row = rows.get(key)
            if row is not None and _admitted(words[first : last + 1], key, lower_case_tokens):
                found.append((row, text[start:end]))
                step = last - first + 1
                break
        first += step
    return found


def _admitted(words: Sequence[str], key: str, lower_case_tokens: bool) -> bool:
    if words[0].casefold() in _POSSESSIVE or all(word.casefold() in FUNCTION_WORDS for word in words):
        return False
    content = [word for word in words if word.casefold() not in _POSSESSIVE]
    if len(content) > 1:
        return True
    return len(key) > 2 and (lower_case_tokens or not content[0].islower())


def _links(matches: Iterable[tuple[int, str]], weights: Sequence[float]) -> tuple[Link, ...]:
    mentions: dict[int, str] = {}
    for row, words in matches:
        mentions.setdefault(row, words)
    links = (Link(row, weights[row], words) for row, words in mentions.items())
    return tuple(sorted(links, key=lambda link: (-link.weight, link.entity)))

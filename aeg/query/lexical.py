"""Entity linking by longest match of words against the graph's keys; no model needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from aeg.config.ranges import param
from aeg.core.key_index import KeyIndex
from aeg.core.keys import canonical_key
from aeg.core.records import EffectiveQuery
from aeg.core.tables import EntityTable
from aeg.query.base import LINKERS, Linker
from aeg.query.links import Links


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

    def link(self, effective: Sequence[EffectiveQuery], entities: EntityTable, encoder: Any | None = None) -> Links:
        """Return the links of each effective query, strongest first, equal weights in row order."""
        found = [self._matches(item, entities.index) for item in effective]
        sizes = torch.tensor([len(matches) for matches in found], dtype=torch.int64)
        query = torch.repeat_interleave(torch.arange(len(found)), sizes)
        rows = torch.tensor([row for matches in found for row, _ in matches], dtype=torch.int64)
        words = [words for matches in found for _, words in matches]
        weights = entities.specificity(rows)
        return Links.strongest(len(found), query, rows, weights, torch.arange(len(words)), words)

    def _matches(self, item: EffectiveQuery, index: KeyIndex) -> list[tuple[int, str]]:
        if not self.use_mentions:
            return index.longest_matches(item.text, self.max_tokens, self.lower_case_tokens)
        found = []
        for mention in item.mentions:
            row = index.row.get(canonical_key(mention))
            inside = [] if row is not None else index.longest_matches(mention, self.max_tokens, self.lower_case_tokens)
            found += inside if row is None else [(row, mention)]
        return found

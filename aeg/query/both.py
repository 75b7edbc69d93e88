"""Entity linking by words first, by embeddings where words find nothing (or beside them)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from aeg.config.ranges import param
from aeg.core.records import EffectiveQuery
from aeg.core.tables import EntityTable
from aeg.query.base import LINKERS, Linker
from aeg.query.embedding import Embedding
from aeg.query.lexical import Lexical
from aeg.query.links import Links


@LINKERS.register("both")
@dataclass(frozen=True)
class Both(Linker):
    """Combines lexical and embedding links.

    Attributes:
        mode: `fallback`: queries without a lexical link get the embedding links; `union`: every query gets
            both, the larger weight where an entity has two.
        max_tokens, lower_case_tokens, use_mentions: see `Lexical`.
        top_k, threshold: see `Embedding`.
    """

    needs_mentions: ClassVar[bool] = True

    mode: str = param("fallback", choices=("fallback", "union"))
    max_tokens: int = param(12, ge=1)
    lower_case_tokens: bool = False
    use_mentions: bool = False
    top_k: int = param(20, ge=1)
    threshold: float = param(0.3, ge=0, lt=1)

    def link(self, effective: Sequence[EffectiveQuery], entities: EntityTable, encoder: Any | None = None) -> Links:
        """Return the links of each effective query, strongest first, equal weights in row order.

        Raises:
            ConfigError: if an embedding link is wanted and there is no encoder.
            DataError: if an embedding link is wanted and the entities have no embeddings.
        """
        lexical = Lexical(self.max_tokens, self.lower_case_tokens, self.use_mentions).link(effective, entities)
        which = (lexical.sizes == 0).nonzero().squeeze(1) if self.mode == "fallback" else torch.arange(len(lexical))
        wanted = [effective[at] for at in which.tolist()]
        return lexical.united(which, Embedding(self.top_k, self.threshold).link(wanted, entities, encoder))

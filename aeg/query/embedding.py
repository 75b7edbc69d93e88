"""Entity linking by similarity of embeddings (paper, section 3.3, eq. 5 and Table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.ranking import top_k
from aeg.core.records import EffectiveQuery
from aeg.core.tables import EntityTable
from aeg.errors import ConfigError, DataError
from aeg.query.base import LINKERS, Linker
from aeg.query.links import Links

_BLOCK = 1 << 21  # similarities held at once: as many as the caches hold


@LINKERS.register("embedding")
@dataclass(frozen=True)
class Embedding(Linker):
    """Links each query to the entities nearest to any of its mentions.

    An entity's weight is its largest cosine to a mention of the query; the `top_k` largest above `threshold`
    are kept.

    Attributes:
        top_k: entities kept of each query.
        threshold: least cosine, exclusive.

    Source: section 3.3; `entity_top_k` and `entity_sim_threshold` of Table 5.
    """

    needs_mentions: ClassVar[bool] = True

    top_k: int = param(20, ge=1)
    threshold: float = param(0.3, ge=0, lt=1)

    def link(self, effective: Sequence[EffectiveQuery], entities: EntityTable, encoder: Any | None = None) -> Links:
        """Return the links of each effective query, strongest first, equal weights in row order.

        Raises:
            ConfigError: if there is no encoder.
            DataError: if the entities have no embeddings, or the encoder gives another number of dimensions.
        """
        texts = sorted({mention for item in effective for mention in item.mentions if mention.strip()})
        if not texts or not len(entities):
            return Links.from_lists(() for _ in effective)
        rows, scores = self._nearest(texts, entities, encoder)
        at = {text: row for row, text in enumerate(texts)}
        pairs = [(query, at[m]) for query, item in enumerate(effective) for m in item.mentions if m in at]
        query, mention = torch.tensor(pairs, dtype=torch.int64).T
        near = rows[mention]
        there = near >= 0
        return Links.strongest(
            len(effective),
            query.unsqueeze(1).expand_as(near)[there],
            near[there],
            scores[mention][there],
            mention.unsqueeze(1).expand_as(near)[there],
            texts,
            self.top_k,
        )

    def _nearest(self, texts: Sequence[str], entities: EntityTable, encoder: Any | None) -> tuple[Tensor, Tensor]:
        """Return the rows, −1 where there are fewer, and cosines of each text's nearest entities, [texts, k]."""
        # An entity among the top k of a query is among the top k of the mention that it is nearest to, so the
        # top k of each distinct mention hold all that is needed.
        table = _embeddings(entities)
        if encoder is None:
            raise ConfigError(
                "linking: got no encoder, which 'embedding' needs for the mentions; name an encoder, or "
                "set linking to 'lexical'"
            )
        vectors = encoder.encode(texts, kind="passage").to(table)
        if vectors.shape != (len(texts), table.shape[1]):
            raise DataError(
                f"linking: got mention embeddings of shape {tuple(vectors.shape)}, expected "
                f"{(len(texts), table.shape[1])} as the graph's entities; embed both with the same encoder"
            )
        parts = []
        for block in vectors.split(max(1, _BLOCK // len(table))):
            cosines = torch.nn.functional.threshold(block @ table.T, self.threshold, 0.0, inplace=True)  # ranked above
            parts.append(top_k(cosines.T, min(self.top_k, len(table))))
        return torch.cat([rows for rows, _ in parts]).cpu(), torch.cat([scores for _, scores in parts]).cpu()


def _embeddings(entities: EntityTable) -> Tensor:
    if entities.embeddings is None:
        raise DataError(
            "linking: got entities without embeddings, which 'embedding' needs; expected a graph built with "
            "an encoder; rebuild it with one, or set linking to 'lexical'"
        )
    return entities.embeddings

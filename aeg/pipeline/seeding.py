"""The questions of a corpus with all that seeds are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from aeg.artifacts import fingerprint
from aeg.config.schema import SeedsConfig
from aeg.core.records import EffectiveQuery, Query
from aeg.core.seeds import Seeds
from aeg.query.links import Links
from aeg.query.seeds import SeedTrace, query_keys


@dataclass(frozen=True, eq=False)
class Seeding:
    """The questions of a corpus, ready to be propagated.

    Attributes:
        queries: the questions, ordered by id.
        effective: their effective queries.
        of_query: int64 [effective], rows of `queries`.
        embeddings: [effective, d].
        links: linked entities of each effective query.
        seconds: wall time of embedding and linking.
        trust: τ of each effective query, float64 [effective]; None where nothing in the config depends on it.
        seeded: the seeds and what they are made of, by balance, as far as they were asked for.
    """

    queries: Sequence[Query]
    effective: Sequence[EffectiveQuery]
    of_query: Tensor
    embeddings: Tensor
    links: Links
    seconds: float
    trust: Tensor | None = None
    seeded: dict[SeedsConfig, tuple[Seeds, SeedTrace]] = field(default_factory=dict)

    @cached_property
    def keys(self) -> Tensor:
        """A stable number of each effective query, int64 [effective]."""
        return query_keys(self.effective)

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of the questions, their effective queries and links, the same for every method."""
        return {
            "queries": fingerprint([(query.id, query.question) for query in self.queries]),
            "effective": fingerprint([dataclasses.astuple(query) for query in self.effective]),
            "links": self.links.digest(),
        }

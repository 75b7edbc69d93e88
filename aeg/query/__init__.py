"""From questions to seeds: decomposition, mentions, linking, personalisation."""

from __future__ import annotations

from aeg.query import both, decomposition, embedding, lexical, llm, mentions
from aeg.query.base import DECOMPOSITIONS, LINKERS, MENTIONS, Decomposition, Linker, MentionExtractor
from aeg.query.links import Link, Links
from aeg.query.seeds import SeedTrace, build_seeds, needs_atoms, query_keys

__all__ = [
    "DECOMPOSITIONS",
    "LINKERS",
    "MENTIONS",
    "Decomposition",
    "Link",
    "Linker",
    "Links",
    "MentionExtractor",
    "SeedTrace",
    "both",
    "build_seeds",
    "decomposition",
    "embedding",
    "lexical",
    "llm",
    "mentions",
    "needs_atoms",
    "query_keys",
]

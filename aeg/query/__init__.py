"""From questions to seeds: decomposition, mentions, linking, personalisation."""

from __future__ import annotations

from aeg.query import both, decomposition, embedding, lexical, mentions
from aeg.query.base import DECOMPOSITIONS, LINKERS, MENTIONS, Decomposition, Link, Linker, MentionExtractor
from aeg.query.seeds import SeedTrace, build_seeds, needs_atoms

__all__ = [
    "DECOMPOSITIONS",
    "LINKERS",
    "MENTIONS",
    "Decomposition",
    "Link",
    "Linker",
    "MentionExtractor",
    "SeedTrace",
    "both",
    "build_seeds",
    "decomposition",
    "embedding",
    "lexical",
    "mentions",
    "needs_atoms",
]

"""The protocols of the query stage (decomposition, mentions, linking), and their registries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from aeg.config.ranges import Checked
from aeg.core.records import EffectiveQuery, Query
from aeg.core.sources import Sourced
from aeg.core.tables import EntityTable
from aeg.registry import Registry


@dataclass(frozen=True)
class Link:
    """A mention tied to an entity: the entity's row, its seed weight, and the words that led to it."""

    entity: int
    weight: float
    mention: str


@dataclass(frozen=True)
class Decomposition(Sourced, ABC):
    """Turns questions into effective queries (paper, section 3.2, eq. 4)."""

    @abstractmethod
    def decompose(self, queries: Sequence[Query], root: Path | None = None) -> list[EffectiveQuery]:
        """Return the effective queries: each question itself first, then its sub-questions, in question order."""


@dataclass(frozen=True)
class MentionExtractor(Sourced, ABC):
    """Finds the entity mentions of effective queries."""

    @abstractmethod
    def mentions(
        self, effective: Sequence[EffectiveQuery], queries: Sequence[Query], root: Path | None = None
    ) -> list[tuple[str, ...]]:
        """Return the mentions of each effective query; `effective[i].query` is a row of `queries`."""


@dataclass(frozen=True)
class Linker(Checked, ABC):
    """Links effective queries to entities of the graph."""

    needs_mentions: ClassVar[bool] = False

    @abstractmethod
    def link(
        self, effective: Sequence[EffectiveQuery], entities: EntityTable, encoder: Any | None = None
    ) -> list[tuple[Link, ...]]:
        """Return the links of each effective query, strongest first, each entity at most once.

        Args:
            effective: what to link, with mentions where the linker uses them.
            entities: the graph's entities.
            encoder: an object with `encode(texts, kind="query") -> Tensor [n, d]` of unit rows, for linkers that
                embed mentions.
        """


DECOMPOSITIONS: Registry[Decomposition] = Registry("decomposition")
MENTIONS: Registry[MentionExtractor] = Registry("mention extraction")
LINKERS: Registry[Linker] = Registry("entity linking")

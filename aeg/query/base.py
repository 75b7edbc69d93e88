"""The protocols of the query stage (decomposition, mentions, linking), and their registries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from aeg.config.ranges import Checked
from aeg.core.records import EffectiveQuery, Query
from aeg.core.sources import Sourced
from aeg.core.tables import EntityTable
from aeg.query.links import Links
from aeg.registry import Registry

if TYPE_CHECKING:
    from aeg.backends.llm import Asker


@dataclass(frozen=True)
class Decomposition(Sourced, ABC):
    """Turns questions into effective queries (paper, section 3.2, eq. 4)."""

    @abstractmethod
    def decompose(
        self, queries: Sequence[Query], root: Path | None = None, llm: Asker | None = None
    ) -> list[EffectiveQuery]:
        """Return the effective queries: each question itself first, then its sub-questions, in question order.

        Args:
            queries: the questions.
            root: the folder that relative paths in the parameters start from.
            llm: the model of the method's `role`; ignored by methods that need none.
        """


@dataclass(frozen=True)
class MentionExtractor(Sourced, ABC):
    """Finds the entity mentions of effective queries."""

    @abstractmethod
    def mentions(
        self,
        effective: Sequence[EffectiveQuery],
        queries: Sequence[Query],
        root: Path | None = None,
        llm: Asker | None = None,
    ) -> list[tuple[str, ...]]:
        """Return the mentions of each effective query; `effective[i].query` is a row of `queries`.

        Args:
            effective: the effective queries.
            queries: the questions.
            root: the folder that relative paths in the parameters start from.
            llm: the model of the method's `role`; ignored by methods that need none.
        """


@dataclass(frozen=True)
class Linker(Checked, ABC):
    """Links effective queries to entities of the graph."""

    needs_mentions: ClassVar[bool] = False

    @abstractmethod
    def link(self, effective: Sequence[EffectiveQuery], entities: EntityTable, encoder: Any | None = None) -> Links:
        """Return the links of each effective query, strongest first, each entity at most once.

        A method that finds them query by query returns `Links.from_lists(found)`.

        Args:
            effective: what to link, with mentions where the linker uses them.
            entities: the graph's entities.
            encoder: an object with `encode(texts, kind="query") -> Tensor [n, d]` of unit rows, for linkers that
                embed mentions.
        """


DECOMPOSITIONS: Registry[Decomposition] = Registry("decomposition")
MENTIONS: Registry[MentionExtractor] = Registry("mention extraction")
LINKERS: Registry[Linker] = Registry("entity linking")

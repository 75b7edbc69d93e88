"""What later stages need to know of a graph's nodes, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from aeg.core.key_index import KeyIndex


@dataclass(frozen=True, eq=False)
class AtomTable:
    """The atoms of a graph, ordered by id.

    Attributes:
        ids: SHA-256 (hexadecimal) of each atom's canonical text, ascending.
        texts: canonical texts.
        embeddings: float32 [atoms, d], unit rows; None where the graph was built without an encoder.
        occurrence_atom, occurrence_passage: int64 [occurrences]: the atom's row and the passage's row.
        occurrence_span: int64 [occurrences, 2], the character span in the passage, −1 where unknown.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    embeddings: Tensor | None
    occurrence_atom: Tensor
    occurrence_passage: Tensor
    occurrence_span: Tensor

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class EntityTable:
    """The entities of a graph, ordered by canonical key; entity i is node `atoms + i` of the operator.

    Attributes:
        keys: canonical keys, ascending.
        names: for each, its most frequent surface form (the first of them in order where several are).
        mentions: int64 [entities], the number of atoms that mention the entity.
        embeddings: float32 [entities, d], unit rows; None where the graph was built without an encoder.
    """

    keys: Sequence[str]
    names: Sequence[str]
    mentions: Tensor
    embeddings: Tensor | None

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def index(self) -> KeyIndex:
        """The canonical keys, to be looked for in questions; made once."""
        return KeyIndex(self.keys)

    def specificity(self, rows: Tensor | None = None) -> Tensor:
        """Return s(e) = 1 / (1 + ln(1 + mentions of e)), in (0, 1], float32 [entities], or of some rows only."""
        mentions = self.mentions if rows is None else self.mentions[rows]
        return (1.0 / (1.0 + (1.0 + mentions.double()).log())).float()

"""The global inventories of atoms, entities and edges, gathered from the extractions of all passages."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from aeg.core.keys import atom_text, canonical_key
from aeg.core.records import Extraction, Passage
from aeg.core.tables import AtomTable, EntityTable
from aeg.errors import DataError

_Unit = tuple[tuple[str, int, int, int], list[tuple[str, str]]]
"""An occurrence (text, passage row, start, end), and pairs of that text and an entity's key."""


@dataclass(frozen=True, eq=False)
class Inventory:
    """Atoms, entities and the edges that the text gives (paper, section 3.1).

    Attributes:
        atoms, entities: the tables, without embeddings.
        mentions: int64 [2, edges]: atom row, entity row; each pair once.
        relates: int64 [2, edges]: entity rows, smaller first; each pair once.
        relates_weight: float32 [edges], the number of distinct relation labels (eq. 2).
        counts: what was merged, rejected or dropped, by reason.
        rejected: names whose canonical key is empty, distinct, in order (the first hundred).
    """

    atoms: AtomTable
    entities: EntityTable
    mentions: Tensor
    relates: Tensor
    relates_weight: Tensor
    counts: dict[str, int] = field(default_factory=dict)
    rejected: tuple[str, ...] = ()


class _Keys:
    """Canonical keys of names, computed once a name; counts what is rejected."""

    def __init__(self) -> None:
        self.key: dict[str, str] = {}
        self.surface: Counter[str] = Counter()
        self.rejected: dict[str, None] = {}
        self.counts: Counter[str] = Counter()

    def of(self, name: str) -> str:
        if name not in self.key:
            self.key[name] = canonical_key(name)
        if not self.key[name]:
            self.rejected[name] = None
            self.counts["empty_entity_keys"] += 1
            return ""
        self.surface[name] += 1
        return self.key[name]


def collect(passages: Sequence[Passage], extractions: Iterable[Extraction], units: str = "atoms") -> Inventory:
    """Return the inventories over all passages: one atom per distinct text, one entity per canonical key.

    With `units="passages"` (the paper's "w/o KA", Table 2) the text of each passage, its title before it, stands
    in for the atoms found in it: it mentions every entity of the passage (of its list, its triples and its atoms)
    and spans the whole passage. Entities and their relations are the same either way.

    Raises:
        DataError: if extractions and passages do not match one to one, or there is not a single atom.

    Example:
        >>> from aeg.core.records import ExtractedAtom
        >>> found = Extraction("p", ("Mira Voss",), (("Mira Voss", "leads", "Tarn Lab"),),
        ...                    (ExtractedAtom("Mira Voss leads Tarn Lab.", ("MIRA VOSS", "Tarn  Lab")),))
        >>> inventory = collect([Passage("p", "d", "Mira Voss leads Tarn Lab.")], [found])
        >>> list(inventory.entities.keys), inventory.mentions.shape[1]
        (['mira voss', 'tarn lab'], 2)
    """
    gathered = _Gathered(units)
    seen = 0
    for row, found in enumerate(extractions):
        if row >= len(passages) or found.passage_id != passages[row].id:
            expected = passages[row].id if row < len(passages) else "no more"
            raise DataError(f"graph: got an extraction of passage {found.passage_id!r}, expected {expected!r}")
        gathered.add(row, passages[row], found)
        seen += 1
    if seen != len(passages):
        raise DataError(f"graph: got extractions of {seen} passages, expected {len(passages)}")
    if not gathered.occurrences:
        raise DataError("graph: got no atom from any passage, expected at least one; check corpus and extraction")
    keys, counts = gathered.keys, gathered.counts
    atoms, atom_row = _atom_table(gathered.occurrences)
    relates, weight = _relations(gathered.labels, counts)
    entities, entity_row = _entity_keys(gathered.listed, gathered.pairs, relates, keys)
    mentions = _unique_pairs([(atom_row[text], entity_row[key]) for text, key in gathered.pairs], len(entities))
    index = torch.tensor([(entity_row[a], entity_row[b]) for a, b in relates], dtype=torch.int64).reshape(-1, 2).T
    counts["extracted_triples"] = len(gathered.labels)
    counts.update(keys.counts)
    degree = torch.bincount(mentions[1], minlength=len(entities))
    table = EntityTable(entities, _names(entities, keys), degree, None)
    return Inventory(atoms, table, mentions, index, weight, dict(sorted(counts.items())), tuple(keys.rejected)[:100])


class _Gathered:
    """What the passages give, in their order: occurrences of units, pairs of unit and entity, labelled relations."""

    def __init__(self, units: str) -> None:
        self.units = units
        self.keys = _Keys()
        self.occurrences: list[tuple[str, int, int, int]] = []
        self.pairs: list[tuple[str, str]] = []
        self.labels: list[tuple[str, str, str]] = []
        self.listed: set[str] = set()
        self.counts: Counter[str] = Counter(extracted_atoms=0)

    def add(self, row: int, passage: Passage, found: Extraction) -> None:
        """Take in what was extracted from the passage at `row`."""
        self.counts[f"passages_{found.status}"] += 1
        own = {key for name in found.entities if (key := self.keys.of(name))}
        labels = [
            (self.keys.of(subject), canonical_key(relation), self.keys.of(tail))
            for subject, relation, tail in found.triples
        ]
        self.labels.extend(labels)
        atoms = self._atoms(row, found)
        if self.units == "passages":
            own.update(key for _, pairs in atoms for _, key in pairs)
            own.update(end for a, _, b in labels if a and b and a != b for end in (a, b))
            atoms = self._passage(row, passage, own)
        self.listed.update(own)
        for occurrence, pairs in atoms:
            self.occurrences.append(occurrence)
            self.pairs.extend(pairs)

    def _atoms(self, row: int, found: Extraction) -> list[_Unit]:
        units: list[_Unit] = []
        for atom in found.atoms:
            self.counts["extracted_atoms"] += 1
            text = atom_text(atom.text)
            if not text:
                self.counts["empty_atoms"] += 1
                continue
            span = (-1, -1) if atom.start is None or atom.end is None else (atom.start, atom.end)
            pairs = [(text, key) for name in atom.entities if (key := self.keys.of(name))]
            units.append(((text, row, *span), pairs))
        return units

    def _passage(self, row: int, passage: Passage, entities: set[str]) -> list[_Unit]:
        if not passage.text.strip():
            self.counts["empty_passages"] += 1
            return []
        text = atom_text(f"{passage.title}\n{passage.text}")
        return [((text, row, 0, len(passage.text)), [(text, key) for key in sorted(entities)])]


def _atom_table(occurrences: list[tuple[str, int, int, int]]) -> tuple[AtomTable, dict[str, int]]:
    distinct = {text: hashlib.sha256(text.encode()).hexdigest() for text, *_ in occurrences}
    texts = sorted(distinct, key=distinct.__getitem__)
    row = {text: at for at, text in enumerate(texts)}
    where = np.unique(
        np.array([(row[text], passage, start, end) for text, passage, start, end in occurrences], dtype=np.int64),
        axis=0,
    )
    table = torch.from_numpy(where)
    ids = [distinct[text] for text in texts]
    return AtomTable(ids, texts, None, table[:, 0].clone(), table[:, 1].clone(), table[:, 2:].clone()), row


def _relations(labels: list[tuple[str, str, str]], counts: Counter[str]) -> tuple[list[tuple[str, str]], Tensor]:
    """Distinct unordered pairs of keys, and the number of distinct labels between each (either direction)."""
    kept: set[tuple[str, str, str]] = set()
    for subject, label, tail in labels:
        if not subject or not tail:
            counts["triples_with_empty_end"] += 1
        elif subject == tail:
            counts["triples_self_loop"] += 1
        else:
            kept.add((*sorted((subject, tail)), label))  # type: ignore[arg-type]
    weight = Counter((a, b) for a, b, _ in kept)
    pairs = sorted(weight)
    return pairs, torch.tensor([weight[pair] for pair in pairs], dtype=torch.float32)


def _entity_keys(
    listed: set[str], pairs: list[tuple[str, str]], relates: list[tuple[str, str]], keys: _Keys
) -> tuple[list[str], dict[str, int]]:
    every = listed | {key for _, key in pairs} | {key for pair in relates for key in pair}
    ordered = sorted(every)
    return ordered, {key: row for row, key in enumerate(ordered)}


def _unique_pairs(pairs: list[tuple[int, int]], width: int) -> Tensor:
    table = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
    flat = torch.unique(table[:, 0] * max(width, 1) + table[:, 1])
    return torch.stack([flat // max(width, 1), flat % max(width, 1)])


def _names(entities: list[str], keys: _Keys) -> list[str]:
    """The most frequent surface form of each entity, the first in order among equals."""
    best: dict[str, tuple[int, str]] = {}
    for name, count in keys.surface.items():
        key = keys.key[name]
        rank = (-count, name)
        if key not in best or rank < best[key]:
            best[key] = rank
    return [best[key][1] for key in entities]

"""The global inventories of atoms, entities and edges, gathered from the extractions of all passages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from aeg.core.keys import canonical_key
from aeg.core.records import Extraction, Passage
from aeg.core.tables import AtomTable, EntityTable
from aeg.errors import DataError
from aeg.graph.gathering import Gathered, Texts


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
    gathered = Gathered(units)
    seen = 0
    for row, found in enumerate(extractions):
        if row >= len(passages) or found.passage_id != passages[row].id:
            expected = passages[row].id if row < len(passages) else "no more"
            raise DataError(f"graph: got an extraction of passage {found.passage_id!r}, expected {expected!r}")
        gathered.add(row, passages[row], found)
        seen += 1
    if seen != len(passages):
        raise DataError(f"graph: got extractions of {seen} passages, expected {len(passages)}")
    if not len(gathered.occurrences):
        raise DataError("graph: got no atom from any passage, expected at least one; check corpus and extraction")
    return _inventory(gathered)


def _inventory(gathered: Gathered) -> Inventory:
    counts = gathered.counts
    atoms, atom_row = _atom_table(gathered)
    key, keys = _canonical(gathered.names)
    label, labels = _canonical(gathered.labels)
    triples = gathered.triples
    ends = key[triples[:, ::2]]
    empty = (ends < 0).any(axis=1)
    loop = (ends[:, 0] == ends[:, 1]) & ~empty
    related = ~(empty | loop)
    text, name = gathered.pairs(related)
    used = np.unique(np.concatenate([key[gathered.listed], key[gathered.in_atoms], ends[related].ravel()]))
    ordered = sorted(used[used >= 0].tolist(), key=keys.__getitem__)
    row = np.full(len(keys), -1, dtype=np.int64)
    row[ordered] = np.arange(len(ordered))
    named = key[name] >= 0
    mentions = _unique_pairs(atom_row[text[named]], row[key[name[named]]], len(ordered))
    relates, weight = _relations(row[ends[related]], label[triples[related, 1]], len(ordered), len(labels))
    often = np.bincount(gathered.every_name, minlength=len(key))
    counts["extracted_triples"] = len(triples)
    reasons = {"triples_with_empty_end": empty, "triples_self_loop": loop, "empty_entity_keys": often[key < 0]}
    counts.update({reason: int(found.sum()) for reason, found in reasons.items() if found.any()})
    degree = torch.bincount(mentions[1], minlength=len(ordered))
    entities = EntityTable([keys[at] for at in ordered], _names(gathered.names, key, often, ordered), degree, None)
    rejected = tuple(name for name, found in zip(gathered.names, key.tolist(), strict=True) if found < 0)
    return Inventory(atoms, entities, mentions, relates, weight, dict(sorted(counts.items())), rejected[:100])


def _canonical(texts: Texts) -> tuple[np.ndarray, list[str]]:
    """Return the number of each text's canonical key, −1 where that is empty, and the keys."""
    keys = Texts()
    number = [keys[key] if (key := canonical_key(text)) else -1 for text in texts]
    return np.array(number, dtype=np.int64), list(keys)


def _atom_table(gathered: Gathered) -> tuple[AtomTable, np.ndarray]:
    """Return the atoms and the row of each text."""
    texts = list(gathered.texts)
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    order = sorted(range(len(texts)), key=digests.__getitem__)
    row = np.empty(len(texts), dtype=np.int64)
    row[order] = np.arange(len(texts))
    where = gathered.occurrences
    where[:, 0] = row[where[:, 0]]
    table = torch.from_numpy(np.unique(where, axis=0))
    ids = [digests[at] for at in order]
    sorted_texts = [texts[at] for at in order]
    return AtomTable(ids, sorted_texts, None, table[:, 0].clone(), table[:, 1].clone(), table[:, 2:].clone()), row


def _relations(ends: np.ndarray, label: np.ndarray, entities: int, labels: int) -> tuple[Tensor, Tensor]:
    """Distinct unordered pairs of entity rows, and the number of distinct labels between each (either direction)."""
    flat, pair = np.unique(ends.min(axis=1) * entities + ends.max(axis=1), return_inverse=True)
    distinct = np.unique(pair * (labels + 1) + label + 1)  # an empty label is a label
    weight = np.bincount(distinct // (labels + 1), minlength=len(flat))
    return torch.from_numpy(np.stack(np.divmod(flat, max(entities, 1)))), torch.from_numpy(weight).to(torch.float32)


def _unique_pairs(one: np.ndarray, other: np.ndarray, width: int) -> Tensor:
    flat = np.unique(one * max(width, 1) + other)
    return torch.from_numpy(np.stack(np.divmod(flat, max(width, 1))))


def _names(names: Texts, key: np.ndarray, often: np.ndarray, ordered: list[int]) -> list[str]:
    """The most frequent surface form of each entity, the first in order among equals."""
    most = np.zeros(max(int(key.max(initial=0)), 0) + 1, dtype=np.int64)
    np.maximum.at(most, key[key >= 0], often[key >= 0])
    best: dict[int, str] = {}
    for name, number, frequent in zip(names, key.tolist(), (often == most[key]).tolist(), strict=True):
        if frequent and number >= 0 and (number not in best or name < best[number]):
            best[number] = name
    return [best[number] for number in ordered]

"""The gold of each question: which of it was missed, at which rank it stands, and which atoms state it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aeg.core.idf import Idf
from aeg.core.records import Query
from aeg.core.text import content_stems, content_words
from aeg.evaluation.reading import Reader
from aeg.graph import AtomEntityGraph
from experiments.diagnose.settings import Settings


@dataclass(frozen=True)
class Gold:
    """One gold passage or statement of a question.

    Attributes:
        name: document id, or the statement.
        atoms: rows of the atoms that state it.
        k: ranks up to k are found.
        rank: from 1; one more than the ranking is long where it does not stand there.
        found: whether it was found.
        possible: whether some ranking could have found it.
    """

    name: str
    atoms: tuple[int, ...]
    k: int
    rank: int
    found: bool
    possible: bool = True


class Passages:
    """Gold documents: found within the first k of the ranked documents; all their atoms state them.

    Where a question has more gold than k, that many of the misses, the lowest ranked ones, were not possible.
    """

    what = "passages"

    def __init__(self, graph: AtomEntityGraph, settings: Settings) -> None:
        self._k, self._atoms = settings.k, atoms_by_document(graph)

    def of(self, query: Query, record: dict[str, Any]) -> list[Gold]:
        """Return the gold of a question."""
        place = {name: at for at, name in enumerate(record["documents"], start=1)}
        ranks = {name: place.get(name, len(place) + 1) for name in query.gold_doc_ids}
        worst = sorted(ranks, key=lambda name: -ranks[name])
        impossible = set(worst[: max(0, len(ranks) - self._k)])
        return [
            Gold(name, tuple(self._atoms.get(name, ())), self._k, rank, rank <= self._k, name not in impossible)
            for name, rank in ranks.items()
        ]


class Statements:
    """Gold statements: found where the text read within the budget has `covered` of their idf-weighted words.

    Atoms that have as much of them state them. Not possible is a statement whose words no passage has to that share.
    k is the number of atoms that fit into the budget.
    """

    what = "statements"

    def __init__(self, graph: AtomEntityGraph, settings: Settings, reader: Reader) -> None:
        self._settings, self._reader = settings, reader
        self._texts, self._ids = graph.atoms.texts, {name: row for row, name in enumerate(graph.atoms.ids)}
        self._idf = Idf.of(passage.text for passage in graph.passages)
        self._in_atoms = _postings([content_stems(text) for text in self._texts])
        self._in_passages = _postings([content_stems(passage.text) for passage in graph.passages])
        self._sizes = len(self._texts), len(graph.passages)

    def of(self, query: Query, record: dict[str, Any]) -> list[Gold]:
        """Return the gold of a question; statements without a content word are left out, as the measure does."""
        rows = [self._ids[name] for name in record["units"]]
        texts = [self._texts[row] for row in rows]
        self._reader.tokenise(texts)
        portions, _ = self._reader.within(texts, self._settings.budget)
        read = {stem for portion in portions for stem in content_stems(portion.text[: portion.end])}
        place = {row: at for at, row in enumerate(rows, start=1)}
        k = max(1, len(portions))
        found = []
        for text in query.evidence:
            times = Counter(word.stem for word in content_words(text))
            weights = {stem: self._idf(stem) * number for stem, number in times.items()}
            if not weights:
                continue
            enough = self._settings.covered * sum(weights.values())
            atoms = self._stating(weights, enough, self._in_atoms, self._sizes[0])
            passages = self._stating(weights, enough, self._in_passages, self._sizes[1])
            there = sum(weight for stem, weight in weights.items() if stem in read) >= enough
            rank = min((place[row] for row in atoms if row in place), default=len(place) + 1)
            found.append(Gold(text, atoms, k, rank if there else max(rank, k + 1), there, bool(passages or atoms)))
        return found

    @staticmethod
    def _stating(
        weights: dict[str, float], enough: float, postings: dict[str, np.ndarray], size: int
    ) -> tuple[int, ...]:
        share = np.zeros(size)
        for stem, weight in weights.items():
            share[postings.get(stem, _NONE)] += weight
        return tuple(np.flatnonzero(share >= enough - 1e-9).tolist())


def atoms_by_document(graph: AtomEntityGraph) -> dict[str, list[int]]:
    """Return the rows of each document's atoms, ascending, each once."""
    rows: dict[str, set[int]] = {}
    pairs = zip(graph.atoms.occurrence_atom.tolist(), graph.atoms.occurrence_passage.tolist(), strict=True)
    for atom, passage in pairs:
        rows.setdefault(graph.passages[passage].doc_id, set()).add(atom)
    return {name: sorted(found) for name, found in rows.items()}


_NONE = np.zeros(0, dtype=np.int64)


def _postings(stems: Sequence[frozenset[str]]) -> dict[str, np.ndarray]:
    rows: dict[str, list[int]] = {}
    for row, found in enumerate(stems):
        for stem in found:
            rows.setdefault(stem, []).append(row)
    return {stem: np.array(found, dtype=np.int64) for stem, found in rows.items()}


class Names:
    """Which entities a question names, by the idf-weighted share of their words that stand in it."""

    def __init__(self, graph: AtomEntityGraph, settings: Settings) -> None:
        self._keys, self._share = graph.entities.keys, settings.named
        self._idf = Idf.of(passage.text for passage in graph.passages)
        self._most = max(10.0, settings.common * len(graph.passages))

    def named(self, question: str, mentions: Iterable[str], entities: Iterable[int]) -> str | None:
        """Return the first of some entities (rows) that a question names beside what was linked; None without one.

        Args:
            question: the question.
            mentions: its words that were linked.
            entities: rows.
        """
        asked = content_stems(question) - {stem for mention in mentions for stem in content_stems(mention)}
        for entity in sorted(entities):
            weights = {stem: self._idf(stem) for stem in content_stems(self._keys[entity])}
            there = {stem: weight for stem, weight in weights.items() if stem in asked}
            telling = any(self._idf.frequencies.get(stem, 0) <= self._most for stem in there)
            if telling and sum(there.values()) >= self._share * sum(weights.values()):
                return self._keys[entity]
        return None

"""What the passages of a corpus give, gathered as arrays of numbers: names, units of text, labelled relations."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np

from aeg.core.keys import atom_text
from aeg.core.records import Extraction, Passage


class Texts(dict[str, int]):
    """Texts with their numbers, given in the order in which they are first asked for.

    Example:
        >>> texts = Texts()
        >>> [texts[text] for text in ("b", "a", "b")]
        [0, 1, 0]
    """

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


class Gathered:
    """The units of text, the names and the triples of extractions, in the order of the passages.

    A unit is an atom, or with `units="passages"` the whole passage, its title before it.

    Attributes:
        names, texts, labels: entity names, texts of units and relation labels, with their numbers.
        counts: atoms extracted, atoms and passages without text, passages by status.
    """

    def __init__(self, units: str) -> None:
        self.names, self.texts, self.labels = Texts(), Texts(), Texts()
        self.counts: Counter[str] = Counter(extracted_atoms=0)
        self._whole = units == "passages"
        self._occurrences: list[tuple[int, int, int, int]] = []
        self._listed: list[int] = []
        self._triples: list[tuple[int, int, int]] = []
        self._atom_names: list[int] = []
        self._sizes: list[tuple[int, int, int]] = []  # of each passage: names listed, triples, names in atoms
        self._atom_sizes: list[int] = []

    def add(self, row: int, passage: Passage, found: Extraction) -> None:
        """Take in what was extracted from the passage at `row`."""
        names, labels, held = self.names, self.labels, len(self._atom_names)
        self.counts[f"passages_{found.status}"] += 1
        self._listed.extend(map(names.__getitem__, found.entities))
        self._triples.extend([(names[a], labels[relation], names[b]) for a, relation, b in found.triples])
        for atom in found.atoms:
            text = atom_text(atom.text)
            if not text:
                self.counts["empty_atoms"] += 1
                continue
            self._atom_names.extend(map(names.__getitem__, atom.entities))
            if not self._whole:
                span = (-1, -1) if atom.start is None or atom.end is None else (atom.start, atom.end)
                self._occurrences.append((self.texts[text], row, *span))
                self._atom_sizes.append(len(atom.entities))
        self.counts["extracted_atoms"] += len(found.atoms)
        self._sizes.append((len(found.entities), len(found.triples), len(self._atom_names) - held))
        if self._whole:
            self._passage(row, passage)

    def _passage(self, row: int, passage: Passage) -> None:
        if not passage.text.strip():
            self.counts["empty_passages"] += 1
            return
        text = atom_text(f"{passage.title}\n{passage.text}")
        self._occurrences.append((self.texts[text], row, 0, len(passage.text)))

    @property
    def occurrences(self) -> np.ndarray:
        """Text, passage row, start and end of each unit, int64 [units, 4]."""
        return np.array(self._occurrences, dtype=np.int64).reshape(-1, 4)

    @property
    def triples(self) -> np.ndarray:
        """Name, label and name of each triple, int64 [triples, 3]."""
        return np.fromiter(chain.from_iterable(self._triples), dtype=np.int64).reshape(-1, 3)

    @property
    def every_name(self) -> np.ndarray:
        """The names of lists, triples and atoms, as often as they occur."""
        return np.concatenate([np.array(self._listed, dtype=np.int64), self.triples[:, ::2].ravel(), self.in_atoms])

    @property
    def listed(self) -> np.ndarray:
        """The names in the passages' lists."""
        return np.array(self._listed, dtype=np.int64)

    def pairs(self, related: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return texts and names that belong together: the names of each unit.

        Args:
            related: bool [triples], which triples count where a unit is a whole passage.
        """
        if not self._whole:
            return np.repeat(self.occurrences[:, 0], self._atom_sizes), self.in_atoms
        sizes = np.array(self._sizes, dtype=np.int64).reshape(-1, 3)
        text = np.full(len(sizes), -1, dtype=np.int64)
        text[self.occurrences[:, 1]] = self.occurrences[:, 0]
        listed, triple, atoms = (np.repeat(text, column) for column in sizes.T)
        texts = np.concatenate([listed, np.repeat(triple[related], 2), atoms])
        names = np.concatenate([self.listed, self.triples[related, ::2].ravel(), self.in_atoms])
        return texts[texts >= 0], names[texts >= 0]

    @property
    def in_atoms(self) -> np.ndarray:
        """The names in atoms that have a text."""
        return np.array(self._atom_names, dtype=np.int64)

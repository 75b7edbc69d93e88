"""Where kept atoms come from: one document and one span each, for one question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from aeg.core.records import Passage
from aeg.core.tables import AtomTable
from aeg.retrieval.alignment import Span, align


@dataclass(frozen=True)
class Place:
    """Where an atom comes from.

    Attributes:
        atom: the atom's row.
        doc_id: the document.
        span: half-open character offsets in the document's text, None where unknown.
    """

    atom: int
    doc_id: str
    span: Span | None


class Places:
    """Finds the places of atoms; a span that is not known is aligned once, however many questions want it.

    Args:
        atoms: the graph's atoms.
        passages: the graph's passages.
        encoder: embeds atoms and sentences; without one only known and verbatim spans are found.
        threshold, sentences: of `align`.
        aligning: whether unknown spans are looked for at all.
    """

    def __init__(
        self,
        atoms: AtomTable,
        passages: Sequence[Passage],
        encoder: Any | None = None,
        threshold: float = 0.7,
        sentences: int = 3,
        aligning: bool = True,
    ) -> None:
        self._atoms, self._passages, self._encoder = atoms, passages, encoder
        self._threshold, self._sentences, self._aligning = threshold, sentences, aligning
        self._first = torch.searchsorted(atoms.occurrence_atom.contiguous(), torch.arange(len(atoms) + 1)).tolist()
        self._occurrences = torch.cat([atoms.occurrence_passage[:, None], atoms.occurrence_span], dim=1)
        self._aligned: dict[tuple[int, int], tuple[Span, float] | None] = {}

    def of(self, kept: Sequence[Sequence[int]]) -> list[list[Place]]:
        """Return the place of each kept atom of each question, in order.

        An atom that occurs in several documents belongs to the one in which most of the question's kept atoms
        occur, the smallest id among equals. Within it its first known span counts, else the span of its best
        alignment in the passages it occurs in.
        """
        rows = [[(atom, self._of_atom(atom)) for atom in question] for question in kept]
        chosen = [_documents(question) for question in rows]
        if self._aligning:
            pairs = [
                (atom, passage)
                for question, documents in zip(rows, chosen, strict=True)
                for (atom, places), doc_id in zip(question, documents, strict=True)
                if not any(span for _, other, span in places if other == doc_id)
                for passage, other, _ in places
                if other == doc_id
            ]
            self._align(dict.fromkeys(pairs))
        return [
            [
                Place(atom, doc_id, self._span(atom, [p for p in places if p[1] == doc_id]))
                for (atom, places), doc_id in zip(question, documents, strict=True)
            ]
            for question, documents in zip(rows, chosen, strict=True)
        ]

    def _of_atom(self, atom: int) -> list[tuple[int, str, Span | None]]:
        """The passage row, document and span in the document of each occurrence."""
        found: list[tuple[int, str, Span | None]] = []
        for passage, start, end in self._occurrences[self._first[atom] : self._first[atom + 1]].tolist():
            where = self._passages[passage]
            found.append((passage, where.doc_id, _shifted((start, end), where) if start >= 0 else None))
        return found

    def _span(self, atom: int, places: Iterable[tuple[int, str, Span | None]]) -> Span | None:
        best: tuple[float, Span] | None = None
        known: list[Span] = []
        for passage, _, span in places:
            if span is not None:
                known.append(span)
            elif (aligned := self._aligned.get((atom, passage))) is not None:
                where = _shifted(aligned[0], self._passages[passage])
                best = max(best or (-2.0, where), (aligned[1], where), key=lambda item: item[0])
        return min(known) if known else best[1] if best else None

    def _align(self, pairs: Iterable[tuple[int, int]]) -> None:
        new = [pair for pair in pairs if pair not in self._aligned]
        atoms = [self._atoms.texts[atom] for atom, _ in new]
        passages = [self._passages[passage].text for _, passage in new]
        found = align(atoms, passages, self._encoder, self._threshold, self._sentences)
        self._aligned.update(zip(new, found, strict=True))


def _documents(question: Sequence[tuple[int, list[tuple[int, str, Span | None]]]]) -> list[str]:
    """The document that each kept atom belongs to."""
    of_atom = [sorted({doc_id for _, doc_id, _ in places}) for _, places in question]
    votes = Counter(doc_id for documents in of_atom for doc_id in documents)
    return [min(documents, key=lambda doc_id: (-votes[doc_id], doc_id)) for documents in of_atom]


def _shifted(span: Span, passage: Passage) -> Span:
    return span[0] + passage.start, span[1] + passage.start

"""Pieces of passages that are asked about, and how what was said of them becomes one extraction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aeg.core.keys import atom_text, canonical_key
from aeg.core.matching import KeyedText, distinct, verbatim_span
from aeg.core.records import ExtractedAtom, Extraction, Passage
from aeg.core.text import sentence_spans
from aeg.extraction.replies import AtomReply, KnowledgeReply


@dataclass(frozen=True)
class Piece:
    """A stretch of a passage: the passage's row, and character offsets in its text, half open."""

    row: int
    start: int
    end: int

    def halves(self, text: str) -> tuple[Piece, Piece] | None:
        """Return its two halves, cut between the two sentences nearest to the middle; None for a single sentence.

        Args:
            text: the whole passage's text.

        Example:
            >>> Piece(0, 0, 24).halves("Ann owns Bix. Bix barks.")
            (Piece(row=0, start=0, end=13), Piece(row=0, start=14, end=24))
        """
        spans = [(self.start + a, self.start + b) for a, b in sentence_spans(text[self.start : self.end])]
        if len(spans) < 2:
            return None
        middle = (self.start + self.end) / 2
        at = min(range(1, len(spans)), key=lambda n: abs((spans[n - 1][1] + spans[n][0]) / 2 - middle))
        return Piece(self.row, spans[0][0], spans[at - 1][1]), Piece(self.row, spans[at][0], spans[-1][1])


@dataclass(frozen=True)
class Part:
    """What was said of one piece: its entities, triples and atoms; `knowledge` is None where the model failed.

    Attributes:
        malformed: items that were left out of the list of entities.
        partial: whether a reply broke off and only its whole items are here.
    """

    piece: Piece
    names: tuple[str, ...] = ()
    knowledge: KnowledgeReply | None = None
    malformed: int = 0
    partial: bool = False


class _Names:
    """The entity list of a passage: names by canonical key, the first form of each."""

    def __init__(self, listed: Iterable[str]) -> None:
        self.counts: Counter[str] = Counter()
        self.by_key: dict[str, str] = {}
        for name in listed:
            self._add(name)
        self.listed = tuple(self.by_key.values())

    def of(self, name: str) -> str:
        """Return the list's name for `name`, which joins the list where it is new; empty where it has no key."""
        known = len(self.by_key)
        found = self._add(name)
        self.counts["unlisted_entities"] += len(self.by_key) - known
        return found

    def _add(self, name: str) -> str:
        key = canonical_key(name)
        if not key:
            self.counts["empty_keys"] += 1
            return ""
        return self.by_key.setdefault(key, atom_text(name))


def merged(passage: Passage, parts: Sequence[Part]) -> Extraction:
    """Return the extraction of a passage from what was said of its pieces (one, unless it was split).

    An entity of an atom or triple is written as the passage's list writes it where the canonical keys agree; what
    the list lacks joins it and is counted (`unlisted_entities`). Counted as well: names without a key
    (`empty_keys`), triples that lose an end to that, atoms without a word (`empty_atoms`), repeated atoms (their
    entities are united), `malformed_items`, `bare_lists` in place of an object, and `pieces` where there are
    several. An atom given as bare text has the listed entities that stand in it. A piece without a reply
    (`failed_pieces`, it contributes nothing) or with one that broke off (`partial_pieces`) makes the status
    `quarantined`.
    """
    parts = sorted(parts, key=lambda part: part.piece.start)
    usable = [(part, part.knowledge) for part in parts if part.knowledge is not None]
    names = _Names(name for part, _ in usable for name in part.names)
    triples: dict[tuple[str, str, str], None] = {}
    atoms: dict[str, ExtractedAtom] = {}
    for part, knowledge in usable:
        names.counts["malformed_items"] += part.malformed + knowledge.malformed
        names.counts["bare_lists"] += knowledge.wrapped
        for subject, relation, end in knowledge.triples:
            ends = names.of(subject), names.of(end)
            if all(ends):
                triples[ends[0], atom_text(relation), ends[1]] = None
            else:
                names.counts["triples_with_empty_end"] += 1
        for reply in knowledge.atoms:
            _add_atom(atoms, reply, part.piece, passage.text, names)
    entities = tuple(names.by_key.values())
    failed, partial = len(parts) - len(usable), sum(part.partial for part, _ in usable)
    names.counts |= Counter(failed_pieces=failed, partial_pieces=partial)
    names.counts["pieces"] = len(parts) if len(parts) > 1 else 0
    counts = {name: n for name, n in sorted(names.counts.items()) if n}
    status = "quarantined" if failed or partial else "ok" if entities else "no_entities"
    return Extraction(passage.id, entities, tuple(triples), tuple(atoms.values()), status, counts)


def _add_atom(atoms: dict[str, ExtractedAtom], reply: AtomReply, piece: Piece, passage: str, names: _Names) -> None:
    text = atom_text(reply.text)
    if not canonical_key(text):
        names.counts["empty_atoms"] += 1
        return
    if reply.bare:
        keyed = KeyedText(text)
        mentioned = tuple(name for name in names.listed if keyed.mentions(name))
    else:
        mentioned = distinct(name for given in reply.entities if (name := names.of(given)))
    if text in atoms:
        names.counts["repeated_atoms"] += 1
        known = atoms[text]
        atoms[text] = ExtractedAtom(text, distinct((*known.entities, *mentioned)), known.start, known.end)
        return
    span = verbatim_span(passage[piece.start : piece.end], text)
    start, end = (piece.start + span[0], piece.start + span[1]) if span else (None, None)
    atoms[text] = ExtractedAtom(text, mentioned, start, end)

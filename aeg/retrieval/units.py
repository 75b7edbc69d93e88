"""Citation units: atoms of one document with overlapping spans, united (paper, eq. 11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from aeg.core.matching import KeyedText
from aeg.core.records import Passage
from aeg.retrieval.placing import Place

Text = Callable[["Group"], str]


@dataclass(frozen=True)
class Group:
    """Atoms of one document that make up one unit.

    Attributes:
        doc_id: the document.
        start, end: the union of their spans in the document's text, None where unknown.
        atoms: their rows, in document order.
    """

    doc_id: str
    start: int | None
    end: int | None
    atoms: tuple[int, ...]

    def with_place(self, place: Place) -> Group:
        """Return the group with one more atom, whose span begins no earlier than those before."""
        assert place.span is not None
        assert self.end is not None
        return Group(self.doc_id, self.start, max(self.end, place.span[1]), (*self.atoms, place.atom))


def united(places: Sequence[Place], merge: bool, fits: Callable[[Group], bool]) -> tuple[list[Group], int]:
    """Return the units of one question's atoms, best first, and how often one was full.

    Atoms whose spans overlap (half open: touching is not overlapping), directly or through others, share a unit,
    taken in document order as long as `fits` says so of the unit with one more atom; the one that does not fit
    begins the next unit. An atom without a span is a unit.

    Args:
        places: of the atoms, best first.
        merge: false makes each atom a unit.
        fits: whether a unit of several atoms is small enough.

    Example:
        >>> places = [Place(7, "d", (40, 60)), Place(3, "d", (0, 20)), Place(5, "d", (10, 40)), Place(1, "d", None)]
        >>> [(group.start, group.end, group.atoms) for group in united(places, True, lambda group: True)[0]]
        [(40, 60, (7,)), (0, 40, (3, 5)), (None, None, (1,))]
    """
    groups: list[Group] = []
    full = 0
    spanned = [place for place in places if place.span is not None]
    for place in sorted(spanned, key=lambda place: (place.doc_id, place.span, place.atom)):
        assert place.span is not None
        last = groups[-1] if groups else None
        if merge and last and last.doc_id == place.doc_id and last.end is not None and place.span[0] < last.end:
            whole = last.with_place(place)
            if fits(whole):
                groups[-1] = whole
                continue
            full += 1
        groups.append(Group(place.doc_id, *place.span, (place.atom,)))
    groups.extend(Group(place.doc_id, None, None, (place.atom,)) for place in places if place.span is None)
    rank = {place.atom: at for at, place in enumerate(places)}
    return sorted(groups, key=lambda group: min(rank[atom] for atom in group.atoms)), full


def joined(texts: Iterable[str]) -> str:
    """Return the texts one after the other, leaving out those that another one holds word for word.

    Case, and punctuation at the ends, do not count; of two that are the same in this sense the first stays.

    Example:
        >>> joined(["Ann owns Bix.", "In 2019 Ann owns Bix.", "Bix barks.", "bix barks"])
        'In 2019 Ann owns Bix. Bix barks.'
    """
    every = list(texts)
    if len(every) == 1:
        return every[0]
    keyed = [KeyedText(text) for text in every]
    holds = [[holder.mentions(text) for holder in keyed] for text in every]  # [text][holder]
    kept = [
        text
        for at, text in enumerate(every)
        if not any(
            holds[at][other] and (other < at or not holds[other][at]) for other in range(len(every)) if other != at
        )
    ]
    return " ".join(kept)


def source_text(passages: Iterable[Passage], start: int, end: int) -> str:
    """Return a stretch of a document's text, put together from its passages; what no passage holds is left out.

    Args:
        passages: passages of one document, ordered by start; they may overlap.
        start: character offset in the document's text.
        end: the same, not included.

    Example:
        >>> passages = [Passage("d#0", "d", "Ann owns", "", 0, 8), Passage("d#1", "d", "owns Bix.", "", 4, 13)]
        >>> source_text(passages, 4, 12)
        'owns Bix'
    """
    pieces: list[str] = []
    at = start
    for passage in passages:
        low = max(at, passage.start)
        high = min(end, passage.start + len(passage.text))
        if low < high:
            pieces.append(passage.text[low - passage.start : high - passage.start])
            at = high
    return "".join(pieces)

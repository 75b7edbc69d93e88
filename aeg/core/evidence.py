"""What an answer rests on: citation units and the evidence they make up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CitationUnit:
    """A stretch of one document that an answer can cite (paper, section 3.4, eq. 11).

    Attributes:
        doc_id: the document.
        start, end: character offsets in the document's text, half open; None where the span is not known.
        text: what a reader is shown.
        atoms: rows of the atoms it unites, in document order; empty for a passage.
        score: the best score of its atoms, or the passage's.
        tokens: tokens of `text`.
    """

    doc_id: str
    start: int | None
    end: int | None
    text: str
    atoms: tuple[int, ...] = ()
    score: float = 0.0
    tokens: int = 0


@dataclass(frozen=True)
class Evidence:
    """The evidence for one question.

    Attributes:
        units: best first; an answer cites them as [1], [2], ...
        tokens: of all units together.
        dropped: units that the token budget left out.
        cut: whether the last unit's text was cut where the budget ended.
    """

    units: tuple[CitationUnit, ...] = ()
    tokens: int = 0
    dropped: int = 0
    cut: bool = False

"""The records that stages exchange: documents, passages, queries, extractions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Document:
    """One source document: its id, title (may be empty) and original text."""

    id: str
    text: str
    title: str = ""


@dataclass(frozen=True)
class Passage:
    """A stretch of one document.

    Attributes:
        id: the document's id where the document is one passage, else `{doc_id}#{index}`.
        doc_id: the document.
        text: exactly `document.text[start:end]`.
        title: the document's title.
        start, end: character offsets in the document's text, half open.
    """

    id: str
    doc_id: str
    text: str
    title: str = ""
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class Query:
    """One question, with what a benchmark knows of it.

    Attributes:
        gold_doc_ids: supporting documents, matched by id (never by title); empty where there is none.
        evidence: gold statements that the answer rests on; empty where there is none.
        position: place in the file of questions, from 0, left out ones counted; None where there is no file.
    """

    id: str
    question: str
    answer: str = ""
    aliases: tuple[str, ...] = ()
    type: str = ""
    gold_doc_ids: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    position: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Corpus:
    """Documents and questions of one data set.

    Attributes:
        documents: distinct documents, in the source's order.
        queries: the questions; empty for a corpus without any.
        prechunked: each document is one passage already (the chunker leaves it whole).
        duplicates: id of a dropped document to the id of the kept one with the same content; gold ids of the
            queries are already mapped.
        counts: what was skipped or repaired on loading, by reason.
    """

    documents: tuple[Document, ...]
    queries: tuple[Query, ...] = ()
    prechunked: bool = False
    duplicates: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class ExtractedAtom:
    """A minimal self-contained statement with the entities it mentions, as an extractor gives it.

    `start` and `end` are its character span in the passage's text (half open), None where unknown.
    """

    text: str
    entities: tuple[str, ...] = ()
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Extraction:
    """What was extracted from one passage (paper, section 3.1).

    Attributes:
        status: `ok`; `empty` for a passage without text; `no_entities` where nothing but text was found;
            `missing` where a recorded extraction has no entry for the passage; `repaired` where malformed triples
            of a recorded entry were left out; `quarantined` where a model gave no whole reply on the passage, or on a
            part of it: what there is stays, and the next run asks again.
        triples: (subject, relation, object), used only for relevance edges, never as evidence.
        counts: what was dropped, mapped or split on the way, by reason, where it was not nothing.
    """

    passage_id: str
    entities: tuple[str, ...] = ()
    triples: tuple[tuple[str, str, str], ...] = ()
    atoms: tuple[ExtractedAtom, ...] = ()
    status: str = "ok"
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class EffectiveQuery:
    """One query that is propagated: a question or one of its sub-questions (eq. 4).

    Attributes:
        query: row of the question in the run's sorted list of questions.
        text: what is embedded and linked.
        mentions: entity mentions found in `text` (empty where the linker needs none).
    """

    query: int
    text: str
    mentions: tuple[str, ...] = ()

"""Entities of a parsed sentence: named entities, noun chunks, abbreviations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aeg.backends.nlp import NUMERIC_LABELS
from aeg.core.keys import atom_text, canonical_key
from aeg.core.lexicon import FUNCTION_WORDS

_LEADING = frozenset({"DET", "PRON", "PUNCT", "SPACE", "PART", "CCONJ", "ADP"})
_TRAILING = frozenset({"PUNCT", "SPACE", "PART", "CCONJ", "ADP", "DET"})


@dataclass(frozen=True)
class Found:
    """An entity as it stands in a parsed text: its name and its tokens (half open)."""

    name: str
    start: int
    end: int


def named_entities(sentence: Any, numbers: bool) -> list[Found]:
    """Return the named entities of a sentence (a spaCy `Span`), numbers and times only where `numbers`."""
    spans = [ent for ent in sentence.ents if numbers or ent.label_ not in NUMERIC_LABELS]
    return _cleaned(sentence.doc, [(span.start, span.end) for span in spans], numbers)


def noun_chunks(sentence: Any, chunks: list[Any], which: str, numbers: bool) -> list[Found]:
    """Return the noun chunks of a sentence without their determiners.

    A chunk that is part of a longer named entity, number or time ("July" in "7 July 1839") is left out.

    Args:
        sentence: the sentence, a spaCy `Span`.
        chunks: the noun chunks of the whole text.
        which: `proper`: of each chunk the stretch from its first to its last proper noun; `all`: each chunk that
            is no pronoun; `none`: nothing.
        numbers: whether a chunk of numbers alone counts.
    """
    if which == "none":
        return []
    spans = []
    for chunk in chunks:
        start, end = max(chunk.start, sentence.start), min(chunk.end, sentence.end)
        if which == "proper":
            proper = [index for index in range(start, end) if sentence.doc[index].pos_ == "PROPN"]
            start, end = (proper[0], proper[-1] + 1) if proper else (start, start)
        if start < end:
            spans.append((start, end))
    entities = [(ent.start, ent.end) for ent in sentence.ents]
    return [chunk for chunk in _cleaned(sentence.doc, spans, numbers) if not _is_part(chunk, entities)]


def _is_part(chunk: Found, entities: list[tuple[int, int]]) -> bool:
    own = chunk.end - chunk.start
    return any(start <= chunk.start and chunk.end <= end and own < end - start for start, end in entities)


def _cleaned(doc: Any, spans: list[tuple[int, int]], numbers: bool) -> list[Found]:
    found = []
    for start, end in spans:
        while start < end and (doc[start].pos_ in _LEADING or doc[start].text.lower() == "the"):
            start += 1
        while end > start and doc[end - 1].pos_ in _TRAILING:
            end -= 1
        name = atom_text(doc[start:end].text)
        if name and _is_name(name, doc[start:end], numbers):
            found.append(Found(name, start, end))
    return found


def _is_name(name: str, span: Any, numbers: bool) -> bool:
    key = canonical_key(name)
    if not key or key in FUNCTION_WORDS:
        return False
    return numbers or not all(token.like_num or token.pos_ == "NUM" or not token.text.isalnum() for token in span)

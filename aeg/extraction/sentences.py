"""Sentences of a parsed passage, and the rewriting that lets them stand alone."""

from __future__ import annotations

from typing import Any

from aeg.core.keys import atom_text
from aeg.core.matching import KeyedText
from aeg.core.titles import base_title

_SUBJECTS = frozenset({"he", "she", "it", "they"})
_POSSESSIVES = frozenset({"his", "her", "its", "their"})


def sentence_bounds(doc: Any) -> list[tuple[int, int]]:
    """Return the (first, one past last) tokens of each sentence of a parsed spaCy `Doc`, in order.

    A blank line always ends a sentence; outer white space belongs to none; a "sentence" without a letter or digit
    is joined to the one before it. A text that is not blank has at least one sentence.
    """
    bounds: list[tuple[int, int]] = []
    for sent in doc.sents:
        for start, end in _split_at_blank_lines(doc, sent.start, sent.end):
            wordless = not any(token.text[0].isalnum() or token.is_alpha for token in doc[start:end])
            if bounds and wordless:
                bounds[-1] = (bounds[-1][0], end)
            else:
                bounds.append((start, end))
    return bounds


def _split_at_blank_lines(doc: Any, start: int, end: int) -> list[tuple[int, int]]:
    pieces, first = [], start
    for index in range(start, end):
        if doc[index].is_space and doc[index].text.count("\n") > 1:
            pieces.append((first, index))
            first = index + 1
    pieces.append((first, end))
    return [trimmed for piece in pieces if (trimmed := _trim_space(doc, *piece))]


def _trim_space(doc: Any, start: int, end: int) -> tuple[int, int] | None:
    while start < end and doc[start].is_space:
        start += 1
    while end > start and doc[end - 1].is_space:
        end -= 1
    return (start, end) if start < end else None


def self_contained(sentence: Any, title: str, context: str) -> str:
    """Return the text of an atom for a sentence (a spaCy `Span`) of a document called `title`.

    Args:
        sentence: the parsed sentence.
        title: the document's title; empty where there is none, then the sentence stays as it is.
        context: `prefix`: "Title: sentence" where the sentence does not name the title; `pronoun`: a leading
            third-person pronoun is replaced by the title, and what has none is prefixed; `none`: as it stands.
    """
    text = atom_text(sentence.text)
    if context == "none":
        return text
    prefixed = titled(text, title)
    if context == "pronoun" and prefixed != text:
        return _resolve_leading_pronoun(sentence, text, base_title(title)) or prefixed
    return prefixed


def titled(text: str, title: str) -> str:
    """Return "Title: text", or the text itself where it names the title (parenthesis aside) or there is none.

    Example:
        >>> titled("It opened in 2002.", "Ice Age (film)"), titled("Ice Age opened.", "Ice Age (film)")
        ('Ice Age (film): It opened in 2002.', 'Ice Age opened.')
    """
    name = base_title(title)
    return text if not name or KeyedText(text).mentions(name) else f"{atom_text(title)}: {text}"


def _resolve_leading_pronoun(sentence: Any, text: str, name: str) -> str:
    first = sentence[0]
    word = first.text
    if word.lower() in _SUBJECTS and first.dep_ in ("nsubj", "nsubjpass"):
        return name + text[len(word) :]
    if word.lower() in _POSSESSIVES and first.dep_ == "poss":
        return f"{name}'s" + text[len(word) :]
    return ""

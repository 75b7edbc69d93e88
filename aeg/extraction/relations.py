"""Relations between entities of a passage without a language model: labels matter only in being distinct."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aeg.core.keys import canonical_key
from aeg.extraction.entities import Found

Triple = tuple[str, str, str]

MENTIONS = "mentions"
ABBREVIATION = "is abbreviated as"
COOCCURRENCE = "occurs with"

_SUBJECTS = ("nsubj", "nsubjpass")
_OBJECTS = ("dobj", "attr", "oprd", "dative")
_PERSONAL = frozenset({"he", "she", "it", "they"})


def title_relations(title: str, entities: Sequence[str]) -> list[Triple]:
    """Return (title, `mentions`, entity) for each of the passage's entities but the title itself.

    Example:
        >>> title_relations("Tarn Lab", ["tarn lab", "Mira Voss"])
        [('Tarn Lab', 'mentions', 'Mira Voss')]
    """
    own = canonical_key(title)
    return [(title, MENTIONS, entity) for entity in entities if own and canonical_key(entity) != own]


def cooccurrence_relations(entities: Sequence[str], window: int) -> list[Triple]:
    """Return (entity, `occurs with`, other) for each entity of a sentence and the next `window` after it.

    Example:
        >>> [(a, c) for a, _, c in cooccurrence_relations(["A", "B", "C"], window=1)]
        [('A', 'B'), ('B', 'C')]
    """
    return [
        (entity, COOCCURRENCE, other)
        for index, entity in enumerate(entities)
        for other in entities[index + 1 : index + 1 + window]
    ]


def dependency_relations(sentence: Any, found: Sequence[Found], title: str) -> list[Triple]:
    """Return (subject, verb, object) of each verb of a parsed sentence whose two ends are among its entities.

    A verb's subjects are its own, or those of the verb it is coordinated with; its objects are direct objects,
    attributes and objects of its prepositions ("verb preposition" is then the label); coordinated ends count each.
    A personal pronoun as subject stands for the title, where there is one.
    """
    names = {index: item.name for item in reversed(found) for index in range(item.start, item.end)}
    triples = []
    for verb in sentence:
        if verb.pos_ not in ("VERB", "AUX"):
            continue
        subjects = [_name(token, names, title) for token in _subjects(verb)]
        for label, token in _objects(verb):
            target = names.get(token.i, "")
            triples += [(subject, label, target) for subject in subjects if subject and target and subject != target]
    return triples


def _name(token: Any, names: dict[int, str], title: str) -> str:
    return names.get(token.i) or (title if token.lower_ in _PERSONAL else "")


def _subjects(verb: Any) -> list[Any]:
    heads = [child for child in verb.children if child.dep_ in _SUBJECTS]
    if not heads and verb.dep_ == "conj":
        heads = [child for child in verb.head.children if child.dep_ in _SUBJECTS]
    return [token for head in heads for token in (head, *head.conjuncts)]


def _objects(verb: Any) -> list[tuple[str, Any]]:
    pairs = []
    for child in verb.children:
        if child.dep_ in _OBJECTS:
            pairs += [(verb.lemma_, token) for token in (child, *child.conjuncts)]
        if child.dep_ in ("attr", "dobj"):
            pairs += _prepositional(f"{verb.lemma_} {child.lemma_}", child)
        if child.dep_ in ("prep", "agent"):
            pairs += _objects_of_preposition(verb.lemma_, child)
    return pairs


def _prepositional(label: str, noun: Any) -> list[tuple[str, Any]]:
    return [pair for child in noun.children if child.dep_ == "prep" for pair in _objects_of_preposition(label, child)]


def _objects_of_preposition(label: str, preposition: Any) -> list[tuple[str, Any]]:
    return [
        (f"{label} {preposition.lower_}", token)
        for child in preposition.children
        if child.dep_ == "pobj"
        for token in (child, *child.conjuncts)
    ]

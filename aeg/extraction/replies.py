"""What a language model is asked to reply about a passage, read leniently: items that are no use are counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, PrivateAttr, model_validator

_FORM = ConfigDict(extra="ignore")


class Lenient(BaseModel):
    """Base of replies whose malformed items are left out and counted."""

    model_config = _FORM
    _malformed: int = PrivateAttr(default=0)
    _wrapped: bool = PrivateAttr(default=False)

    @property
    def malformed(self) -> int:
        """How many items of the reply were left out."""
        return self._malformed

    @property
    def wrapped(self) -> bool:
        """Whether the reply was a bare list."""
        return self._wrapped

    @classmethod
    def bare(cls, items: list[Any]) -> str:
        """Return the field that a bare list is; empty where it is none."""
        return ""

    @classmethod
    def readers(cls) -> dict[str, Callable[[Any], Any]]:
        """Return for each list field what reads an item of it, or gives None where it is no use."""
        raise NotImplementedError

    @model_validator(mode="wrap")
    @classmethod
    def _whole_items(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        wrapped = isinstance(value, list) and bool(cls.bare(value))
        if wrapped:
            value = {cls.bare(value): value}
        if not isinstance(value, dict):
            return handler(value)
        dropped = 0
        fields = dict(value)
        for name, read in cls.readers().items():
            if isinstance(fields.get(name), list):
                kept = [item for item in map(read, fields[name]) if item is not None]
                dropped += len(fields[name]) - len(kept)
                fields[name] = kept
        made = handler(fields)
        made._malformed, made._wrapped = dropped, wrapped
        return made


class EntitiesReply(Lenient):
    """The entities of a passage.

    Example:
        >>> reply = EntitiesReply.model_validate({"entities": ["Mira Voss", {"name": "Tarn Lab"}, 1998, None]})
        >>> reply.entities, reply.malformed
        (['Mira Voss', 'Tarn Lab', '1998'], 1)
    """

    entities: list[str]

    @classmethod
    def readers(cls) -> dict[str, Callable[[Any], Any]]:
        """Return the reader of names."""
        return {"entities": read_name}


class AtomReply(BaseModel):
    """A statement and the entities it mentions; the latter are unset where the model gave the bare text."""

    model_config = _FORM
    text: str
    entities: list[str] = Field(default_factory=list)

    @property
    def bare(self) -> bool:
        """Whether no entities were given (an empty list is given)."""
        return "entities" not in self.model_fields_set


class KnowledgeReply(Lenient):
    """The triples and atoms of a passage.

    Example:
        >>> reply = KnowledgeReply.model_validate({"triples": [["Ann", "owns", "Bix"], ["Ann", "owns"]],
        ...                                        "atoms": ["Ann owns Bix."]})
        >>> reply.triples, reply.atoms[0].text, reply.atoms[0].bare, reply.malformed
        ([['Ann', 'owns', 'Bix']], 'Ann owns Bix.', True, 1)
    """

    triples: list[Annotated[list[str], Field(min_length=3, max_length=3)]] = Field(default_factory=list)
    atoms: list[AtomReply]

    @classmethod
    def bare(cls, items: list[Any]) -> str:
        """Return `atoms` for a list of objects with a text, or of statements; a list of names is none."""
        return "atoms" if items and all(map(_is_statement, items)) else ""

    @classmethod
    def readers(cls) -> dict[str, Callable[[Any], Any]]:
        """Return the readers of triples and atoms."""
        return {"triples": _triple, "atoms": _atom}


def _is_statement(item: Any) -> bool:
    if isinstance(item, dict):
        return isinstance(item.get("text"), str)
    return isinstance(item, str) and (len(item.split()) > 2 or item.strip().endswith((".", "!", "?", "。", "！", "？")))


def read_name(item: Any) -> str | None:
    """Return an entity's name: a string, a number, or an object with a `name`; None where it is neither.

    Example:
        >>> read_name(40), read_name({"entity": "Ostrel", "type": "place"}), read_name(["Ostrel"])
        ('40', 'Ostrel', None)
    """
    if isinstance(item, dict):
        item = next((item[key] for key in ("name", "entity", "text") if key in item), None)
    if isinstance(item, bool) or not isinstance(item, str | int | float):
        return None
    return str(item)


def _triple(item: Any) -> list[str] | None:
    if isinstance(item, dict):
        second = "relation" if "relation" in item else "predicate"
        item = [item.get(key) for key in ("subject", second, "object")]
    if not isinstance(item, list) or len(item) != 3:
        return None
    parts = [read_name(part) for part in item]
    return [part for part in parts if part] if all(part and part.strip() for part in parts) else None


def _atom(item: Any) -> dict[str, Any] | None:
    if isinstance(item, str):
        return {"text": item}
    if not isinstance(item, dict):
        return None
    text = next((item[key] for key in ("text", "atom", "statement") if key in item), None)
    if not isinstance(text, str):
        return None
    entities = item.get("entities")
    if not isinstance(entities, list):
        return {"text": text}
    return {"text": text, "entities": [name for name in map(read_name, entities) if name is not None]}


def check_entities(reply: EntitiesReply) -> str | None:
    """Return what is wrong with a reply none of whose items is an entity."""
    if reply.malformed and not reply.entities:
        return f"entities: got {reply.malformed} items that are no names, expected a list of strings"
    return None


def check_knowledge(reply: KnowledgeReply) -> str | None:
    """Return what is wrong with a reply that has items, but not one usable atom."""
    if reply.malformed and not reply.atoms:
        form = json.dumps({"text": "statement", "entities": ["name"]})
        return f"atoms: got none that can be read beside {reply.malformed} malformed items, expected a list of {form}"
    return None

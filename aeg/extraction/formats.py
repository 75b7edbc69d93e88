"""File formats of recorded extractions: JSON lines, HippoRAG's JSON, and the paper's published code's."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aeg.core.files import Item, check_unique, expect_list, quoted, read_json, read_lines, read_text, wrong
from aeg.core.keys import atom_text
from aeg.core.records import ExtractedAtom
from aeg.errors import DataError
from aeg.extraction.checks import Triple, literals, triples

_LAYOUT = "an extraction file (JSON lines, or an object with a list `docs`)"
_TEXTS = "extracted_knowledge_fragments"
_ENTITIES = "extracted_fragment_entities"
_DOCS = re.compile(r'\s*\{\s*"docs"')


@dataclass(frozen=True)
class Entry:
    """One passage of a recorded extraction, as the file has it.

    Attributes:
        where: file and line or item, for errors.
        key: what it is matched by: the passage's row (int), or its id, or its canonical text.
        by: `row`, `id` or `text`.
        atoms: None where the format has no atoms.
        skipped: malformed triples left out.
    """

    where: str
    key: int | str
    by: str
    entities: tuple[str, ...]
    triples: tuple[Triple, ...]
    atoms: tuple[ExtractedAtom, ...] | None
    skipped: int = 0


def read_entries(path: Path, layout: str = "auto", skip_triples: bool = False) -> list[Entry]:
    """Return the entries of a recorded extraction, strictly checked.

    Args:
        path: the file.
        layout: `jsonl`, `hipporag`, `atomicrag`, or `auto` to tell by the content.
        skip_triples: leave malformed triples out (counted in the entry) instead of raising.

    Raises:
        DataError: if the file is missing or malformed, or two entries are for the same passage; the message names
            the file, the line (JSON lines) or item, the field, and what was got.
    """
    if layout == "auto":
        layout = _detect(read_text(path, _LAYOUT))
    if layout == "jsonl":
        entries = [_line(item, skip_triples) for item in read_lines(path, _LAYOUT)]
    else:
        docs = Item(read_json(path, dict, _LAYOUT), str(path)).items("docs")
        entries = [_doc(item, layout, skip_triples) for item in docs]
    for by in ("row", "id", "text"):
        check_unique(((entry.key, entry.where) for entry in entries if entry.by == by), "passage", by)
    return entries


def _detect(text: str) -> str:
    try:
        value = json.loads(text)  # JSON lines fail at the end of the first line
    except (ValueError, RecursionError):
        return "hipporag" if _DOCS.match(text) else "jsonl"
    if not isinstance(value, dict) or "docs" not in value:
        return "jsonl"
    docs = value["docs"] if isinstance(value["docs"], list) else []
    fragments = any(isinstance(doc, dict) and _TEXTS in doc for doc in docs)
    return "atomicrag" if fragments else "hipporag"


def _line(item: Item, skip_triples: bool) -> Entry:
    if ("chunk" in item.values) == ("passage" in item.values):
        raise wrong(item.where, item.values, "either `chunk` (the passage's row) or `passage` (its id)")
    row = "chunk" in item.values
    key = _row(item) if row else item.string("passage", blank=False)
    entities = literals(item, "entities").strings("entities")
    kept, skipped = triples(item, "triples", skip_triples)
    atoms = tuple(
        ExtractedAtom(atom.string("text", blank=False), atom.strings("entities")) for atom in item.items("atoms")
    )
    return Entry(item.where, key, "row" if row else "id", entities, kept, atoms, skipped)


def _row(item: Item) -> int:
    value = item.value("chunk")
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise wrong(item.place("chunk"), value, "a row, counted from 0")
    return value


def _doc(item: Item, layout: str, skip_triples: bool) -> Entry:
    passage = item.string("passage")
    item = literals(item, "extracted_triples", "extracted_entities")
    kept, skipped = triples(item, "extracted_triples", skip_triples)
    atoms = _fragments(item) if layout == "atomicrag" else None
    entities = item.strings("extracted_entities")
    return Entry(item.where, atom_text(passage), "text", entities, kept, atoms, skipped)


def _fragments(item: Item) -> tuple[ExtractedAtom, ...]:
    """Return the atoms of a document in the published code's format: texts, and beside them their entities."""
    item = literals(item, _TEXTS, _ENTITIES)
    texts = item.strings(_TEXTS, blank=False)
    place = item.place(_ENTITIES)
    given = item.value(_ENTITIES)
    if isinstance(given, dict):
        given = _parallel(given, texts, place)
    lists = [expect_list(row, str, f"{place}[{n}]") for n, row in enumerate(expect_list(given, list, place))]
    if len(lists) != len(texts):
        raise DataError(
            f"{place}: got {len(lists)} entity lists for {len(texts)} atoms; expected one each; correct the file"
        )
    return tuple(ExtractedAtom(text, tuple(names)) for text, names in zip(texts, lists, strict=True))


def _parallel(given: dict[Any, Any], texts: Sequence[str], where: str) -> list[Any]:
    unknown = [text for text in given if text not in texts]
    if unknown:
        raise wrong(where, unknown[0], f"the texts of `{_TEXTS}` as keys")
    missing = [text for text in texts if text not in given]
    if missing:
        raise DataError(
            f"{where}: no entities for the atom {quoted(missing[0])}; expected one list an atom; correct the file"
        )
    return [given[text] for text in texts]

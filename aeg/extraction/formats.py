"""File formats of recorded extractions: JSON lines, HippoRAG's JSON, and the paper's published code's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aeg.core.keys import atom_text
from aeg.core.records import ExtractedAtom
from aeg.errors import DataError
from aeg.extraction import checks

_LAYOUT = "an extraction file (JSON lines, or an object with a list `docs`)"
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
    triples: tuple[checks.Triple, ...]
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
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; expected {_LAYOUT}; check `path` and `data_root`") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); expected {_LAYOUT}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; expected UTF-8 text; convert the file") from None
    if layout == "auto":
        layout = _detect(text)
    entries = _lines(path, text, skip_triples) if layout == "jsonl" else _docs(path, text, layout, skip_triples)
    _refuse_duplicates(entries)
    return entries


def _detect(text: str) -> str:
    try:
        value = json.loads(text)  # JSON lines fail at the end of the first line
    except (ValueError, RecursionError):
        return "hipporag" if _DOCS.match(text) else "jsonl"
    if not isinstance(value, dict) or "docs" not in value:
        return "jsonl"
    docs = value["docs"] if isinstance(value["docs"], list) else []
    fragments = any(isinstance(doc, dict) and "extracted_knowledge_fragments" in doc for doc in docs)
    return "atomicrag" if fragments else "hipporag"


def _refuse_duplicates(entries: list[Entry]) -> None:
    first: dict[tuple[str, int | str], Entry] = {}
    for entry in entries:
        known = first.setdefault((entry.by, entry.key), entry)
        if known is not entry:
            name = f"{entry.by} {entry.key!r}" if entry.by != "text" else f"text {checks.shown(entry.key)}"
            raise DataError(f"{entry.where}: a second entry for the passage with {name}; the first is {known.where}")


def _parse(text: str, where: str, line: bool) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{where}, column {error.colno}" if line else f"{where}, line {error.lineno}, column {error.colno}"
        raise DataError(f"{place}: broken JSON ({error.msg}); expected {_LAYOUT}; correct the file") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: broken JSON ({error}); expected {_LAYOUT}; correct the file") from None
    if not isinstance(value, dict):
        raise checks.wrong(where, value, "an object")
    return value


def _lines(path: Path, text: str, skip_triples: bool) -> list[Entry]:
    rows = enumerate(text.split("\n"), start=1)
    return [_line(row, f"{path}, line {number}", skip_triples) for number, row in rows if row.strip()]


def _line(row: str, where: str, skip_triples: bool) -> Entry:
    record = _parse(row, where, line=True)
    if ("chunk" in record) == ("passage" in record):
        raise DataError(
            f"{where}: got the fields {', '.join(record) or '(none)'}; expected either `chunk` (the passage's row) "
            "or `passage` (its id)"
        )
    key: int | str
    if "chunk" in record:
        key, by = record["chunk"], "row"
        if not isinstance(key, int) or isinstance(key, bool) or key < 0:
            raise checks.wrong(f"{where}, field 'chunk'", key, "a row, counted from 0")
    else:
        key, by = checks.string(record["passage"], f"{where}, field 'passage'", blank=False), "id"
    entities = _strings(record, "entities", where)
    triples, skipped = checks.triples(
        checks.field_of(record, "triples", where), f"{where}, field 'triples'", skip_triples
    )
    atoms = checks.list_of(checks.field_of(record, "atoms", where), f"{where}, field 'atoms'", _atom)
    return Entry(where, key, by, entities, tuple(triples), tuple(atoms), skipped)


def _strings(record: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    place = f"{where}, field {key!r}"
    return tuple(checks.list_of(checks.literal(checks.field_of(record, key, where), place), place, checks.string))


def _atom(value: Any, where: str) -> ExtractedAtom:
    if not isinstance(value, dict):
        raise checks.wrong(where, value, "an object with `text` and `entities`")
    text = checks.string(checks.field_of(value, "text", where), f"{where}.text", blank=False)
    entities = checks.list_of(checks.field_of(value, "entities", where), f"{where}.entities", checks.string)
    return ExtractedAtom(text, tuple(entities))


def _docs(path: Path, text: str, layout: str, skip_triples: bool) -> list[Entry]:
    record = _parse(text, str(path), line=False)
    docs = checks.list_of(checks.field_of(record, "docs", str(path)), f"{path}, docs", lambda doc, _: doc)
    return [_doc(doc, f"{path}, docs[{index}]", layout, skip_triples) for index, doc in enumerate(docs)]


def _doc(doc: Any, where: str, layout: str, skip_triples: bool) -> Entry:
    if not isinstance(doc, dict):
        raise checks.wrong(where, doc, "an object")
    passage = checks.string(checks.field_of(doc, "passage", where), f"{where}, field 'passage'")
    place = f"{where}, field 'extracted_triples'"
    value = checks.literal(checks.field_of(doc, "extracted_triples", where), place)
    triples, skipped = checks.triples(value, place, skip_triples)
    atoms = _fragments(doc, where) if layout == "atomicrag" else None
    entities = _strings(doc, "extracted_entities", where)
    return Entry(where, atom_text(passage), "text", entities, tuple(triples), atoms, skipped)


def _fragments(doc: dict[str, Any], where: str) -> tuple[ExtractedAtom, ...]:
    """Return the atoms of a document in the published code's format: texts, and beside them their entities."""
    key = "extracted_fragment_entities"
    place = f"{where}, field {key!r}"
    check: Callable[[Any, str], str] = lambda item, spot: checks.string(item, spot, blank=False)  # noqa: E731
    name = "extracted_knowledge_fragments"
    texts = checks.list_of(checks.literal(checks.field_of(doc, name, where), place), f"{where}, field {name!r}", check)
    given = checks.literal(checks.field_of(doc, key, where), place)
    if isinstance(given, dict):
        given = _parallel(given, texts, place)
    lists = checks.list_of(given, place, lambda item, spot: checks.list_of(item, spot, checks.string))
    if len(lists) != len(texts):
        raise DataError(
            f"{place}: got {len(lists)} entity lists for {len(texts)} atoms; expected one each; correct the file"
        )
    return tuple(ExtractedAtom(text, tuple(names)) for text, names in zip(texts, lists, strict=True))


def _parallel(given: dict[Any, Any], texts: list[str], where: str) -> list[Any]:
    unknown = [text for text in given if text not in texts]
    if unknown:
        raise checks.wrong(where, unknown[0], "the texts of `extracted_knowledge_fragments` as keys")
    missing = [text for text in texts if text not in given]
    if missing:
        raise DataError(f"{where}: no entities for the atom {checks.shown(missing[0])}; expected one list an atom")
    return [given[text] for text in texts]

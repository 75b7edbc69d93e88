"""Extractions read from a file, so that nobody pays twice for one they have."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from aeg.config.ranges import param
from aeg.core.files import located
from aeg.core.keys import atom_text
from aeg.core.matching import KeyedText, distinct, verbatim_span
from aeg.core.records import ExtractedAtom, Extraction, Passage
from aeg.core.text import sentence_spans
from aeg.errors import ConfigError, DataError
from aeg.extraction.base import EXTRACTORS, Extractor
from aeg.extraction.formats import Entry, read_entries
from aeg.extraction.sentences import titled

if TYPE_CHECKING:
    from aeg.backends.llm import Asker

_ROW = re.compile(r"-(\d{5,})$")


@EXTRACTORS.register("recorded")
@dataclass(frozen=True)
class Recorded(Extractor):
    """Reads entities, triples and atoms from a file; nothing is changed, entity names stay verbatim.

    Formats:
        jsonl: one object a line: `entities` (strings), `triples` ([subject, relation, object]), `atoms` (objects
            with `text` and `entities`), and either `chunk` (row r: the passage whose id ends in `-{r:05d}`) or
            `passage` (its id).
        hipporag: HippoRAG's JSON, `{"docs": [{"passage", "extracted_entities", "extracted_triples"}]}`; HippoRAG
            1's lists that are strings of Python literals are read as well. The format has no atoms: each sentence
            of the passage is one ("Title: sentence" where it does not name the title), with those of the passage's
            entities (its own and the ends of its triples) whose canonical key stands in it on word boundaries.
        atomicrag: the same with the published code's `extracted_knowledge_fragments` (strings) and
            `extracted_fragment_entities` (a list of strings for each, or an object from text to list).

    A `docs` entry belongs to each passage whose "title, white space, text", or text alone, is the entry's `passage`
    up to white space and Unicode composition. An atom that stands verbatim in its passage, white space aside, gets
    its character span. Statuses: `ok`; `repaired` where malformed triples were left out; `empty` for a blank
    passage without an entry's content; `no_entities`; `missing` where the file has no entry.

    Attributes:
        path: the file, relative to the data root; `builtin:sample` is the one of the package's sample corpus.
        format: `auto` tells by the content.
        missing: what to do with passages that have no entry: `error`, or `empty` (status `missing`).
        malformed_triples: what to do with triples that are not three strings: `error`, or `skip` (counted).

    Example:
        >>> EXTRACTORS.make("recorded", path="medical/extraction.jsonl").missing
        'error'
    """

    path: str = ""
    format: str = param("auto", choices=("auto", "jsonl", "hipporag", "atomicrag"))
    missing: str = param("error", choices=("error", "empty"))
    malformed_triples: str = param("error", choices=("error", "skip"))

    def extract(
        self, passages: Sequence[Passage], root: Path | None = None, workers: int = 0, llm: Asker | None = None
    ) -> Iterator[Extraction]:
        """Return an iterator over one extraction a passage; the whole file is checked before it begins.

        Args:
            passages: the passages, or the rest of them; blank ones need no entry.
            root: the folder that a relative `path` starts from.
            workers: not used.
            llm: not used.

        Raises:
            DataError: if the file is missing or malformed (naming file, line or item, field and value), a passage
                has two entries, or passages have none and `missing` is `error`.
        """
        entries = self._entries(root)
        matched = _match(passages, entries)
        absent = [passage for passage in passages if passage.id not in matched and passage.text.strip()]
        if absent and self.missing == "error":
            raise DataError(
                f"{self._file(root)}: no entry for {len(absent)} of {len(passages)} passages, the first is "
                f"{absent[0].id!r} ({_start(absent[0])}); expected one each; extract them too, or set "
                "`missing: empty` to go on without"
            )
        return (_extraction(passage, matched.get(passage.id)) for passage in passages)

    def source_files(self, root: Path | None) -> list[Path]:
        """Return the file that is read."""
        return [self._file(root)]

    def counts(self, passages: Sequence[Passage], root: Path | None = None) -> Counter[str]:
        """Return what was left out or had no counterpart, by reason, for the manifest."""
        entries = self._entries(root)
        matched = _match(passages, entries)
        used = {entry.where for entry in matched.values()}
        return Counter(
            malformed_triples=sum(entry.skipped for entry in entries),
            unused_entries=sum(entry.where not in used for entry in entries),
            missing_passages=sum(passage.id not in matched for passage in passages if passage.text.strip()),
        )

    def _entries(self, root: Path | None) -> list[Entry]:
        return read_entries(self._file(root), self.format, skip_triples=self.malformed_triples == "skip")

    def _file(self, root: Path | None) -> Path:
        if not self.path:
            raise ConfigError("path: got '', expected the file of the recorded extraction, relative to data_root")
        return located(root, self.path, "extraction.jsonl")


def _start(passage: Passage) -> str:
    text = atom_text(passage.text)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _match(passages: Sequence[Passage], entries: Sequence[Entry]) -> dict[str, Entry]:
    """Return the entry of each passage that has one, by passage id.

    Raises:
        DataError: if a passage has two entries (by row and by id), or an entry's row fits two passages.
    """
    by_key = {(entry.by, entry.key): entry for entry in entries}
    owners: defaultdict[int, list[str]] = defaultdict(list)
    matched: dict[str, Entry] = {}
    for passage in passages:
        row = _row(passage)
        keys: list[tuple[str, int | str]] = [("id", passage.id)]
        if row is not None and ("row", row) in by_key:
            keys.append(("row", row))
            owners[row].append(passage.id)
        if not entries or entries[0].by == "text":
            keys += [("text", atom_text(f"{passage.title} {passage.text}")), ("text", atom_text(passage.text))]
        found = [by_key[key] for key in dict.fromkeys(keys) if key in by_key]
        if len(found) > 1 and found[0].by != "text":
            raise DataError(
                f"{found[1].where}: a second entry for passage {passage.id!r}; the first is {found[0].where}"
            )
        if found:
            matched[passage.id] = found[0]
    for row, ids in owners.items():
        if len(ids) > 1:
            where = by_key["row", row].where
            raise DataError(
                f"{where}: row {row} fits {len(ids)} passages ({', '.join(ids[:3])}); expected one; "
                "name passages by id (`passage`) in the file instead"
            )
    return matched


def _row(passage: Passage) -> int | None:
    found = _ROW.search(passage.id)
    if not found or found.group(1) != f"{int(found.group(1)):05d}":
        return None
    return int(found.group(1))


def _extraction(passage: Passage, entry: Entry | None) -> Extraction:
    blank = not passage.text.strip()
    if entry is None:
        return Extraction(passage.id, status="empty" if blank else "missing")
    if entry.atoms is None:
        atoms = _sentence_atoms(passage, entry)
    else:
        atoms = tuple(_located(atom, passage.text) for atom in entry.atoms)
    if entry.skipped:
        status = "repaired"
    elif entry.entities or entry.triples or any(atom.entities for atom in atoms):
        status = "ok"
    else:
        status = "no_entities" if atoms or not blank else "empty"
    return Extraction(passage.id, entry.entities, entry.triples, atoms, status)


def _located(atom: ExtractedAtom, text: str) -> ExtractedAtom:
    span = verbatim_span(text, atom.text)
    return replace(atom, start=span[0], end=span[1]) if span else atom


def _sentence_atoms(passage: Passage, entry: Entry) -> tuple[ExtractedAtom, ...]:
    names = distinct((*entry.entities, *(end for triple in entry.triples for end in triple[::2])))
    atoms = []
    for start, end in sentence_spans(passage.text):
        text = titled(atom_text(passage.text[start:end]), passage.title)
        keyed = KeyedText(text)
        atoms.append(ExtractedAtom(text, tuple(name for name in names if keyed.mentions(name)), start, end))
    return tuple(atoms)

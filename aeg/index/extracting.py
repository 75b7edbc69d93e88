"""What is extracted from the passages of an index: kept as lines of JSON, taken over where a passage is the same."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aeg.artifacts import Artifact, code_hash
from aeg.core.atomic import replacing
from aeg.core.progress import progress
from aeg.core.records import ExtractedAtom, Extraction, Passage
from aeg.pipeline.accounts import CONSTRUCTION, added
from aeg.pipeline.keeping import identity, json_line
from aeg.pipeline.stages import EXTRACTION, Pipeline, passages_fingerprint

_UNFINISHED = '"status":"quarantined"'


def extraction_inputs(pipeline: Pipeline) -> dict[str, Any]:
    """Return all that decides an extraction beside the passage."""
    method = pipeline.methods.extraction
    return {**identity(pipeline, method), "code": code_hash(method)}


class Extractions:
    """The extractions of passages, by content of the passage, a line of JSON each.

    Lines take a tenth of the memory that records do.

    Attributes:
        reused: passages whose extraction an earlier generation, or an interrupted writer, had.
        made: passages that were extracted now.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages
        self.keys = [passages_fingerprint([passage]) for passage in passages]
        self.lines: dict[str, str] = {}
        self.reused = self.made = 0

    def take_over(self, passages: Sequence[Passage], folder: Path) -> None:
        """Take what an earlier generation in `folder` has of the same passages; what was quarantined is not taken."""
        wanted = set(self.keys)
        with (folder / EXTRACTION).open(encoding="utf-8", newline="\n") as file:
            for passage, line in zip(passages, file, strict=True):
                key = passages_fingerprint([passage])
                if key in wanted and not _unfinished(line):
                    self.lines[key] = line

    def complete(self, pipeline: Pipeline, artifact: Artifact) -> None:
        """Extract from the passages that are missing, journalled in the artifact's folder as each is done.

        Raises:
            AegError: what the extractor raises; what it had finished stays in the journal.
        """
        method, started, watch = pipeline.methods.extraction, time.perf_counter(), pipeline.accounts.watch()
        earlier = self._from_journals(artifact)
        self.reused = len(self.lines)
        pipeline.accounts.reuse(CONSTRUCTION, artifact.fingerprint, earlier)
        rest = [(key, p) for key, p in zip(self.keys, self.passages, strict=True) if key not in self.lines]
        if rest:
            with artifact.journal().open("a", encoding="utf-8") as journal:
                passages = [passage for _, passage in rest]
                found = method.extract(passages, pipeline.root, pipeline.workers, **pipeline.askers.to(method))
                for (key, _), extraction in zip(rest, progress(found, len(rest), "extraction"), strict=True):
                    line = self.lines[key] = json_line(dataclasses.asdict(extraction))
                    if extraction.status != "quarantined":
                        usage = f',"usage":{json_line(watch.usage())[:-1]}' if method.role else ""
                        journal.write(f'{{"key":"{key}","extraction":{line[:-1]}{usage}}}\n')
                        journal.flush()
        self.made = len(rest)
        pipeline.finished("extraction", watch)
        took = time.perf_counter() - started
        pipeline.report(f"extraction: {self.reused:,} passages known, {self.made:,} extracted in {took:.1f} s")

    def _from_journals(self, artifact: Artifact) -> dict[str, Any]:
        """Take what an interrupted writer had finished, and return what that took."""
        wanted, usages = set(self.keys), []
        for file in sorted(artifact.path.glob("journal-*.jsonl")):
            usage = None
            with file.open(encoding="utf-8", errors="replace", newline="\n") as journal:
                for line in journal:
                    try:
                        record = json.loads(line)
                    except json.JSONDecodeError:
                        continue  # cut off by an interruption
                    usage = record.get("usage", usage)
                    if record["key"] in wanted:
                        self.lines[record["key"]] = json_line(record["extraction"])
            usages += [usage] if usage else []
        return added(usages)

    def __iter__(self) -> Iterator[Extraction]:
        """Yield the extractions in the order of the passages, each made when it is asked for."""
        return (_as_extraction(json.loads(self.lines[key])) for key in self.keys)

    def save(self, folder: Path) -> None:
        """Write the lines in the order of the passages."""
        with replacing(folder / EXTRACTION) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(self.lines[key] for key in self.keys)


def _unfinished(line: str) -> bool:
    return _UNFINISHED in line and json.loads(line)["status"] == "quarantined"


def _as_extraction(record: dict[str, Any]) -> Extraction:
    atoms = tuple(
        ExtractedAtom(atom["text"], tuple(atom["entities"]), atom["start"], atom["end"]) for atom in record["atoms"]
    )
    triples = tuple((s, r, o) for s, r, o in record["triples"])
    return Extraction(
        record["passage_id"], tuple(record["entities"]), triples, atoms, record["status"], record["counts"]
    )

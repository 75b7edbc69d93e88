"""Extractions in processes that may be killed: a parent that has imported everything forks one for each line it reads.

Run as a program. Each line of standard input is a JSON list of the arguments of `extract`; for each the parent
writes the process's id, then, once it has ended, its exit status (negative: the signal that killed it).
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import sys
import traceback
from pathlib import Path

from aeg.artifacts import Artifact, Store, fingerprint, write_text
from aeg.backends.llm import BACKENDS, Asker, Ledger
from aeg.core.records import ExtractedAtom, Extraction, Passage
from aeg.extraction import EXTRACTORS, statistics

CONCURRENCY = 4


def no_locks(*_: object) -> None:
    """What locking is on many cluster file systems."""
    raise OSError(38, "Function not implemented")


def artifact_of(folder: str) -> Artifact:
    return Store(Path(folder)).artifact("extraction", method="llm")


def extract(folder: str, url: str, texts: list[str], locks: bool) -> None:
    """Extract as the pipeline does: journal passage by passage, write all in order, then drop the journals."""
    if not locks:
        fcntl.flock = fcntl.lockf = no_locks
    passages = [Passage(f"p{n:02d}", f"d{n:02d}", text, "", 0, len(text)) for n, text in enumerate(texts)]
    content = {passage.id: fingerprint(dataclasses.astuple(passage)) for passage in passages}
    artifact = artifact_of(folder)
    if artifact.complete:
        return
    known = {record["key"]: record["extraction"] for record in artifact.journalled()}
    rest = [passage for passage in passages if content[passage.id] not in known]
    backend = BACKENDS.make("openai", model="m", base_url=url, max_concurrency=CONCURRENCY)
    llm = Asker(backend, Path(folder) / "llm", Ledger(), what="extractor")
    with artifact.journal().open("a", encoding="utf-8") as journal:
        for passage, found in zip(rest, EXTRACTORS.make("llm").extract(rest, llm=llm), strict=True):
            record = dataclasses.asdict(found)
            known[content[passage.id]] = record
            journal.write(json.dumps({"key": content[passage.id], "extraction": record}, ensure_ascii=False) + "\n")
            journal.flush()
    llm.close()
    records = [known[content[passage.id]] for passage in passages]
    write_text(artifact.path / "extraction.jsonl", "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records))
    artifact.finish(counts=statistics([_as_extraction(record) for record in records]))
    artifact.drop_journals()


def _as_extraction(record: dict) -> Extraction:
    atoms = tuple(ExtractedAtom(**atom) for atom in record["atoms"])
    return Extraction(**{**record, "atoms": atoms})


def main() -> None:
    import multiprocessing.synchronize  # noqa: F401  (what a client imports: so that no child pays for it)

    import openai

    openai.AsyncOpenAI(api_key="none", base_url="http://127.0.0.1/v1")

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                extract(*json.loads(line))
                status = 0
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()

"""Records that a stage made, kept as an artifact with what they cost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aeg.artifacts import code_hash, file_hash, write_text

if TYPE_CHECKING:
    from aeg.pipeline.stages import Pipeline

Records = list[dict[str, Any]]


@dataclass(frozen=True)
class Kept:
    """Records of a stage.

    Attributes:
        records: as plain values.
        counts: what happened on the way.
        seconds: wall time of the run that made them.
    """

    records: Records
    counts: Mapping[str, int]
    seconds: float


def keep(
    pipeline: Pipeline,
    stage: str,
    methods: Sequence[Any],
    make: Callable[[], tuple[Iterable[Mapping[str, Any]], Mapping[str, int]]],
    code: Sequence[Any] = (),
    **inputs: Any,
) -> Kept:
    """Return the records of a stage: those of its artifact where it is complete, else made, and kept.

    If a language model gave no usable reply for some of them, the artifact stays unfinished: the next run makes it
    again, and asks only for these, as all others are in the cache of replies.

    Args:
        pipeline: the experiment.
        stage: names the artifact's folder and file.
        methods: what makes the records: their parameters, files, models, prompts and code are part of the key.
        make: returns records and counts.
        code: further modules that make them.
        inputs: what else the records depend on.
    """
    started, watch = time.perf_counter(), pipeline.accounts.watch()
    if pipeline.read_only:
        records, counts = make()
        return Kept(_plain(records), counts, time.perf_counter() - started)
    artifact = pipeline.store.artifact(stage, **identity(pipeline, *methods), code=code_hash(*methods, *code), **inputs)
    file = artifact.path / f"{stage}.jsonl"
    with pipeline.claimed(artifact):
        if artifact.complete:
            facts = artifact.facts()
            pipeline.accounts.reuse(pipeline.accounts.at, artifact.fingerprint, facts["usage"], facts["seconds"])
            return Kept(read_lines(file), facts["counts"], facts["seconds"])
        started = time.perf_counter()
        records, counts = make()
        lines = [json_line(record) for record in records]
        seconds = time.perf_counter() - started
        if pipeline.finished(stage, watch):
            write_text(file, "".join(lines))
            pipeline.accounts.made(artifact.fingerprint)
            artifact.finish(counts=dict(counts), seconds=seconds, usage=watch.usage())
    return Kept([json.loads(line) for line in lines], counts, seconds)


def identity(pipeline: Pipeline, *methods: Any) -> dict[str, Any]:
    """Return what decides the results of methods, beside their code, as inputs of an artifact."""
    found: dict[str, Any] = {
        "methods": [spec(method) for method in methods],
        "files": [file_hash(path) for method in methods for path in method.source_files(pipeline.root)],
        "models": [model for method in methods for model in method.models()],
    }
    asked = [told for method in methods if (told := pipeline.askers.identity(method)) is not None]
    return found | ({"llm": asked} if asked else {})


def spec(method: Any) -> dict[str, Any]:
    """Return a method as plain values: its class and its parameters, paths left out (files are hashed)."""
    params = {f.name: getattr(method, f.name) for f in fields(method) if f.name != "path"}
    return {"class": type(method).__qualname__, **params}


def json_line(record: Any) -> str:
    """Return a record as a line of JSON."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def read_lines(path: Path) -> Records:
    """Return the records of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _plain(records: Iterable[Mapping[str, Any]]) -> Records:
    return [json.loads(json_line(record)) for record in records]

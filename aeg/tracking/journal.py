"""What was logged of a run or a sweep: `tracking.jsonl`, in its folder, whether a tracker was there or not."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aeg.core.atomic import replacing
from aeg.tracking.secrets import Redactor

FILE = "tracking.jsonl"
BEGIN, STEP, END = "begin", "step", "end"
RUN, SWEEP = "run", "sweep"
_NOT_IN_IDS = re.compile(r"[^\w.-]+")
_LONGEST_ID = 120


@dataclass(frozen=True)
class Identity:
    """What a tracker knows a run by; the same for the same run folder, however often it was interrupted.

    Attributes:
        id: the folder's name, whose last part is the fingerprint of the config.
        name: as shown.
        kind: `run` or `sweep`.
        project, entity: where it is shown; None is the account's own.
        group: of runs that belong together; None for none.
        tags: words to find it by.
        artifacts: whether the folder's files are kept there.
    """

    id: str
    name: str
    kind: str = RUN
    project: str = "aeg"
    entity: str | None = None
    group: str | None = None
    tags: tuple[str, ...] = ()
    artifacts: bool = True


@dataclass
class Journal:
    """The content of a `tracking.jsonl`.

    Attributes:
        identity: of the first attempt that told it; None where none did.
        config: plain values, without secrets.
        steps: values by step, steps ascending.
        status: how the last attempt ended; None while it runs, or where it was killed.
        attempts: how often the work was begun.
    """

    identity: Identity | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    steps: dict[int, dict[str, Any]] = field(default_factory=dict)
    status: str | None = None
    attempts: int = 0

    @property
    def last(self) -> int:
        """The last step; -1 where there is none."""
        return max(self.steps, default=-1)

    def take(self, record: Mapping[str, Any]) -> None:
        """Add a record; a step that is there already stays as it is."""
        kind = record.get("kind")
        if kind == BEGIN:
            self.attempts += 1
            self.status = None
            if self.identity is None:
                self.identity = Identity(**{**record["identity"], "tags": tuple(record["identity"]["tags"])})
                self.config = record.get("config", {})
        elif kind == STEP and record["step"] > self.last:
            self.steps[record["step"]] = record["values"]
        elif kind == END:
            self.status = record["status"]


def read_journal(folder: Path) -> Journal:
    """Return what was logged in a folder; a line that a kill cut off is passed over."""
    journal = Journal()
    if (folder / FILE).is_file():
        for record in records((folder / FILE).read_text(encoding="utf-8", errors="replace")):
            journal.take(record)
    return journal


def records(text: str) -> Iterator[dict[str, Any]]:
    """Yield the whole records in a text of JSON lines."""
    for line in text.split("\n"):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            yield record


class Writer:
    """Appends to a folder's `tracking.jsonl`, record by record; no step is written twice.

    Args:
        folder: of the run.
        anew: forget what an earlier, finished run logged.
    """

    def __init__(self, folder: Path, anew: bool = False) -> None:
        self.path = folder / FILE
        if anew:
            self.path.unlink(missing_ok=True)
        self._journal = read_journal(folder)
        self._redact = Redactor()

    @property
    def last(self) -> int:
        """The last step that is logged; -1 where none is."""
        return self._journal.last

    def begin(self, identity: Identity, config: Mapping[str, Any], at: str) -> None:
        """Log that an attempt begins; what the first one told stands."""
        plain = {**identity.__dict__, "tags": list(identity.tags)}
        told = {"kind": BEGIN, "at": at, "identity": plain}
        self._write(told if self._journal.identity else {**told, "config": config})

    def step(self, number: int, values: Mapping[str, Any]) -> bool:
        """Log the values of a step, and tell whether it was new; one that is not past the last is left out."""
        if number <= self._journal.last:
            return False
        self._write({"kind": STEP, "step": number, "values": finite(values)})
        return True

    def end(self, status: str, at: str) -> None:
        """Log how the attempt ended."""
        self._write({"kind": END, "status": status, "at": at})

    def _write(self, record: dict[str, Any]) -> None:
        plain = self._redact.value(record)
        line = json.dumps(plain, ensure_ascii=False, sort_keys=True, default=str)
        cut = self.path.is_file() and not _ends_whole(self.path)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("\n" if cut else "") + line + "\n")
        self._journal.take(plain)


def write_journal(folder: Path, identity: Identity, config: Mapping[str, Any], steps: Mapping[int, Any]) -> None:
    """Write a whole `tracking.jsonl` by rename, for what is told at its end only."""
    lines: list[dict[str, Any]] = [
        {"kind": BEGIN, "identity": {**identity.__dict__, "tags": list(identity.tags)}, "config": config},
        *({"kind": STEP, "step": step, "values": finite(values)} for step, values in sorted(steps.items())),
        {"kind": END, "status": "finished"},
    ]
    redact = Redactor()
    text = "".join(json.dumps(redact.value(line), ensure_ascii=False, sort_keys=True) + "\n" for line in lines)
    with replacing(folder / FILE) as temporary:
        temporary.write_text(text, encoding="utf-8")


def finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without those that are no number: a mean of nothing."""
    return {key: value for key, value in values.items() if not (isinstance(value, float) and not math.isfinite(value))}


def valid_id(name: str) -> str:
    """Return a name as an id that trackers take.

    Example:
        >>> valid_id("my run: 2-1a2b3c4d")
        'my-run-2-1a2b3c4d'
    """
    return _NOT_IN_IDS.sub("-", name)[-_LONGEST_ID:].lstrip("-.")


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        if file.tell() == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"

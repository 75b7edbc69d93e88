"""What became of a folder at the tracker: `tracking.json`, the mark that says it was uploaded, and as what."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from aeg.artifacts import file_hash, read_json, write_text

FILE = "tracking.json"


@dataclass(frozen=True)
class Mark:
    """Says that a folder was uploaded.

    Attributes:
        at: when, ISO 8601 in UTC.
        tracker: `wandb`.
        id: of the run there.
        url: where it is shown; empty where the tracker told none.
        steps: that were logged.
        content: hash of the metrics that were uploaded.
    """

    at: str
    tracker: str
    id: str
    url: str
    steps: int
    content: str


def read_mark(folder: Path) -> Mark | None:
    """Return the mark of a folder; None where it was not uploaded.

    Raises:
        DataError: if it is malformed.
    """
    return Mark(**read_json(folder / FILE)) if (folder / FILE).is_file() else None


def write_mark(folder: Path, mark: Mark) -> None:
    """Mark a folder as uploaded."""
    write_text(folder / FILE, json.dumps(asdict(mark), indent=1) + "\n")


def content_of(folder: Path) -> str:
    """Return a hash of a folder's metrics (of a sweep: of what was logged), empty where there are none."""
    for name in ("metrics.json", "tracking.jsonl"):
        if (folder / name).is_file():
            return file_hash(folder / name)
    return ""

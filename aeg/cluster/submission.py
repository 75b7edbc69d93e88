"""What was submitted for a sweep: numbers of jobs, and which run each element of an array is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from aeg.artifacts import read_json, write_text
from aeg.errors import DataError

FILE = "jobs.json"
FORMAT = 1


@dataclass(frozen=True)
class Submission:
    """The jobs of one submission.

    Attributes:
        snapshot: name of the snapshot that they run.
        index, array, report: numbers of the jobs; None where there was none.
        tasks: id of the run by element of the array, as text.
        at: when, in UTC.
        options: what was asked for.
    """

    snapshot: str
    index: int | None
    array: int | None
    report: int | None
    tasks: Mapping[str, str]
    at: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def numbers(self) -> list[int]:
        """The jobs that there are."""
        return [job for job in (self.index, self.array, self.report) if job is not None]

    def element(self, run: str) -> str | None:
        """Return the id of a run's element, `12_3`; None where this submission has none."""
        task = next((task for task, of in self.tasks.items() if of == run), None)
        return None if task is None or self.array is None else f"{self.array}_{task}"


def submissions(folder: Path) -> list[Submission]:
    """Return the submissions of a sweep's folder, the oldest first; none where nothing was submitted.

    Raises:
        DataError: if their file is malformed.
    """
    file = folder / FILE
    if not file.is_file():
        return []
    content = read_json(file)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{file}: not of format {FORMAT}; move it away, what it says of jobs is lost")
    return [Submission(**record) for record in content["submissions"]]


def record(folder: Path, found: Sequence[Submission], new: Submission) -> None:
    """Write the submissions of a sweep's folder with a new one."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    records = [asdict(one) for one in found] + [{**asdict(new), "at": at}]
    write_text(folder / FILE, json.dumps({"format": FORMAT, "submissions": records}, indent=1) + "\n")

"""The process that shows a folder in a tracker, apart from the experiment: whatever it meets, the experiment goes on.

`python -m aeg.tracking.mirror FOLDER --mode offline|online [--follow PID]`, called by `aeg.tracking.process`; its last
line on standard output says in JSON what became of it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aeg.errors import AegError
from aeg.tracking.content import content_for
from aeg.tracking.journal import FILE, Journal, read_journal, records
from aeg.tracking.sink import Sink

FINISHED, INTERRUPTED = "finished", "interrupted"
_LOOK = 0.5  # seconds between two looks at the log


def main(arguments: Sequence[str] | None = None) -> int:
    """Show the folder; return 0 where all was taken, else 1."""
    parser = argparse.ArgumentParser(prog="python -m aeg.tracking.mirror")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mode", choices=("online", "offline"), required=True)
    parser.add_argument("--follow", type=int, metavar="PID", help="show it while that process works at it")
    parser.add_argument("--timeout", type=float, default=60.0)
    given = parser.parse_args(arguments)
    from aeg.tracking.wandb import Wandb

    sink = Wandb(given.mode == "offline", given.timeout)
    try:
        outcome = mirror(given.folder, sink, given.follow)
    except AegError as error:
        outcome = {"ok": False, "error": str(error)}
    sys.stdout.write("\n" + json.dumps(outcome) + "\n")
    sys.stdout.flush()
    return 0 if outcome["ok"] else 1


def mirror(folder: Path, sink: Sink, follow: int | None) -> dict[str, Any]:
    """Show what was logged in a folder, and what it has to show once it is finished.

    Args:
        folder: of a run or a sweep, with its log.
        sink: the tracker.
        follow: the process whose work is followed; None shows what is there.

    Returns:
        `ok`, `url`, `steps` and `notes`.

    Raises:
        AegError: if the tracker fails, or a file is malformed.
    """
    journal = read_journal(folder)
    if journal.identity is None:
        return {"ok": False, "error": f"{folder / FILE}: nothing was logged there"}
    first = sink.open(journal.identity, journal.config, folder)
    shown = -1
    for current in _followed(folder, journal, follow):
        for step, values in sorted(current.steps.items()):
            if step > shown and step >= first:
                sink.log(step, values)
            shown = max(shown, step)
    status = journal.status or INTERRUPTED
    notes: list[str] = []
    if status == FINISHED:
        content = content_for(folder, journal.identity.kind)
        sink.show(max(shown, first - 1) + 1, content)
        notes = content.notes
    url = sink.close(status)
    return {"ok": True, "url": url, "steps": len(journal.steps), "status": status, "notes": notes}


def _followed(folder: Path, journal: Journal, follow: int | None) -> Iterator[Journal]:
    """Yield the log as it grows, until the work has ended or whoever did it is gone."""
    yield journal
    if follow is None:
        return
    with (folder / FILE).open(encoding="utf-8", errors="replace") as file:
        file.seek((folder / FILE).stat().st_size)
        held = ""
        while journal.status is None:
            alive = os.getppid() == follow
            text = held + file.read()
            whole, _, held = text.rpartition("\n")
            for record in records(whole):
                journal.take(record)
            yield journal
            if not alive:
                return
            time.sleep(_LOOK)


if __name__ == "__main__":
    sys.exit(main())

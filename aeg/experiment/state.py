"""What a run is doing, for whoever looks at its folder: `state.json`, `log.txt`, and the claim of who is at it."""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aeg.artifacts import CLAIM, MANIFEST, read_json, write_text
from aeg.claims import holder_of
from aeg.errors import AegError, DataError, PendingBatch

STATE, LOG = "state.json", "log.txt"
MISSING, RUNNING, FINISHED = "missing", "running", "finished"
FAILED, INTERRUPTED, WAITING = "failed", "interrupted", "waiting"
_LAST = 2000  # characters of an error that are kept in the state
_PAUSE = 1.0  # seconds between two writings of how far a part is


class Watch:
    """Keeps the state of one run, and its log.

    Args:
        folder: of the run; it is made.
        report: takes each line as well.
    """

    def __init__(self, folder: Path, report: Callable[[str], None]) -> None:
        self.folder, self._report = folder, report
        self._started = time.perf_counter()
        self._written = 0.0
        self._log = logging.Logger("aeg.run")
        self._state: dict[str, Any] = {"status": RUNNING, "since": now(), **whoami(), "error": None, "stage": ""}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._handler = logging.FileHandler(folder / LOG, encoding="utf-8")
        except OSError as error:
            raise DataError(f"{folder}: cannot be made ({error.strerror}); set run_dir to a writable folder") from None
        form = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s")
        form.converter = time.gmtime
        self._handler.setFormatter(form)

    def __call__(self, line: str) -> None:
        """Report a line of progress."""
        self._log.info(line)
        self._write(stage=line)
        self._report(line)

    def advanced(self, part: str, at: int, parts: int) -> Callable[[int, int], None]:
        """Return what takes the number of questions that are done in a part, and how many there are.

        Args:
            part: its label.
            at: its place, from 1.
            parts: how many there are.
        """

        def take(done: int, total: int) -> None:
            self._state |= {"questions": {"part": part, "done": done, "total": total}, "parts": [at, parts]}
            if done == total or time.perf_counter() - self._written > _PAUSE:
                self._write()

        return take

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Write the state at the beginning and the end of the block, whatever end that is."""
        root = logging.getLogger()
        root.addHandler(self._handler)
        self._log.addHandler(self._handler)
        self._log.info("begun by process %d on %s", os.getpid(), socket.gethostname())
        self._write()
        try:
            yield
        except PendingBatch as error:
            self._end(WAITING, str(error))
            raise
        except AegError as error:
            self._end(FAILED, str(error))
            raise
        except (KeyboardInterrupt, SystemExit) as error:
            self._end(INTERRUPTED, f"interrupted ({type(error).__name__}{f': {error}' if str(error) else ''})")
            raise
        except BaseException as error:
            self._log.exception("failed")
            self._end(FAILED, f"{type(error).__name__}: {error}")
            raise
        else:
            self._end(FINISHED, None)
        finally:
            root.removeHandler(self._handler)
            self._handler.close()

    def _end(self, status: str, error: str | None) -> None:
        self._log.log(logging.INFO if error is None else logging.ERROR, "%s%s", status, f": {error}" if error else "")
        self._write(status=status, error=None if error is None else error[-_LAST:])

    def _write(self, **changes: Any) -> None:
        self._written = time.perf_counter()
        self._state |= {**changes, "updated": now(), "seconds": round(self._written - self._started, 3)}
        write_text(self.folder / STATE, json.dumps(self._state, indent=1, ensure_ascii=False) + "\n")


def now() -> str:
    """Return the time in UTC, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def whoami() -> dict[str, Any]:
    """Return host, Slurm job (empty outside one) and process."""
    return {"host": socket.gethostname(), "job": os.environ.get("SLURM_JOB_ID", ""), "pid": os.getpid()}


def state_of(folder: Path) -> Mapping[str, Any]:
    """Return the content of a run's `state.json`; empty where there is none.

    Raises:
        DataError: if it is malformed.
    """
    return read_json(folder / STATE) if (folder / STATE).is_file() else {}


def status_of(folder: Path) -> str:
    """Return what became of a run: `finished`, `running`, `failed`, `interrupted`, `waiting` or `missing`.

    A run is finished when its manifest is there; one that says it is running is interrupted if nobody alive holds its
    claim.

    Raises:
        DataError: if its state is malformed.
    """
    if holder_of(folder / CLAIM) is not None:
        return RUNNING
    if (folder / MANIFEST).is_file():
        return FINISHED
    status = str(state_of(folder).get("status", MISSING))
    return {RUNNING: INTERRUPTED, FINISHED: MISSING}.get(status, status)

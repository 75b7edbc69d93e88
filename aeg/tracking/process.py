"""Starting the process that shows a folder, and waiting for it: with a time limit, and nothing it does is fatal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aeg.tracking.secrets import Redactor

_MODULE = "aeg.tracking.mirror"
_START = 30.0  # seconds beyond the tracker's own limit, for imports on a busy machine
_REFUSED = "Fatal error while uploading data"  # which the client only prints
_TAIL = 300  # characters of what a process wrote that are told


@dataclass(frozen=True)
class Outcome:
    """What became of showing a folder.

    Attributes:
        ok: whether all was taken.
        url: where it is shown, or the folder that was written.
        steps: that were logged.
        notes: what was left out.
        error: why it was not taken.
    """

    ok: bool
    url: str = ""
    steps: int = 0
    notes: tuple[str, ...] = ()
    error: str = ""


class Mirror:
    """The process, started.

    Args:
        folder: of the run or the sweep.
        mode: `online` or `offline`.
        timeout: seconds that the tracker may take to begin, and to end.
        follow: show the folder while this process works at it.
    """

    def __init__(self, folder: Path, mode: str, timeout: float, follow: bool = False) -> None:
        self._timeout = timeout
        command = [sys.executable, "-m", _MODULE, str(folder), f"--mode={mode}", f"--timeout={timeout}"]
        command += [f"--follow={os.getpid()}"] if follow else []
        self._said, self._told = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")  # noqa: SIM115
        package = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):  # of a group of processes, which this does not belong to
            environment.pop(name, None)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._told,
            env=environment,
            start_new_session=True,  # Ctrl-C is the experiment's
        )

    def wait(self, limit: float | None = None) -> Outcome:
        """Return what became of it; after the limit (default: that of the tracker, twice) it is ended."""
        seconds = 2 * self._timeout + _START if limit is None else limit
        with self._said, self._told:
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                return Outcome(False, error=f"gave up after {seconds:.0f} s without an end{self._last_words()}")
            finally:
                self._kill()
            return self._outcome()

    def _kill(self) -> None:
        """End the process and what it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(2.0)
                if number == signal.SIGTERM and not _alive(self._process.pid):
                    return

    def _outcome(self) -> Outcome:
        found = _last_json(self._read(self._said).splitlines())
        if found is None:
            code = self._process.returncode
            return Outcome(False, error=f"its process ended with code {code}{self._last_words()}")
        if found["ok"] and _REFUSED in self._read(self._told):
            found = {"ok": False, "error": f"not all was taken{self._last_words()}"}
        error = Redactor().text(str(found.get("error", "")))
        notes = tuple(found.get("notes", ()))
        return Outcome(bool(found["ok"]), found.get("url", ""), found.get("steps", 0), notes, error)

    def _last_words(self) -> str:
        words = " ".join(self._read(self._told).split())[-_TAIL:]
        return f" ({Redactor().text(words)})" if words else ""

    @staticmethod
    def _read(file: Any) -> str:
        file.seek(0)
        return str(file.read())


def _alive(group: int) -> bool:
    """Whether a process of the group is left."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _last_json(lines: Sequence[str]) -> dict[str, Any] | None:
    for line in reversed(lines):
        with suppress(json.JSONDecodeError):
            found = json.loads(line)
            if isinstance(found, dict) and "ok" in found:
                return found
    return None

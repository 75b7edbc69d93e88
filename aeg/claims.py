"""Claims: files that say who is making something, so that it is made once, on file systems without reliable locks."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self

from aeg.errors import DataError

BEAT, EXPIRY = 10.0, 120.0  # seconds
_CERTAIN = 10  # a heartbeat older than so many times its expiry is dead, however much clocks differ
_FIRST, _LONGEST, _REMIND = 0.1, 2.0, 60.0  # seconds between two looks, and between two messages


@dataclass(frozen=True)
class Holder:
    """Who holds a claim.

    Attributes:
        host: its name.
        machine: what tells whether a process id means the same process here: boot and process namespace.
        job: number of the Slurm job, empty outside one.
        pid: the process.
        started: when that process started, in the system's ticks: a process id is used again.
        token: of this claim alone.
        since: seconds since 1970.
        expiry: seconds without a heartbeat after which the claim is void.
    """

    host: str
    machine: str
    job: str
    pid: int
    started: int
    token: str
    since: float
    expiry: float

    def __str__(self) -> str:
        job = f", job {self.job}" if self.job else ""
        return f"process {self.pid} on {self.host}{job}"

    @property
    def here(self) -> bool:
        """Whether its process id means something on this machine."""
        return bool(self.machine) and (self.host, self.machine) == (socket.gethostname(), _machine())

    @property
    def gone(self) -> bool:
        """Whether it ran on this machine and does not any more."""
        return self.here and _started(self.pid) != self.started


class Claim:
    """The right to make something, held while a file is there.

    The file is created exclusively. Its heartbeat is its modification time, set through the open descriptor, so
    that only the own file is ever touched. A holder is dead if its process is gone (same machine), or if its
    heartbeat has not changed for `expiry` seconds by the waiter's clock (or is older than ten times that). Whoever
    wants a dead holder's claim first creates a tombstone named by its token: one alone succeeds, and renames its
    own claim over the dead one. A claim is advice: a holder that was wrongly taken for dead (suspended for minutes)
    finds `lost`, and both do the same work; what is written under a claim must go by rename, or be one file a process.

    Args:
        path: the claim's file; its folder is made.
        report: told whom one waits for.
        what: names the thing in messages.
        beat: seconds between heartbeats.
        expiry: seconds without one after which others take the claim over.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "claim"
        >>> with Claim(file) as claim:
        ...     Claim(file).try_acquire(), claim.lost
        (False, False)
        >>> file.exists()
        False
    """

    def __init__(
        self,
        path: Path,
        report: Callable[[str], None] | None = None,
        what: str = "",
        beat: float = BEAT,
        expiry: float = EXPIRY,
    ) -> None:
        self.path, self.what = path, what or path.parent.name
        self._report, self._beat, self._expiry = report, beat, expiry
        self._mine: Holder | None = None
        self._stop = threading.Event()
        self._seen: dict[tuple[str, int], float] = {}  # when this waiter first saw a token with this heartbeat

    def __enter__(self) -> Self:
        """Wait until the claim is held."""
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the claim."""
        self.release()

    @property
    def held(self) -> bool:
        """Whether this object holds the claim, as far as it knows."""
        return self._mine is not None

    @property
    def lost(self) -> bool:
        """Whether the claim was taken over by somebody who thought this process dead."""
        if self._mine is None:
            return False
        found = _read(self.path)
        return found is None or found[0].token != self._mine.token

    def acquire(self, done: Callable[[], bool] = lambda: False) -> bool:
        """Wait until the claim is held, or `done` tells that it is no longer needed.

        Returns:
            Whether the claim is held now.

        Raises:
            DataError: if the claim's folder cannot be written.
        """
        pause, told, started = _FIRST, -_REMIND, time.monotonic()
        while not done():
            if self.try_acquire():
                return True
            waited = time.monotonic() - started
            holder = _read(self.path)
            if holder is not None and waited - told >= _REMIND and self._report is not None:
                self._report(f"{self.what}: waiting for {holder[0]}, which is making it ({self.path}); {waited:.0f} s")
                told = waited
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST)
        return False

    def try_acquire(self) -> bool:
        """Take the claim if nobody alive holds it, and tell whether it is held now."""
        if self._mine is not None:
            return True
        found = _read(self.path)
        if found is None:
            return self._place(None)
        return self._dead(*found) and self._place(found[0])

    def release(self) -> None:
        """Give the claim back; without effect where it is not held."""
        if self._mine is None:
            return
        if not self.lost:
            with suppress(OSError):
                self.path.unlink()
        self._stop.set()
        self._mine = None

    def _dead(self, holder: Holder, beat: int) -> bool:
        """Whether a holder is known to be dead; looking again later may tell more."""
        if holder.here:
            return holder.gone
        now = time.monotonic()
        first = self._seen.setdefault((holder.token, beat), now)
        return now - first > holder.expiry or time.time() - beat / 1e9 > _CERTAIN * holder.expiry

    def _place(self, dead: Holder | None) -> bool:
        """Put one's own claim where there is none, or where a dead one is."""
        mine = Holder(
            host=socket.gethostname(),
            machine=_machine(),
            job=os.environ.get("SLURM_JOB_ID", ""),
            pid=os.getpid(),
            started=_started(os.getpid()),
            token=uuid.uuid4().hex,
            since=time.time(),
            expiry=self._expiry,
        )
        file = _created(self.path, mine) if dead is None else self._bury(dead, mine)
        if file is None:
            return False
        if dead is not None and self._report is not None:
            self._report(f"{self.what}: {dead} no longer runs; its claim is taken over")
        self._mine, self._stop = mine, threading.Event()
        threading.Thread(target=_beating, args=(file, self._stop, self._beat), daemon=True).start()
        return True

    def _bury(self, dead: Holder, mine: Holder) -> int | None:
        """Rename one's own claim over a dead one; of several that try, one succeeds and gets its descriptor."""
        tombstone = self.path.with_name(f".{self.path.name}.dead-{dead.token}")
        mark = _created(tombstone, mine)
        if mark is None:
            with suppress(OSError):  # whoever made it may have died before the next line
                if time.time() - tombstone.stat().st_mtime > dead.expiry:
                    tombstone.unlink()
            return None
        os.close(mark)
        try:
            found = _read(self.path)
            if found is None or found[0].token != dead.token:
                return None
            draft = self.path.with_name(f".{self.path.name}.{mine.token}")
            file = _created(draft, mine)
            draft.replace(self.path)
            return file
        finally:
            tombstone.unlink(missing_ok=True)


def holder_of(path: Path) -> Holder | None:
    """Return who holds a claim; None where nobody does, or where the holder is known to be dead.

    A holder on another machine whose heartbeat is older than its expiry counts as dead here: nothing is taken over.
    """
    found = _read(path)
    if found is None:
        return None
    holder, beat = found
    dead = holder.gone if holder.here else time.time() - beat / 1e9 > holder.expiry
    return None if dead else holder


def _read(path: Path) -> tuple[Holder, int] | None:
    """The holder and the heartbeat (nanoseconds) in a claim's file; None where there is none."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            beat = os.fstat(file.fileno()).st_mtime_ns
            text = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; a claim must be readable by all who share the folder") from None
    try:
        return Holder(**json.loads(text)), beat
    except (json.JSONDecodeError, TypeError):
        return Holder("(unknown host)", "", "", 0, 0, "unknown", beat / 1e9, BEAT), beat  # being written, or cut off


def _created(path: Path, holder: Holder) -> int | None:
    """Make a file that must not be there, and return its descriptor; None where it is there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return None
    except OSError as error:
        raise DataError(f"{path.parent}: cannot be written ({error.strerror}); choose a writable folder") from None
    os.write(file, json.dumps(asdict(holder)).encode())
    return file


def _beating(file: int, stop: threading.Event, beat: float) -> None:
    """Keep a claim alive; the descriptor is closed here only, so that its number is never another file's."""
    with suppress(OSError):  # deleted on another machine: nothing is left to keep alive
        while not stop.wait(beat):
            os.utime(file)
    os.close(file)


@lru_cache(maxsize=1)
def _machine() -> str:
    """Boot and process namespace; empty where the system does not tell (then heartbeats decide alone)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> int:
    """When a process started, in ticks since the boot; -1 where there is none, or only a zombie's remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return -1
    fields = stat.rpartition(")")[2].split()
    return -1 if fields[0] in "ZX" else int(fields[19])

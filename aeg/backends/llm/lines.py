"""Append-only JSON lines: every process writes its own files, and everybody reads all of them."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aeg.errors import DataError


class Lines:
    r"""This process's file in a shared folder, made at the first record; no lock is needed.

    The name (`{nanoseconds}-{host}-{pid}-{token}.jsonl`) is new for every instance, so that nobody goes on with
    another's file whose last line was torn by a kill; names sort by the time at which the files were begun.
    Records are written whole, by one write each, and reach the operating system before `append` returns: a SIGKILL
    of this process loses none of them.

    Example:
        >>> import tempfile
        >>> lines = Lines(Path(tempfile.mkdtemp()), "quarantine")
        >>> place = lines.append([{"n": 1}, {"n": 2}])
        >>> lines.close()
        >>> [(offset, length) for _, offset, length in place], place[0][0].read_text()
        ([(0, 8), (9, 8)], '{"n": 1}\n{"n": 2}\n')
    """

    def __init__(self, folder: Path, what: str) -> None:
        self.folder = folder
        self.what = what
        self.path: Path | None = None
        self._file = -1
        self._owner = 0
        self._size = 0
        self._lock = threading.Lock()

    def append(self, records: Sequence[dict[str, Any]]) -> list[tuple[Path, int, int]]:
        """Write records; return for each its file, its offset in bytes and its length without the line's end.

        Raises:
            DataError: if the folder cannot be written.
        """
        rows = [json.dumps(record).encode("ascii") for record in records]
        with self._lock:
            try:
                self._open()
                self._write(b"".join(row + b"\n" for row in rows))
            except OSError as error:
                self._drop()
                raise DataError(
                    f"{self.folder}: the {self.what} cannot be written ({error.strerror}); free space there, or set "
                    "artifacts_dir to another folder"
                ) from None
            assert self.path is not None
            places, offset = [], self._size
            for row in rows:
                places.append((self.path, offset, len(row)))
                offset += len(row) + 1
            self._size = offset
            return places

    def close(self) -> None:
        """Close the file; a later record opens another one."""
        with self._lock:
            self._drop()

    def _open(self) -> None:
        if self._file >= 0 and self._owner == os.getpid():
            return
        self._drop()  # also in a forked child, whose file is the parent's
        self.folder.mkdir(parents=True, exist_ok=True)
        host = re.sub(r"[^A-Za-z0-9_.]", "_", socket.gethostname())
        name = f"{time.time_ns():020d}-{host}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.path = self.folder / f"{name}.jsonl"
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
        self._owner, self._size = os.getpid(), 0

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._file, data) :]

    def _drop(self) -> None:
        """Leave the file: after a failed write its last line may be torn."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

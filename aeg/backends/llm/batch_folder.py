"""The folder of an offline batch: files of requests that were written, files of results that were put beside them."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aeg.core.atomic import replacing
from aeg.errors import DataError

logger = logging.getLogger(__name__)

_REQUESTS = "requests-"
_MOST_REQUESTS = 50_000  # in one file: limits of OpenAI's Batch API
_MOST_BYTES = 200_000_000


@dataclass(frozen=True)
class Result:
    """One line of a file of results.

    Attributes:
        status: the HTTP status of the answer; 500 where there was none.
        body: the answer's parsed body, or the error in its place.
    """

    status: int
    body: Any


@dataclass
class _Content:
    """What one file holds, and the size and time that it had when it was read."""

    stamp: tuple[int, int]
    ids: list[str] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)  # parallel to ids, in files of results
    malformed: int = 0


class BatchFolder:
    """Requests by custom id, and their results, in any order and any number of files.

    Every `*.jsonl` file whose name does not start with `requests-` is one of results, in the form of OpenAI's
    Batch API (output and error files) or of vLLM's `run-batch`. A line of another form is passed over, counted in
    `malformed` and logged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[Path, _Content] = {}

    def refresh(self) -> None:
        """Read files that are new or have changed.

        Raises:
            DataError: if one cannot be read.
        """
        found: dict[Path, _Content] = {}
        for path in sorted(self.path.glob("*.jsonl")):
            try:
                status = path.stat()
                stamp, known = (status.st_size, status.st_mtime_ns), self._files.get(path)
                found[path] = known if known is not None and known.stamp == stamp else _read(path, stamp)
            except OSError as error:
                raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
        self._files = found

    @property
    def malformed(self) -> dict[str, int]:
        """Lines that were passed over, by file name."""
        return {path.name: content.malformed for path, content in self._files.items() if content.malformed}

    def requested(self) -> dict[str, Path]:
        """Return the file that each custom id was last requested in."""
        return {custom: path for path, content in self._files.items() if _is_request(path) for custom in content.ids}

    def results(self) -> dict[str, list[Result]]:
        """Return the results of each custom id, in the order of file names and lines."""
        found: dict[str, list[Result]] = {}
        for path, content in self._files.items():
            if not _is_request(path):
                for custom, result in zip(content.ids, content.results, strict=True):
                    found.setdefault(custom, []).append(result)
        return found

    def write(self, requests: Sequence[tuple[str, dict[str, Any]]]) -> list[Path]:
        """Write (custom id, body) into new files, by rename, and return their paths.

        One file holds at most 50,000 requests and 200 MB, as OpenAI's Batch API admits.

        Raises:
            DataError: if the folder cannot be written.
        """
        number = sum(_is_request(path) for path in self._files)
        paths = []
        for lines in _shares(requests):
            number += 1
            content = b"".join(lines)
            path = self.path / f"{_REQUESTS}{number:03d}-{hashlib.sha256(content).hexdigest()[:8]}.jsonl"
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                with replacing(path) as temporary:
                    temporary.write_bytes(content)
            except OSError as error:
                raise DataError(f"{path}: cannot be written ({error.strerror}); set batch.folder to another") from None
            paths.append(path)
        self.refresh()
        return paths


def result_name(requests: Path) -> str:
    """Return the name under which a file of requests' results are expected (others will do).

    Example:
        >>> result_name(Path("requests-001-1a2b3c4d.jsonl"))
        'results-001-1a2b3c4d.jsonl'
    """
    return "results-" + requests.name.removeprefix(_REQUESTS)


def _is_request(path: Path) -> bool:
    return path.name.startswith(_REQUESTS)


def _shares(requests: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[list[bytes]]:
    """The lines of each file."""
    lines: list[bytes] = []
    size = 0
    for custom, body in requests:
        row = {"custom_id": custom, "method": "POST", "url": "/v1/chat/completions", "body": body}
        line = json.dumps(row).encode("ascii") + b"\n"
        if lines and (len(lines) == _MOST_REQUESTS or size + len(line) > _MOST_BYTES):
            yield lines
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield lines


def _read(path: Path, stamp: tuple[int, int]) -> _Content:
    content = _Content(stamp)
    with path.open("rb") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            custom = row.get("custom_id") if isinstance(row, dict) else None
            result = None if not isinstance(custom, str) or _is_request(path) else _result(row)
            if not isinstance(custom, str) or (result is None and not _is_request(path)):
                content.malformed += 1
                continue
            content.ids.append(custom)
            if result is not None:
                content.results.append(result)
    if content.malformed:
        logger.warning("%s: %d lines are no requests or results, passed over", path, content.malformed)
    return content


def _result(row: dict[str, Any]) -> Result | None:
    """What a line says: `response` with status and body, or `error`, or both; either may be null."""
    response, error = row.get("response"), row.get("error")
    if isinstance(response, dict) and isinstance(response.get("status_code"), int):
        body = response.get("body")
        return Result(response["status_code"], {"error": error} if body is None else body)
    if error:
        code = error.get("code") if isinstance(error, dict) else None
        return Result(code if isinstance(code, int) and 400 <= code < 600 else 500, {"error": error})
    return None

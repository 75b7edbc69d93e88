"""Replies on disk by what was asked: append-only files, one writer each, merged on reading."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aeg.backends.llm.base import Backend, Reply, Request
from aeg.backends.llm.lines import Lines

logger = logging.getLogger(__name__)

_START = b'{"key": "'
_REPLAY = b'", "replay": "'
_DIGEST = 64


def digest(value: Any) -> str:
    """Return the SHA-256 of a plain value's canonical JSON, in ASCII so that any string has one."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def asked(request: Request) -> dict[str, Any]:
    """Return what a request asks, as plain values: its messages, schema, token limit and sample.

    Example:
        >>> from aeg.backends.llm.base import Message
        >>> asked(Request("ner", "p1", (Message("user", "Who?"),)))["messages"]
        [{'role': 'user', 'content': 'Who?'}]
    """
    return {
        "messages": [{"role": turn.role, "content": turn.content} for turn in request.messages],
        "schema": request.schema,
        "max_tokens": request.max_tokens,
        "sample": request.sample,
    }


def reply_key(backend: Backend, request: Request) -> str:
    """Return the cache key: SHA-256 of endpoint, model, parameters, messages, schema, token limit and sample."""
    return _keys(backend, digest(asked(request)))[0]


def replay_key(model: str, temperature: float, seed: int, request: Request) -> str:
    """Return the key under which a recording is looked up: that of `reply_key` without the endpoint.

    Of the parameters only those count that every backend has: what else was passed to one endpoint (`extra_body`)
    has no place in the config of a replay.
    """
    return _replay(model, temperature, seed, digest(asked(request)))


def _keys(backend: Backend, request: str) -> tuple[str, str]:
    """The keys of a request, given its digest."""
    given = {"endpoint": backend.endpoint, "model": backend.model, "parameters": backend.parameters}
    return digest(given | {"request": request}), _replay(backend.model, backend.temperature, backend.seed, request)


def _replay(model: str, temperature: float, seed: int, request: str) -> str:
    return digest({"model": model, "temperature": float(temperature), "seed": seed, "request": request})


@dataclass(frozen=True)
class Stored:
    """A reply as the cache holds it, with the parameters that it was made with."""

    reply: Reply
    parameters: dict[str, Any]


class ReplyCache:
    """The replies of all runs that share a folder.

    Each process appends to a file of its own and reads everybody's; only keys and places are held in memory. A
    last line without an end (its writer was killed, or is writing) is left for the next reading; a damaged one
    counts as absent, logged and counted in `damaged`. A key may have several replies: those of processes that
    asked at the same time, or a later one that fits a stage's new rules.

    With `requests=True` each record holds the whole request, so that the folder can be audited.

    Example:
        >>> import tempfile
        >>> from aeg.backends.llm.base import Message
        >>> from aeg.backends.llm.recorded import Recorded
        >>> folder, request = Path(tempfile.mkdtemp()), Request("ner", "p1", (Message("user", "Who?"),))
        >>> backend = Recorded(model="m", folder=str(folder))
        >>> ReplyCache(folder).put(backend, [request], Reply("Ann", 3, 1, 0.1))
        >>> [reply.text for reply in ReplyCache(folder).get(reply_key(backend, request))]
        ['Ann']
    """

    def __init__(self, folder: Path, requests: bool = True) -> None:
        self.folder = folder
        self.requests = requests
        self.damaged = 0
        self._lines = Lines(folder, "cache of replies")
        self._places: dict[bytes, list[tuple[Path, int, int]]] = {}
        self._replays: dict[bytes, list[tuple[Path, int, int]]] = {}
        self._read: dict[Path, int] = {}  # bytes taken up of each file
        self._own: set[Path] = set()
        self.refresh()

    def get(self, key: str) -> Iterator[Reply]:
        """Yield the replies to a key, the newest file's first; `refresh` takes up other processes'."""
        return (stored.reply for stored in self._replies(self._places, key))

    def replay(self, key: str) -> Iterator[Stored]:
        """Yield the replies to a `replay_key`."""
        return self._replies(self._replays, key)

    def put(self, backend: Backend, requests: Iterable[Request], reply: Reply) -> None:
        """Append a reply under each of the requests that it answers, by one write.

        It is with the operating system when this returns: a kill of this process does not lose it.

        Raises:
            DataError: if the folder cannot be written.
        """
        records = [self._record(backend, request, reply) for request in requests]
        for record, place in zip(records, self._lines.append(records), strict=True):
            self._own.add(place[0])
            self._index(record["key"].encode(), record["replay"].encode(), place)

    def refresh(self) -> None:
        """Take up what other processes have appended since the last reading; only new bytes are read."""
        if not self.folder.is_dir():
            return
        for path in sorted(self.folder.glob("*.jsonl")):
            if path not in self._own and path.stat().st_size > self._read.get(path, 0):
                self._take(path)

    def close(self) -> None:
        """Close this process's file."""
        self._lines.close()

    def __len__(self) -> int:
        return len(self._places)

    def _record(self, backend: Backend, request: Request, reply: Reply) -> dict[str, Any]:
        """The record of a reply; `key` and `replay` come first, which is where reading looks for them."""
        content = asked(request)
        hashed = digest(content)
        key, replay = _keys(backend, hashed)
        record: dict[str, Any] = {"key": key, "replay": replay, "request": hashed}
        record |= {"task": request.task, "subject": request.subject}
        record |= {"endpoint": backend.endpoint, "model": backend.model, "parameters": backend.parameters}
        return record | (content if self.requests else {}) | {"reply": asdict(reply)}

    def _take(self, path: Path) -> None:
        offset = self._read.get(path, 0)
        with path.open("rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._take_line(line[:-1], path, offset)
                offset += len(line)
        self._read[path] = offset

    def _take_line(self, line: bytes, path: Path, offset: int) -> None:
        key, replay = len(_START), len(_START) + _DIGEST + len(_REPLAY)
        if line.startswith(_START) and line[key + _DIGEST : replay] == _REPLAY and line.endswith(b"}"):
            self._index(line[key : key + _DIGEST], line[replay : replay + _DIGEST], (path, offset, len(line)))
        else:
            self._damage(path, offset)

    def _index(self, key: bytes, replay: bytes, place: tuple[Path, int, int]) -> None:
        self._places.setdefault(key, []).append(place)
        self._replays.setdefault(replay, []).append(place)

    def _replies(self, index: dict[bytes, list[tuple[Path, int, int]]], key: str) -> Iterator[Stored]:
        for place in sorted(index.get(key.encode(), ()), reverse=True):
            stored = self._load(*place)
            if stored is None:
                index[key.encode()].remove(place)
            else:
                yield stored

    def _load(self, path: Path, offset: int, length: int) -> Stored | None:
        try:
            with path.open("rb") as file:
                file.seek(offset)
                record = json.loads(file.read(length))
            return Stored(Reply(**record["reply"]), record["parameters"])
        except (OSError, ValueError, KeyError, TypeError):
            self._damage(path, offset)
            return None

    def _damage(self, path: Path, offset: int) -> None:
        self.damaged += 1
        logger.warning("%s, byte %d: no whole record, passed over; its request is asked again", path, offset)

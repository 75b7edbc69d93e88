"""Reading the file that wandb writes offline: LevelDB's log format, with wandb's own records in it."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

_BLOCK, _HEADER, _FILE_HEADER = 32768, 7, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def payloads(data: bytes) -> list[bytes]:
    """Return the records in a log: fragments of one are joined."""
    found, held, at = [], b"", _FILE_HEADER
    while at + _HEADER <= len(data):
        if _BLOCK - at % _BLOCK < _HEADER:
            at += _BLOCK - at % _BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + _HEADER])
        part = data[at + _HEADER : at + _HEADER + length]
        assert kind in (_FULL, _FIRST, _MIDDLE, _LAST), f"byte {at}: kind {kind}"
        held = part if kind in (_FULL, _FIRST) else held + part
        if kind in (_FULL, _LAST):
            found.append(held)
        at += _HEADER + length
    return found


def nested(items: Any) -> dict[str, Any]:
    """Return items with keys of one or several parts as a tree."""
    tree: dict[str, Any] = {}
    for item in items:
        keys = list(item.nested_key) or [item.key]
        place = tree
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = json.loads(item.value_json)
    return tree


class Offline:
    """What one offline run holds."""

    def __init__(self, path: Path) -> None:
        from wandb.proto.wandb_internal_pb2 import Record

        self.path = path
        self.raw = path.read_bytes()
        self.kinds: list[str] = []
        self.config: dict[str, Any] = {}
        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.artifacts: dict[str, list[str]] = {}
        self.exit_code: int | None = None
        for payload in payloads(self.raw):
            record = Record()
            record.ParseFromString(payload)
            kind = record.WhichOneof("record_type")
            self.kinds.append(kind)
            self._take(kind, record)

    def _take(self, kind: str, record: Any) -> None:
        if kind == "run":
            self.run = record.run
            self._configure(record.run.config)
        elif kind == "config":
            self._configure(record.config)
        elif kind == "history":
            self.history.append(nested(record.history.item))
        elif kind == "summary":
            self.summary |= {i.key or ".".join(i.nested_key): json.loads(i.value_json) for i in record.summary.update}
        elif kind == "artifact":
            self.artifacts[record.artifact.name] = [entry.path for entry in record.artifact.manifest.contents]
        elif kind == "exit":
            self.exit_code = record.exit.exit_code

    def _configure(self, update: Any) -> None:
        for item in update.update:
            self.config[item.key or ".".join(item.nested_key)] = json.loads(item.value_json)

    @property
    def steps(self) -> list[int]:
        return [row["_step"] for row in self.history]

    def table(self, name: str) -> dict[str, Any]:
        """Return a table's columns and data."""
        told = next(row[f"table/{name}"] for row in self.history if f"table/{name}" in row)
        return json.loads((self.path.parent / "files" / told["path"]).read_text())


def offline_runs(folder: Path) -> list[Offline]:
    """Return the offline runs in a run folder."""
    return [Offline(path) for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))]

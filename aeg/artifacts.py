"""Artifacts: the folders in which stages keep their results, named by a fingerprint of what went in."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from aeg.errors import DataError

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Artifact:
    """One stage's folder; it is complete when its `manifest.json` is there (written last, by rename)."""

    path: Path
    stage: str
    fingerprint: str
    inputs: Mapping[str, Any]

    @property
    def complete(self) -> bool:
        """Whether the stage ran to its end."""
        return (self.path / MANIFEST).is_file()

    def finish(self, **facts: Any) -> None:
        """Write the manifest: the stage is complete from now on.

        Args:
            facts: whatever is worth knowing later (counts, seconds).
        """
        content = {"stage": self.stage, "format": FORMAT, "inputs": self.inputs, "facts": facts}
        write_text(self.path / MANIFEST, json.dumps(content, indent=1, sort_keys=True, default=str) + "\n")

    def facts(self) -> dict[str, Any]:
        """Return what `finish` was given."""
        return read_json(self.path / MANIFEST)["facts"]

    def journal(self) -> Path:
        """Return this process's journal: an append-only file that no other process writes to."""
        return self.path / f"journal-{socket.gethostname()}-{os.getpid()}.jsonl"

    def journalled(self) -> Iterator[dict[str, Any]]:
        """Yield the records of all journals; a line cut off by an interruption is passed over."""
        for file in sorted(self.path.glob("journal-*.jsonl")):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    yield json.loads(line)
                except json.JSONDecodeError:
                    continue

    def drop_journals(self) -> None:
        """Delete the journals, once what they hold is in the artifact's own files."""
        for file in self.path.glob("journal-*.jsonl"):
            file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Store:
    """The folder that holds all artifacts, shared by runs and processes."""

    root: Path

    def artifact(self, stage: str, **inputs: Any) -> Artifact:
        """Return the artifact of `stage` for these inputs, its folder made.

        Args:
            stage: the stage's name.
            inputs: everything the result depends on, as plain values: fingerprints of earlier stages, the
                stage's part of the config, hashes of code, weights and files. Never a path.
        """
        name = fingerprint({"stage": stage, "format": FORMAT, **inputs})
        folder = self.root / stage / name[:32]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"{folder}: cannot be made ({error.strerror}); set artifacts_dir to a writable folder"
            ) from None
        return Artifact(folder, stage, name, inputs)


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of a plain value's canonical JSON.

    Example:
        >>> fingerprint({"b": 1, "a": [2]}) == fingerprint({"a": [2], "b": 1})
        True
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's content.

    Raises:
        DataError: if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; check the path and data_root") from None


def code_hash(*parts: ModuleType | object) -> str:
    """Return a hash of the source files of modules, and of the classes of instances with their bases.

    Only files of this package and of plugins count; a class's bases in the package are followed, so that editing
    one method's file changes the hash of what that method made and of nothing else.
    """
    files: set[str] = set()
    for part in parts:
        classes = [] if isinstance(part, ModuleType) else type(part).__mro__
        modules = [part] if isinstance(part, ModuleType) else [sys.modules[c.__module__] for c in classes]
        files.update(f for m in modules if m.__name__ != "builtins" and (f := getattr(m, "__file__", None)))
    standard = str(Path(inspect.__file__).parent)
    own = [Path(f) for f in files if not f.startswith(standard)]
    return fingerprint(sorted((path.name, file_hash(path)) for path in own))


def write_text(path: Path, text: str) -> None:
    """Write a file by rename, so that a reader sees the old or the new content, never a part."""
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        DataError: if the file is missing or not valid JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}: not valid JSON ({error.msg})") from None

"""Artifacts: the folders in which stages keep their results, named by a fingerprint of what went in."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import socket
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from aeg.claims import Claim
from aeg.core.atomic import replacing
from aeg.errors import DataError

FORMAT = 1
MANIFEST = "manifest.json"
CLAIM = "claim"


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

    @contextmanager
    def claimed(self, report: Callable[[str], None] | None = None) -> Iterator[None]:
        """Hold the claim to make the artifact for the block, unless it is complete when the block begins.

        Whoever else is at it is waited for. The block must look at `complete` itself, and build where it is not. Two
        that build in spite of it (see `aeg.claims`) write the same files by rename.

        Args:
            report: told whom one waits for.

        Raises:
            DataError: if the folder cannot be written.
        """
        claim = Claim(self.path / CLAIM, report, f"{self.stage} {self.fingerprint[:8]}")
        try:
            if claim.acquire(done=lambda: self.complete) and self.complete:
                claim.release()
            yield
        finally:
            claim.release()

    def facts(self) -> dict[str, Any]:
        """Return what `finish` was given."""
        return read_json(self.path / MANIFEST)["facts"]

    def journal(self) -> Path:
        """Return a journal of its own: an append-only file that nobody writes to or went on writing to before."""
        return self.path / f"journal-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"

    def journalled(self) -> Iterator[dict[str, Any]]:
        """Yield the records of all journals; a line cut off by an interruption is passed over."""
        for records in self.journals():
            yield from records

    def journals(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the records of each journal."""
        for file in sorted(self.path.glob("journal-*.jsonl")):
            records = []
            for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
                with suppress(json.JSONDecodeError):
                    records.append(json.loads(line))
            yield records

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
        folder = self.folder(stage, name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"{folder}: cannot be made ({error.strerror}); set artifacts_dir to a writable folder"
            ) from None
        return Artifact(folder, stage, name, inputs)

    def folder(self, stage: str, name: str) -> Path:
        """Return where the artifact of `stage` with this fingerprint lies, or would lie."""
        return self.root / stage / name[:32]


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
    """Return a hash of the source files that modules, or the classes of methods, consist of.

    Imports are followed inside the package (not into the config machinery, and not through a package's
    `__init__`), so that editing one method's file changes the hash of what that method made and of nothing else.
    """
    names: set[str] = set()
    waiting = [module for part in parts for module in _modules(part)]
    files: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        path = None if name in names else _source(name)
        names.add(name)
        if path is not None:
            files[name] = path
            waiting.extend(_imported(path))
    return fingerprint([[name, file_hash(files[name])] for name in sorted(files)])


_NO_RESULT = (
    *("aeg.config.", "aeg.registry", "aeg.errors", "aeg.core.progress", "aeg.artifacts"),
    *("aeg.backends.memory", "aeg.backends.group"),
    *(f"aeg.backends.llm.{name}" for name in ("cache", "ledger", "lines", "sender")),
)


def _modules(part: ModuleType | object) -> list[str]:
    if isinstance(part, ModuleType):
        return [part.__name__]
    return [c.__module__ for c in type(part).__mro__ if c.__module__.split(".")[0] not in sys.stdlib_module_names]


def _source(name: str) -> Path | None:
    """The file of a module; None for a package, for what decides no result, and for what has no source."""
    if name.startswith(_NO_RESULT):
        return None
    loaded = sys.modules.get(name)
    origin = getattr(loaded, "__file__", None) if loaded else getattr(_spec(name), "origin", None)
    return None if origin is None or Path(origin).name == "__init__.py" else Path(origin)


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


def _imported(path: Path) -> tuple[str, ...]:
    """Modules of this package that a source file imports, in functions too."""
    stat = path.stat()
    return _imports(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4096)
def _imports(path: Path, *_: int) -> tuple[str, ...]:
    return tuple(_read_imports(path))


def _read_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "aeg":
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "aeg")


def write_text(path: Path, text: str) -> None:
    """Write a file by rename, so that a reader sees the old or the new content, never a part."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


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

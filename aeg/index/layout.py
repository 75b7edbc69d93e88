"""The files of an index: immutable generations, and one pointer to the current one, swapped by rename.

- `index.json`: the pointer: which generation, and the config that it was built with;
- `generations/NAME/`: one whole state: documents, passages, extraction, graph; renamed into place, never changed;
- `claim`: who is changing the index;
- `extraction/`, `embeddings/`, `llm/`: working files of the one who is.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aeg.artifacts import read_json, write_text
from aeg.core.atomic import replacing
from aeg.errors import DataError

FORMAT = 2
POINTER = "index.json"
GENERATIONS = "generations"
MANIFEST = "manifest.json"
_WORK = ("extraction", "embeddings")
_FIRST_FORMAT = (*_WORK, "graph", "queries")
_TRIES = 100

T = TypeVar("T")


@dataclass(frozen=True)
class View:
    """One state of an index, as its pointer named it at one moment.

    Attributes:
        folder: of the index.
        generation: name of the generation.
        content: the pointer's content.
    """

    folder: Path
    generation: str
    content: Mapping[str, Any]

    @property
    def path(self) -> Path:
        """The folder of the generation."""
        return self.folder / GENERATIONS / self.generation

    @property
    def texts(self) -> bool:
        """Whether the index holds its documents' texts, which changing it takes."""
        return bool(self.content.get("text", True))


def current(folder: Path) -> View:
    """Return the current state of the index in `folder`.

    Raises:
        DataError: if there is no index, its building was interrupted, or it has another format.
    """
    view = current_or_none(folder)
    if view is not None:
        return view
    if any((folder / name).is_dir() for name in (GENERATIONS, *_FIRST_FORMAT)):
        raise DataError(f"{folder}: index incomplete; run the same `aeg index` again, it goes on where it stopped")
    raise DataError(f"{folder}: no index here; build one with `aeg index PATH --out {folder}`")


def current_or_none(folder: Path) -> View | None:
    """Return the current state of the index in `folder`, None where no build was finished.

    Raises:
        DataError: if it is damaged or has another format.
    """
    file = folder / POINTER
    if not file.is_file():
        return None
    content = read_json(file)
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise DataError(
            f"{file}: got format {found}, expected {FORMAT}; build the index again: `aeg index PATH --out {folder}`"
        )
    return View(folder, str(content["generation"]), content)


def reading(folder: Path, read: Callable[[View], T]) -> T:
    """Return `read(view)` of one consistent state; what is read stays whole while the index is being changed.

    Files that are open or mapped stay readable whatever happens. Where a file was deleted before it could be
    opened, because the index changed twice meanwhile, everything is read again from the new state.

    Raises:
        DataError: if there is no index, or a file is missing or damaged.
    """
    view = current(folder)
    for _ in range(_TRIES):
        try:
            return read(view)
        except (DataError, FileNotFoundError):
            now = current(folder)
            if now.generation == view.generation and view.path.is_dir():
                raise
            view = now
    return read(view)


def files(folder: Path) -> list[str]:
    """Return the files of an index's current state, relative to its folder; the pointer comes last."""
    view = current(folder)
    return [f"{GENERATIONS}/{view.generation}/{path.name}" for path in sorted(view.path.iterdir())] + [POINTER]


@contextmanager
def making(folder: Path, name: str) -> Iterator[Path]:
    """Give a temporary folder, which becomes the generation `name` when the block ends well.

    A generation of that name, which must not be the current one, is replaced.
    """
    temporary = folder / GENERATIONS / f".{name}.{socket.gethostname()}-{os.getpid()}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        _delete(folder / GENERATIONS / name)
        temporary.rename(folder / GENERATIONS / name)
    except OSError as error:
        raise DataError(f"{error.filename or temporary}: {error.strerror}; an index needs a writable folder") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def publish(folder: Path, generation: str, facts: Mapping[str, Any]) -> None:
    """Make a generation the current one, then delete what no reader needs any more.

    The generation that was current before stays: a reader may have read the pointer just now.
    """
    before = _generation(folder)
    content = {"format": FORMAT, "generation": generation, **facts}
    write_text(folder / POINTER, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    sweep(folder, {generation, before})


def sweep(folder: Path, keep: set[str]) -> None:
    """Delete all generations but some, and what killed writers left; call it under the claim only."""
    for path in (folder / GENERATIONS).iterdir():
        if path.name not in keep:
            _delete(path)
    for path in folder.glob(f".{POINTER}.*.tmp"):
        path.unlink(missing_ok=True)


def drop_work(folder: Path) -> None:
    """Delete the working files, once what they hold is in a generation; replies of language models stay."""
    for name in _WORK:
        shutil.rmtree(folder / name, ignore_errors=True)


def drop_first_format(folder: Path) -> None:
    """Delete the graph of an index of the first format, once it has been built again."""
    for name in _FIRST_FORMAT:
        shutil.rmtree(folder / name, ignore_errors=True)


def write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Write the manifest of the generation in `folder`."""
    with replacing(folder / MANIFEST) as temporary:
        temporary.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _delete(path: Path) -> None:
    """Delete a generation, or a part of one; whoever finds a generation by its name finds it whole."""
    if not path.name.startswith(".") and path.exists():
        gone = path.with_name(f".{path.name}.gone")
        shutil.rmtree(gone, ignore_errors=True)
        path = path.rename(gone)
    shutil.rmtree(path, ignore_errors=True)


def _generation(folder: Path) -> str:
    """Name of the current generation; empty where there is none, or one of another format."""
    try:
        return str(read_json(folder / POINTER).get("generation", ""))
    except (DataError, AttributeError):
        return ""

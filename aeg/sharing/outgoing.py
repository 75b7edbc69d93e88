"""Exporting an index: one archive that another machine can check and query."""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aeg
from aeg.core.atomic import replacing
from aeg.core.progress import progress_bar
from aeg.errors import DataError
from aeg.experiment.manifest import versions
from aeg.experiment.provenance import plugin_hashes
from aeg.index.layout import POINTER, View, reading
from aeg.sharing.archive import BLOCK, write
from aeg.sharing.manifest import MANIFEST, Manifest, Member
from aeg.sharing.names import check_paths
from aeg.sharing.places import harmless, portable
from aeg.sharing.redaction import has_text, is_dropped, without_text


def export_index(folder: Path, file: Path, licence: str | None = None, text: bool = True) -> Manifest:
    """Write an index as one archive, and return what the archive says of itself.

    The same index, licence and library versions give the same bytes. An index that is updated meanwhile is exported
    as it was before or after the update.

    Args:
        folder: of the index.
        file: the archive; must not exist.
        licence: the terms on which the archive may be used; None keeps those of an index that was imported.
        text: False empties the texts and titles of passages and atoms. Ids, spans, vectors, and the names of entities
            stay.

    Raises:
        DataError: if there is no index, `file` exists or cannot be written.
    """
    if file.exists() or file.is_symlink():
        raise DataError(f"{file}: exists already; give another name, or remove it")
    if not file.parent.is_dir():
        raise DataError(f"{file.parent}: no such folder; make it first")
    try:
        return reading(folder, lambda view: _export(view, file, licence, text and view.texts))
    except FileNotFoundError as error:
        raise DataError(f"{error.filename}: {error.strerror}; export again, or build the index again") from None


def _export(view: View, file: Path, licence: str | None, text: bool) -> Manifest:
    try:
        with replacing(file) as temporary, tempfile.TemporaryDirectory(dir=file.parent, prefix=".aeg-export-") as rest:
            sources = _sources(view, Path(rest), text)
            check_paths(sources, str(view.folder))
            total = 2 * sum(path.stat().st_size for path in sources.values())
            with progress_bar(total, "export", "B") as bar:
                members = {_member(path, sources[path], bar.update): sources[path] for path in sorted(sources)}
                manifest = _manifest(view, tuple(members), licence, text)
                write(temporary, manifest.to_bytes(), members, bar.update)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DataError(
            f"{file}: cannot be written ({error.strerror}); give a place with room, where you may"
        ) from None
    return manifest


def _paths(view: View, text: bool) -> list[str]:
    """The files of one generation, relative to the index."""
    paths = [path.relative_to(view.folder).as_posix() for path in sorted(view.path.iterdir())]
    return [path for path in paths if text or not is_dropped(path)]


def _sources(view: View, rest: Path, text: bool) -> dict[str, Path]:
    """The file of each member; those that are rewritten lie in `rest`."""
    pointer = {**view.content, "config": harmless(view.content["config"])[0], "text": text}
    (rest / POINTER).write_text(json.dumps(pointer, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    sources = {POINTER: rest / POINTER}
    for number, path in enumerate(_paths(view, text)):
        sources[path] = view.folder / path
        if not text and has_text(path):
            sources[path] = rest / f"{number}"
            without_text(view.folder / path, sources[path])
    return sources


def _manifest(view: View, members: tuple[Member, ...], licence: str | None, text: bool) -> Manifest:
    config = view.content["config"]
    earlier = imported(view.folder)
    return Manifest(
        index_format=view.content["format"],
        text=text,
        licence=licence if licence is not None else (earlier or {}).get("licence"),
        aeg=aeg.__version__,
        python=platform.python_version(),
        libraries=versions(),
        config=portable(config)[0],
        cut={**portable(config)[1], **harmless(config)[1]},
        plugins=tuple(plugin_hashes(config.get("plugins", []))),
        members=members,
    )


def imported(folder: Path) -> dict[str, Any] | None:
    """Return what the archive said that an index was imported from; None for one that was built here."""
    file = folder / MANIFEST
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def _member(path: str, source: Path, advance: Callable[[int], object]) -> Member:
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
            size += len(block)
            advance(len(block))
    return Member(path, size, digest.hexdigest())

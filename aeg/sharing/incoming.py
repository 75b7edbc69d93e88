"""Importing an index: an archive is checked as a whole before anything of it can be seen."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

from aeg.core.files import quoted
from aeg.core.progress import progress_bar
from aeg.errors import DataError
from aeg.index.layout import FORMAT, POINTER, current, files
from aeg.sharing.archive import Opened, opened
from aeg.sharing.manifest import MANIFEST, Manifest
from aeg.sharing.places import check_harmless


def import_index(file: Path, folder: Path) -> Manifest:
    """Unpack an archive of `export_index` into a new folder, and return what it says of itself.

    The archive is unpacked into a temporary folder beside `folder`, checked in full, and moved by rename: `folder`
    is there whole, or not at all. Nothing is written elsewhere, and nothing from the archive is run or imported.

    Raises:
        DataError: if `folder` exists or cannot be made; if the archive is damaged, of another format, not what its
            manifest says, or holds anything that is not an index's data.
    """
    if folder.exists() or folder.is_symlink():
        raise DataError(f"{folder}: exists already; give another folder, or remove it")
    with opened(file) as archive:
        manifest = archive.manifest
        if manifest.index_format != FORMAT:
            raise DataError(
                f"{file}: got an index of format {manifest.index_format}, expected {FORMAT}; "
                f"{'install a newer aeg' if manifest.index_format > FORMAT else 'have it exported anew'}"
            )
        _unpack(archive, folder)
    return manifest


def _unpack(archive: Opened, folder: Path) -> None:
    temporary = folder.with_name(f".{folder.name[:100]}.{socket.gethostname()[:60]}-{os.getpid()}.import")
    try:
        temporary.mkdir()
        _check_room(archive, temporary)
        with progress_bar(sum(member.size for member in archive.manifest.members), "import", "B") as bar:
            archive.extract(temporary, bar.update)
        _check_index(archive, temporary)
        (temporary / MANIFEST).write_bytes(archive.manifest_bytes())
        if folder.exists() or folder.is_symlink():
            raise DataError(f"{folder}: was made meanwhile; give another folder, or remove it")
        temporary.rename(folder)
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be made ({error.strerror}); give a folder on a disk with room, where you may write"
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check_room(archive: Opened, folder: Path) -> None:
    needed, free = sum(member.size for member in archive.manifest.members), shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(f"{archive.path}: unpacks to {needed:,} bytes, {free:,} are free at {folder.parent}; make room")


def _check_index(archive: Opened, folder: Path) -> None:
    """Check that the unpacked files are an index, all of it and nothing else, and that reading it is harmless."""
    where = f"{archive.path}, {POINTER}"
    if not (folder / POINTER).is_file():
        raise DataError(f"{archive.path}: holds no {POINTER}; give a file made by `aeg export`")
    try:
        view, needed = current(folder), set(files(folder))
    except (DataError, KeyError, TypeError, ValueError, RecursionError, OSError) as error:
        cause = str(error) if isinstance(error, DataError) else type(error).__name__
        raise DataError(f"{where}: names no index ({quoted(cause)[1:-1]}); refused, get the archive again") from None
    if view.texts != archive.manifest.text:
        raise DataError(f"{where}: whether there are texts is not what {MANIFEST} says; refused")
    check_harmless(view.content.get("config"), where)
    odd = needed ^ {member.path for member in archive.manifest.members}
    if odd:
        raise DataError(f"{where}: does not fit the archive's files ({quoted(min(odd))} is the first); refused")

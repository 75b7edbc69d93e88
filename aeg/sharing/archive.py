"""The archive file: a ZIP whose members are stored as they are, the manifest first.

Why ZIP: its directory is read before any content, a member cannot be a hard link, and every system opens it. Why
stored: nine tenths of an index are float32 vectors, which deflate to 90 %; stored members give the same bytes whatever
the version of zlib, and none can unfold to more than the archive holds.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from aeg.core.files import quoted
from aeg.errors import DataError
from aeg.sharing.manifest import MANIFEST, Manifest, Member, parse
from aeg.sharing.names import check_entry, check_paths

BLOCK = 1 << 20  # bytes that are held at a time
_MOST_MEMBERS, _MOST_MANIFEST = 100_000, 64 << 20
_FIRST_BYTES = b"PK\x03\x04"
_DAMAGED = (BadZipFile, EOFError, OSError, RuntimeError, ValueError, OverflowError, struct.error)  # of Python's zipfile


@dataclass(frozen=True)
class Opened:
    """An archive whose directory and manifest have been checked; its members' content has not."""

    path: Path
    manifest: Manifest
    zip: ZipFile

    def extract(self, folder: Path, advance: Callable[[int], object]) -> None:
        """Write every member below `folder`, and check it against the manifest.

        Args:
            folder: empty.
            advance: called with the number of bytes of each block.

        Raises:
            DataError: if a member is shorter, longer or other than the manifest says, or cannot be written.
        """
        for member in self.manifest.members:
            target = folder.joinpath(*member.path.split("/"))
            _write(_blocks(self.zip, member.path, self.path), target, member, str(self.path), advance)

    def manifest_bytes(self) -> bytes:
        """Return the manifest as it stands in the archive."""
        with _told(self.path):
            return self.zip.read(MANIFEST)


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open an archive, its directory and manifest checked; nothing is written.

    Raises:
        DataError: if it is no archive, cut off or damaged, or anything in it is not what `write` puts there.
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a file made by `aeg export`") from None
    with stream:
        try:
            start = stream.read(len(_FIRST_BYTES))
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); give a file made by `aeg export`") from None
        if start != _FIRST_BYTES:
            raise DataError(f"{path}: not an archive; give a file made by `aeg export`, as it was made")
        with _told(path):
            archive = ZipFile(stream)
        with archive:
            yield Opened(path, _checked(archive, path), archive)


def write(path: Path, manifest: bytes, sources: Mapping[Member, Path], advance: Callable[[int], object]) -> None:
    """Write an archive; the same members give the same bytes.

    Args:
        path: of the archive.
        manifest: its content.
        sources: the file of each member, in the manifest's order.
        advance: called with the number of bytes of each block.

    Raises:
        DataError: if a file is no longer what its member says.
    """
    with ZipFile(path, "w", ZIP_STORED) as archive:
        archive.writestr(_entry(MANIFEST, len(manifest)), manifest)
        for member, source in sources.items():
            with source.open("rb") as stream, archive.open(_entry(member.path, member.size), "w") as target:
                digest, size = hashlib.sha256(), 0
                while block := stream.read(BLOCK):
                    size += len(block)
                    if size > member.size:
                        break
                    digest.update(block)
                    target.write(block)
                    advance(len(block))
            if (size, digest.hexdigest()) != (member.size, member.sha256):
                raise DataError(f"{source}: was changed while it was being exported; export again")


def _entry(path: str, size: int) -> ZipInfo:
    entry = ZipInfo(path, (1980, 1, 1, 0, 0, 0))
    entry.create_system, entry.external_attr, entry.file_size = 3, 0o100644 << 16, size
    return entry


def _checked(archive: ZipFile, path: Path) -> Manifest:
    where, entries = str(path), archive.infolist()
    if len(entries) > _MOST_MEMBERS:
        raise DataError(f"{where}: has {len(entries):,} members, expected at most {_MOST_MEMBERS:,}; refused")
    for entry in entries:
        check_entry(entry, where)
    check_paths((entry.filename for entry in entries), where)
    declared, size = sum(entry.file_size for entry in entries), path.stat().st_size
    if declared > size:
        raise DataError(
            f"{where}: its members claim {declared:,} bytes, and the archive has {size:,}: they overlap, or their "
            "sizes are made up; refused, nothing was written"
        )
    sizes = {entry.filename: entry.file_size for entry in entries}
    if MANIFEST not in sizes:
        raise DataError(f"{where}: has no {MANIFEST}; give a file made by `aeg export`")
    if sizes.pop(MANIFEST) > _MOST_MANIFEST:
        raise DataError(f"{where}: {MANIFEST} is larger than {_MOST_MANIFEST:,} bytes; refused")
    with _told(path):
        raw = archive.read(MANIFEST)
    manifest = parse(raw, f"{where}, {MANIFEST}")
    check_paths((member.path for member in manifest.members), f"{where}, {MANIFEST}")
    _compare(sizes, {member.path: member.size for member in manifest.members}, where)
    return manifest


def _compare(there: Mapping[str, int], listed: Mapping[str, int], where: str) -> None:
    """Check that the archive holds what its manifest lists, and nothing else."""
    for names, what in (
        (sorted(set(listed) - set(there)), "lacks {}, which its manifest lists"),
        (sorted(set(there) - set(listed)), "holds {}, which its manifest does not list"),
    ):
        if names:
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            raise DataError(f"{where}: {what.format(quoted(names[0]) + more)}; refused, get the archive again")
    for name, size in listed.items():
        if there[name] != size:
            raise DataError(
                f"{where}: {quoted(name)} has {there[name]:,} bytes, its manifest says {size:,}; refused, get the "
                "archive again"
            )


def _blocks(archive: ZipFile, name: str, path: Path) -> Iterator[bytes]:
    with _told(path):
        source = archive.open(name)
    with source:
        while True:
            with _told(path):
                block = source.read(BLOCK)
            if not block:
                return
            yield block


def _write(source: Iterator[bytes], target: Path, member: Member, where: str, advance: Callable[[int], object]) -> None:
    digest, size = hashlib.sha256(), 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            for block in source:
                size += len(block)
                if size > member.size:
                    break
                digest.update(block)
                file.write(block)
                advance(len(block))
    except OSError as error:
        raise DataError(f"{target}: cannot be written ({error.strerror}); give a folder on a disk with room") from None
    if (size, digest.hexdigest()) != (member.size, member.sha256):
        raise DataError(
            f"{where}: {quoted(member.path)} has {size:,} bytes with SHA-256 {digest.hexdigest()[:16]}..., its "
            f"manifest says {member.size:,} with {member.sha256[:16]}...; refused, get the archive again"
        )


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Tell in one line what Python's reader of ZIP files raises on a damaged one."""
    try:
        yield
    except _DAMAGED as error:
        cause = quoted(str(error))[1:-1] or type(error).__name__
        raise DataError(f"{path}: cut off or damaged ({cause}); get the archive again") from None

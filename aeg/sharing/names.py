"""Paths inside an archive: relative, portable, and no two of them the same on any file system."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from stat import S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, S_IFREG, S_IFSOCK
from zipfile import ZIP_STORED, ZipInfo

from aeg.core.files import quoted
from aeg.errors import DataError

_PART, _WHOLE = 255, 1024  # bytes of a path's part, and of the path
_SUFFIXES = (".json", ".jsonl", ".parquet", ".safetensors")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_ENCRYPTED, _LINKS = 0x1, 0x000D  # flag of a ZIP entry; extra field that can hold a link's target or a device
_KINDS = {
    S_IFLNK: "a symbolic link",
    S_IFBLK: "a block device",
    S_IFCHR: "a character device",
    S_IFIFO: "a pipe",
    S_IFSOCK: "a socket",
    S_IFDIR: "a folder",
}


def fault(path: str) -> str | None:
    """Return why a path may not stand in an archive; None where it may.

    Example:
        >>> fault("graph/atoms.parquet") is None, fault("../index.json"), fault("C:/index.json")
        (True, "leads out of its folder ('..')", "has a character that file systems forbid or a drive letter (':')")
    """
    parts = path.split("/")
    bad = re.search(r'[\x00-\x1f\x7f<>:"|?*]', path)
    reasons = (
        ("is empty", not path),
        ("is absolute", path.startswith("/")),
        ("has a backslash, which separates folders on Windows", "\\" in path),
        (f"has a character that file systems forbid or a drive letter ({bad.group()!a})" if bad else "", bad),
        ("leads out of its folder ('..')", ".." in parts),
        ("has an empty part or one that is '.'", "" in parts or "." in parts),
        ("is not valid Unicode in its composed form", not _composed(path)),
        (f"is overlong (over {_PART} bytes in a part, or {_WHOLE} in all)", _overlong(parts)),
        ("has a name that Windows reserves", any(_RESERVED.fullmatch(part) for part in parts)),
        ("has a part that ends with a dot or a space", any(part[-1:] in (".", " ") for part in parts)),
        (f"is no data file of an index ({', '.join(_SUFFIXES)})", PurePosixPath(path).suffix not in _SUFFIXES),
    )
    return next((reason for reason, found in reasons if found), None)


def check_paths(paths: Iterable[str], where: str) -> None:
    """Check that every path may stand in an archive, and that they differ on every file system.

    Args:
        paths: relative, with `/` between their parts.
        where: what they stand in, for the error.

    Raises:
        DataError: at the first that may not: unsafe, given twice, equal but for case, or both a file and a folder.
    """
    seen: dict[str, str] = {}
    for path in paths:
        reason = fault(path)
        if reason:
            raise DataError(f"{where}: the path {quoted(path)} {reason}; refused, nothing was written")
        folded = path.casefold()
        if folded in seen:
            how = "is there twice" if seen[folded] == path else f"differs from {quoted(seen[folded])} only in case"
            raise DataError(f"{where}: the path {quoted(path)} {how}; refused, nothing was written")
        seen[folded] = path
    _check_folders(seen, where)


def check_entry(entry: ZipInfo, where: str) -> None:
    """Check that an entry of a ZIP file is a plain, uncompressed, unencrypted file.

    Raises:
        DataError: if it is a link, a device, a folder, compressed or encrypted, or its name hides something.
    """
    kind = S_IFMT(entry.external_attr >> 16)
    special = kind not in (0, S_IFREG) or entry.is_dir()
    reasons = (
        ("has a zero byte in its name", entry.orig_filename != entry.filename),
        (f"is {_KINDS.get(kind, 'a folder' if entry.is_dir() else 'a special file')}, not a file", special),
        ("may be a link or a device (extra field 0x000d), not a file", _has_links(entry.extra)),
        ("is encrypted", entry.flag_bits & _ENCRYPTED),
        (
            "is compressed; `aeg export` stores its members as they are, so that none can unfold to more than it holds",
            entry.compress_type != ZIP_STORED or entry.compress_size != entry.file_size,
        ),
    )
    for reason, found in reasons:
        if found:
            raise DataError(f"{where}: the member {quoted(entry.orig_filename)} {reason}; refused, nothing was written")


def _composed(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return unicodedata.is_normalized("NFC", path)


def _overlong(parts: list[str]) -> bool:
    sizes = [len(part.encode(errors="replace")) for part in parts]
    return max(sizes) > _PART or sum(sizes) + len(sizes) - 1 > _WHOLE


def _check_folders(seen: Mapping[str, str], where: str) -> None:
    spelled: dict[str, PurePosixPath] = {}
    for folded, path in seen.items():
        folders = list(PurePosixPath(path).parents)[:-1]
        for lower, folder in zip(PurePosixPath(folded).parents, folders, strict=False):
            if str(lower) in seen:
                raise DataError(
                    f"{where}: {quoted(seen[str(lower)])} is a file, and the folder of {quoted(path)}; refused"
                )
            if spelled.setdefault(str(lower), folder) != folder:
                both = f"{quoted(str(spelled[str(lower)]))} and {quoted(str(folder))}"
                raise DataError(f"{where}: the folders {both} differ only in case; refused, nothing was written")


def _has_links(extra: bytes) -> bool:
    while len(extra) >= 4:
        kind, size = int.from_bytes(extra[:2], "little"), int.from_bytes(extra[2:4], "little")
        if kind == _LINKS:
            return True
        extra = extra[4 + size :]
    return False

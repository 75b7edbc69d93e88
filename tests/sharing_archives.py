"""Archives made by hand, for tests of what an import refuses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

Manifest = dict[str, Any]


def members(archive: Path) -> dict[str, bytes]:
    """The members of a good archive, the manifest left out."""
    with ZipFile(archive) as zipped:
        return {name: zipped.read(name) for name in zipped.namelist() if name != "archive.json"}


def manifest(archive: Path) -> Manifest:
    with ZipFile(archive) as zipped:
        return json.loads(zipped.read("archive.json"))


def listed(content: Mapping[str, bytes]) -> list[dict[str, Any]]:
    return [
        {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in content.items()
    ]


def craft(
    path: Path,
    told: Manifest,
    content: Mapping[str, bytes],
    lists: bool = True,
    entry: Callable[[ZipInfo], None] = lambda info: None,
    compression: Mapping[str, int] | None = None,
) -> Path:
    """Write an archive of any members.

    Args:
        path: of it.
        told: its manifest; `lists` puts the members into it.
        content: the members by name.
        entry: changes what the ZIP says of each.
        compression: by name; stored where it is not given.
    """
    whole = {**told, "members": listed(content)} if lists else told
    with ZipFile(path, "w") as zipped:
        zipped.writestr("archive.json", json.dumps(whole))
        for name, data in content.items():
            info = ZipInfo(name)
            info.external_attr = 0o100644 << 16
            info.compress_type = (compression or {}).get(name, ZIP_STORED)
            entry(info)
            zipped.writestr(info, data)
    return path

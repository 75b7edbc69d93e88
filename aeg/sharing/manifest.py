"""The manifest of an archive: what is in it, where it comes from, and on what terms it may be used."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from aeg.core.files import Item, decode, expect, quoted
from aeg.errors import DataError

MANIFEST = "archive.json"
FORMAT = 1
KIND = "aeg index"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Member:
    """One file of an archive: its relative path, its size in bytes and the SHA-256 of its content."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What an archive says of itself.

    Attributes:
        index_format: version of the index's layout.
        text: whether the texts of passages and atoms are in it.
        licence: the terms, as given on export; None where none were given.
        aeg, python, libraries: versions on export.
        config: every setting of the index, with places of the exporter's machine cut to names.
        cut: what was cut or left out of the index's own config, by key, as one line each.
        plugins: `{name, sha256}` of each plugin that the index was built with; None for a module, whose
            source is not looked for.
        members: the files, by path.
    """

    index_format: int
    text: bool
    licence: str | None
    aeg: str
    python: str
    libraries: dict[str, str]
    config: dict[str, Any]
    cut: dict[str, str]
    plugins: tuple[dict[str, str | None], ...]
    members: tuple[Member, ...] = field(repr=False)

    def to_bytes(self) -> bytes:
        """Return the manifest as JSON; equal manifests give equal bytes."""
        content = {"format": FORMAT, "kind": KIND, **asdict(self)}
        return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def parse(raw: bytes, where: str) -> Manifest:
    """Return the manifest that `to_bytes` wrote.

    Args:
        raw: the file's content, which is not trusted.
        where: the file, for errors.

    Raises:
        DataError: if it is not JSON, of another format, or lacks a field.
    """
    try:
        value = json.loads(decode(raw, where))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: broken JSON ({quoted(str(error))[1:-1]}); get the archive again") from None
    item = Item(expect(value, dict, where), where)
    for key, wanted in (("kind", KIND), ("format", FORMAT)):
        got = item.value(key)
        if got != wanted or isinstance(got, bool):
            raise DataError(f"{where}: got {key} {quoted(got)}, expected {wanted!r}; {_remedy(got, wanted)}")
    return Manifest(
        index_format=expect(item.value("index_format"), int, item.place("index_format")),
        text=item.flag("text"),
        licence=None if item.values.get("licence") is None else item.string("licence"),
        aeg=item.string("aeg"),
        python=item.string("python"),
        libraries=_texts(item, "libraries"),
        config=expect(item.value("config"), dict, item.place("config")),
        cut=_texts(item, "cut"),
        plugins=tuple(_plugin(plugin) for plugin in item.items("plugins")),
        members=_members(item.items("members"), where),
    )


def _remedy(got: Any, wanted: Any) -> str:
    newer = isinstance(got, int) and isinstance(wanted, int) and got > wanted
    return "install a newer aeg" if newer else "have it exported anew with `aeg export`"


def _texts(item: Item, key: str) -> dict[str, str]:
    values = expect(item.value(key), dict, item.place(key))
    return {name: expect(value, str, f"{item.place(key)}, {quoted(name)}") for name, value in values.items()}


def _plugin(item: Item) -> dict[str, str | None]:
    digest = item.values.get("sha256")
    return {"name": item.string("name"), "sha256": None if digest is None else item.string("sha256")}


def _members(items: Sequence[Item], where: str) -> tuple[Member, ...]:
    found = []
    for item in items:
        size = expect(item.value("size"), int, item.place("size"))
        digest = item.string("sha256")
        if size < 0 or not _SHA256.fullmatch(digest):
            raise DataError(f"{item.where}: got size {size} and sha256 {quoted(digest)}, expected a size and 64 digits")
        found.append(Member(item.string("path"), size, digest))
    return tuple(found)

"""`aeg import`: unpack an archive of `aeg export`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aeg.cli.terminal import say

if TYPE_CHECKING:
    from aeg.sharing import Manifest

_NOTES = """
Everything is checked before anything can be seen: the archive is unpacked into a temporary folder beside FOLDER, each
file is compared with its SHA-256, and the whole is moved into place. Nothing from the archive is run or imported,
nothing is written elsewhere. The licence and all else that the archive says of itself are kept in FOLDER/archive.json.
The checksums show damage, not who made the archive: an index is only as right as the one who gave it to you.
"""
_LINES = 12


def main(arguments: Sequence[str]) -> int:
    """Unpack the archive, and say what it is and what it needs."""
    parser = argparse.ArgumentParser(
        prog="aeg import",
        description="Check and unpack an archive that `aeg export` made.",
        epilog=_NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="the archive")
    parser.add_argument("folder", type=Path, nargs="?", help="folder to make (default: the archive's name, here)")
    given = parser.parse_args(arguments)
    folder = given.folder or Path(given.file.stem or "index")
    from aeg.sharing import import_index

    manifest = import_index(given.file, folder)
    say(f"index: {folder} ({len(manifest.members):,} files, checked)")
    for line in told(manifest):
        say(printable(line))
    say(f'ask it: aeg query {folder} "..."')
    return 0


def told(manifest: Manifest) -> Iterator[str]:
    """Yield what whoever imports an index should know, a line each."""
    from aeg.experiment.manifest import versions
    from aeg.sharing.places import endpoints

    if manifest.licence is None:
        yield "licence: none is named; ask whoever made the archive before you pass it on"
    else:
        lines = manifest.licence.strip().splitlines() or ["(empty)"]
        yield from (f"licence: {line}" if at == 0 else f"  {line}" for at, line in enumerate(lines[:_LINES]))
        if len(lines) > _LINES:
            yield f"  ... ({len(lines) - _LINES} more lines in archive.json)"
    if not manifest.text:
        yield "without texts: queries print ids; --answer, add, remove and update do not work"
    for plugin in manifest.plugins:
        digest = f" (SHA-256 {plugin['sha256']})" if plugin["sha256"] else ""
        yield (
            f"plugin: the index was built with {plugin['name']}{digest}; it is not in the archive and was not "
            "imported; where its methods are needed, get it, read it, and give plugins=[...]"
        )
    for key, what in sorted(manifest.cut.items()):
        if key != "plugins":
            yield f"{key}: {what}"
    for key, address in endpoints(manifest.config).items():
        if not key.startswith("llm."):
            yield f"{key}: what you ask is sent to {address}"
    here = versions()
    other = [f"{name} {then} (here {here.get(name, 'none')})" for name, then in manifest.libraries.items()]
    other = [
        line for line, (name, then) in zip(other, manifest.libraries.items(), strict=True) if here.get(name) != then
    ]
    if other:
        yield f"made with other versions: {', '.join(other)}"


def printable(line: str) -> str:
    r"""Return a line without control characters, which could write elsewhere on a terminal.

    Example:
        >>> printable("MIT\x1b[2J")
        'MIT?[2J'
    """
    return "".join(character if character.isprintable() else "?" for character in line)

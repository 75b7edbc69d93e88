"""`aeg export`: an index as one archive, to be given to others."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from aeg.cli.terminal import say
from aeg.errors import DataError

_LONGEST = 1 << 20
_NOTES = """
The archive is a ZIP file: the index's files as they are, with relative paths, and archive.json, which has their
SHA-256, the licence, the config, and the versions of aeg, of the index's layout and of the libraries. The same index
and versions give the same bytes. Places of this machine are cut from the config; plugins and language models are
named in archive.json only, so that whoever queries the imported index runs and calls nothing of yours.

--no-text leaves out the texts and titles of documents, passages and atoms. `aeg query` works on what remains and prints
ids instead of texts; --answer, add, remove and update do not. What stays, and tells something of the texts: ids of
documents, character spans, the names of entities (questions are linked by them), the graph, and the vectors. An
atom's id is the SHA-256 of its text, so that whoever guesses a text can confirm it.
"""


def main(arguments: Sequence[str]) -> int:
    """Write the archive, and say what is in it."""
    parser = argparse.ArgumentParser(
        prog="aeg export",
        description="Write an index as one archive, which `aeg import` checks and unpacks.",
        epilog=_NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("index", type=Path, help="folder made by `aeg index`")
    parser.add_argument("file", type=Path, help="the archive, for instance notes.zip; must not exist")
    parser.add_argument("--no-text", action="store_true", help="leave out the texts (see below what stays)")
    parser.add_argument("--licence", metavar="TEXT|FILE", help="the terms of use: a file's text, or the text itself")
    given = parser.parse_args(arguments)
    from aeg.sharing import export_index

    manifest = export_index(given.index, given.file, _licence(given.licence), not given.no_text)
    texts = "with texts" if manifest.text else "without texts"
    say(f"archive: {given.file} ({given.file.stat().st_size:,} bytes, {len(manifest.members):,} files, {texts})")
    for key, what in sorted(manifest.cut.items()):
        say(f"  {key}: {what}")
    if manifest.licence is None:
        say("  no licence is named; name one with --licence, so that others know what they may do")
    say(f"unpack it: aeg import {given.file} FOLDER")
    return 0


def _licence(given: str | None) -> str | None:
    """The text of the file of that name, else the words themselves."""
    if given is None:
        return None
    path = Path(given)
    try:
        there = path.is_file()
    except (OSError, ValueError):  # too long for a file's name, or a zero byte in it
        there = False
    if not there:
        if path.suffix.lower() in (".txt", ".md"):
            raise DataError(f"--licence: no file {given!r}; give a file, or the words of the licence")
        return given
    if path.stat().st_size > _LONGEST:
        raise DataError(f"--licence: {given} has more than {_LONGEST:,} bytes; give the licence's text")
    from aeg.core.files import read_text

    return read_text(path, "the text of a licence")

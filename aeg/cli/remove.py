"""`aeg remove`: remove documents from an index."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from aeg.cli.changing import told
from aeg.cli.terminal import Reporter


def main(arguments: Sequence[str]) -> int:
    """Remove the documents that the arguments name."""
    parser = argparse.ArgumentParser(
        prog="aeg remove",
        description="Remove documents from an index, and what no other document mentions.",
    )
    parser.add_argument("index", type=Path, help="folder made by `aeg index`")
    parser.add_argument("ids", nargs="+", metavar="DOC_ID", help="id of a document")
    given = parser.parse_intermixed_args(arguments)
    from aeg.index import remove

    return told(given.index, remove(given.index, given.ids, Reporter()))

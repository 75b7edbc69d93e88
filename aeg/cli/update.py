"""`aeg update`: bring an index up to date with its documents."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from aeg.cli.changing import told
from aeg.cli.terminal import Reporter


def main(arguments: Sequence[str]) -> int:
    """Update the index from the documents that the arguments name."""
    parser = argparse.ArgumentParser(
        prog="aeg update",
        description="Add new documents to an index, and put changed ones, by content, in the place of those it has.",
    )
    parser.add_argument("index", type=Path, help="folder made by `aeg index`")
    parser.add_argument("path", type=Path, help="the documents: a folder, or a .jsonl file")
    parser.add_argument("--prune", action="store_true", help="remove documents that are not in PATH any more")
    parser.add_argument("overrides", nargs="*", metavar="key.sub=value", help="override the index's config")
    given = parser.parse_intermixed_args(arguments)
    from aeg.corpus import CORPORA
    from aeg.index import own_corpus, update

    loader = CORPORA.from_spec(own_corpus(given.path), "corpus")
    return told(given.index, update(given.index, loader, Reporter(), given.overrides, given.prune))

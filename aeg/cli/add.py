"""`aeg add`: add documents to an index."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from aeg.cli.changing import told
from aeg.cli.terminal import Reporter


def main(arguments: Sequence[str]) -> int:
    """Add the documents that the arguments name."""
    parser = argparse.ArgumentParser(
        prog="aeg add",
        description="Add documents to an index. Those that it has already, by content, add nothing; only new passages "
        "are extracted and embedded.",
    )
    parser.add_argument("index", type=Path, help="folder made by `aeg index`")
    parser.add_argument("path", type=Path, help="the documents: a folder, or a .jsonl file")
    parser.add_argument("overrides", nargs="*", metavar="key.sub=value", help="override the index's config")
    given = parser.parse_intermixed_args(arguments)
    from aeg.corpus import CORPORA
    from aeg.index import add, own_corpus

    loader = CORPORA.from_spec(own_corpus(given.path), "corpus")
    return told(given.index, add(given.index, loader, Reporter(), given.overrides))

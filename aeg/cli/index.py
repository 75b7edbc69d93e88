"""`aeg index`: build an index of one's own documents."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from aeg.cli.terminal import Reporter, say


def main(arguments: Sequence[str]) -> int:
    """Build the index that the arguments name."""
    parser = argparse.ArgumentParser(
        prog="aeg index",
        description="Build an index of a folder of .txt/.md files, or of a .jsonl file with id and text a line.",
    )
    parser.add_argument("path", type=Path, help="the documents")
    parser.add_argument("--out", type=Path, required=True, metavar="INDEX", help="folder of the index")
    parser.add_argument("--config", help="a YAML file with the stages' settings")
    parser.add_argument("overrides", nargs="*", metavar="key.sub=value", help="override the config")
    given = parser.parse_intermixed_args(arguments)
    import dataclasses

    from aeg.config.load import load_config
    from aeg.index import build_index, own_corpus

    config = dataclasses.replace(load_config(given.config, given.overrides), corpus=own_corpus(given.path))
    build_index(config, given.out, Reporter())
    say(f"index: {given.out}")
    say(f'ask it: aeg query {given.out} "..."')
    return 0

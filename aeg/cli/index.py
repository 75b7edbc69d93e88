"""`aeg index`: build an index of one's own documents."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from aeg.cli.terminal import Reporter, say

PRESET = "preset/zero_llm"


def main(arguments: Sequence[str]) -> int:
    """Build the index that the arguments name."""
    parser = argparse.ArgumentParser(
        prog="aeg index",
        description="Build an index of a folder of .txt/.md files, or of a .jsonl file with id and text a line. "
        "An index that is there is replaced; what it knows of the same documents is taken over.",
    )
    parser.add_argument("path", nargs="?", help="the documents")
    parser.add_argument("--out", type=Path, required=True, metavar="INDEX", help="folder of the index")
    parser.add_argument("--config", help=f"a YAML file with the stages' settings (default {PRESET})")
    parser.add_argument(
        "--rebuild", action="store_true", help="make INDEX anew from the documents it holds, and say what differs"
    )
    parser.add_argument("overrides", nargs="*", metavar="key.sub=value", help="override the config")
    given = parser.parse_intermixed_args(arguments)
    overrides = list(given.overrides)
    if given.rebuild and given.path is not None and "=" in given.path:
        overrides.insert(0, given.path)
        given.path = None
    if given.rebuild and (given.path is not None or given.config is not None):
        parser.error("--rebuild takes the documents and the config that the index holds: give neither")
    if not given.rebuild and given.path is None:
        parser.error("give the documents: a folder, or a .jsonl file")
    return _rebuilt(given.out, overrides) if given.rebuild else _built(given, overrides)


def _built(given: argparse.Namespace, overrides: Sequence[str]) -> int:
    import dataclasses

    from aeg.config.load import load_config
    from aeg.index import build_index, own_corpus

    config = dataclasses.replace(load_config(given.config or PRESET, overrides), corpus=own_corpus(Path(given.path)))
    build_index(config, given.out, Reporter())
    say(f"index: {given.out}")
    say(f'ask it: aeg query {given.out} "..."')
    return 0


def _rebuilt(folder: Path, overrides: Sequence[str]) -> int:
    from aeg.index import rebuild

    outcome = rebuild(folder, Reporter(), overrides)
    if outcome.differing:
        say(f"index: {folder}: rebuilt; other than before: {', '.join(outcome.differing)}")
    else:
        say(f"index: {folder}: the same as before, byte for byte")
    return 0

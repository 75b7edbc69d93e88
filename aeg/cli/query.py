"""`aeg query`: ask an index a question."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aeg.cli.terminal import say

if TYPE_CHECKING:
    from aeg.index import Evidence


def main(arguments: Sequence[str]) -> int:
    """Print the ranked atoms for a question."""
    parser = argparse.ArgumentParser(
        prog="aeg query", description="Print the atoms of an index that bear on a question."
    )
    parser.add_argument("index", type=Path, help="folder made by `aeg index`")
    parser.add_argument("question")
    parser.add_argument("--top", type=int, default=10, metavar="K", help="atoms to print (default 10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object an atom")
    given = parser.parse_intermixed_args(arguments)
    if given.top < 1:
        parser.error(f"--top: got {given.top}, expected at least 1")
    from aeg.index import Searcher

    found = Searcher(given.index).search(given.question, given.top)
    for item in found:
        say(json.dumps(dataclasses.asdict(item), ensure_ascii=False) if given.json else _as_text(item))
    if not found and not given.json:
        say("no atom has any score for this question")
    return 0


def _as_text(item: Evidence) -> str:
    lines = [f"{item.rank:>3}. {item.score:.5f}  {item.atom}"]
    for doc_id, passage_id, span in item.sources:
        passage = "" if passage_id == doc_id else f", passage {passage_id}"
        place = f", characters {span[0]}-{span[1]}" if span else ""
        lines.append(f"     from document {doc_id}{passage}{place}")
    if item.entities:
        lines.append("     through " + ", ".join(f"{name} ({100 * share:.0f} %)" for name, share in item.entities))
    return "\n".join(lines)

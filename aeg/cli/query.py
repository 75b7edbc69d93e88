"""`aeg query`: ask an index a question."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aeg.cli.terminal import say

if TYPE_CHECKING:
    from aeg.index import Evidence, Searcher


def main(arguments: Sequence[str]) -> int:
    """Print the ranked atoms for a question."""
    parser = argparse.ArgumentParser(
        prog="aeg query", description="Print the atoms of an index that bear on a question."
    )
    parser.add_argument("index", type=Path, help="folder made by `aeg index`")
    parser.add_argument("question")
    parser.add_argument("--top", type=int, default=10, metavar="K", help="atoms to print (default 10)")
    parser.add_argument("--answer", action="store_true", help="have the reader answer, and print what it cites")
    parser.add_argument("--json", action="store_true", help="print one JSON object an atom, or for the answer")
    parser.add_argument("overrides", nargs="*", metavar="key.sub=value", help="override the index's config")
    given = parser.parse_intermixed_args(arguments)
    if given.top < 1:
        parser.error(f"--top: got {given.top}, expected at least 1")
    from aeg.index import Searcher

    if given.answer:
        return _answer(Searcher(given.index, given.overrides), given.question, given.json)
    searcher = Searcher(given.index, given.overrides)
    if not any(searcher.graph.atoms.texts):
        sys.stderr.write("note: the index has no texts (exported with --no-text): shared words do not count in ranks\n")
    found = searcher.search(given.question, given.top)
    for item in found:
        say(json.dumps(dataclasses.asdict(item), ensure_ascii=False) if given.json else _as_text(item))
    if not found and not given.json:
        say("no atom has any score for this question")
    return 0


def _answer(searcher: Searcher, question: str, as_json: bool) -> int:
    answer, units = searcher.answer(question)
    if as_json:
        record = {**dataclasses.asdict(answer), "units": [dataclasses.asdict(unit) for unit in units]}
        say(json.dumps(record, ensure_ascii=False))
    elif answer.failed:
        say(f"no answer: the reader's call failed ({answer.failure})")
    else:
        say(answer.text)
        for number in answer.cited:
            unit = units[number - 1]
            place = f", characters {unit.start}-{unit.end}" if unit.start is not None else ""
            say(f"[{number}] {unit.text}\n     from document {unit.doc_id}{place}")
    return 1 if answer.failed else 0


def _as_text(item: Evidence) -> str:
    lines = [f"{item.rank:>3}. {item.score:.5f}  {item.atom or f'atom {item.atom_id}'}"]
    for doc_id, passage_id, span in item.sources:
        passage = "" if passage_id == doc_id else f", passage {passage_id}"
        place = f", characters {span[0]}-{span[1]}" if span else ""
        lines.append(f"     from document {doc_id}{passage}{place}")
    if item.entities:
        lines.append("     through " + ", ".join(f"{name} ({100 * share:.0f} %)" for name, share in item.entities))
    return "\n".join(lines)

"""`aeg stats`: the statistics of an index's graph."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from aeg.cli.terminal import say


def main(arguments: Sequence[str]) -> int:
    """Print the statistics of an index's graph, as in Tables 3 and 6 of the paper."""
    parser = argparse.ArgumentParser(prog="aeg stats", description="Print the graph statistics of an index.")
    parser.add_argument("index", type=Path, help="folder made by `aeg index`")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_intermixed_args(arguments)
    from aeg.graph import statistics
    from aeg.index import open_index

    _, graph, _ = open_index(given.index)
    found = dataclasses.asdict(statistics(graph))
    if given.json:
        say(json.dumps({**found, "counts": dict(graph.counts)}))
        return 0
    for name, value in found.items():
        say(
            f"{name.replace('_', ' '):<20} {value:>12,.3f}"
            if isinstance(value, float)
            else f"{name.replace('_', ' '):<20} {value:>12,}"
        )
    for name, value in graph.counts.items():
        say(f"  {name.replace('_', ' ')}: {value:,}")
    return 0

"""The section of graph statistics, as in the paper's Tables 3 and 6."""

from __future__ import annotations

import json
from collections.abc import Sequence

from aeg.report.blocks import Anchors, Cell, Section, Table
from aeg.report.folder import Run

_COLUMNS = (
    ("nodes", "nodes", 0),
    ("entities", "entities", 0),
    ("atoms", "atoms", 0),
    ("edges", "edges", 0),
    ("relates", "relates", 0),
    ("synonym", "synonym", 0),
    ("mentions", "mentions", 0),
    ("average_degree", "average degree", 2),
    ("average_clustering", "average clustering", 3),
    ("mentions_per_atom", "mentions an atom", 2),
    ("isolated_atoms", "isolated atoms", 0),
)


def graphs(runs: Sequence[Run], anchors: Anchors) -> Section | None:
    """Return the section, or None where no run has finished; equal graphs of one corpus share a row."""
    found: dict[str, tuple[Run, str, dict[str, float], list[str]]] = {}
    for run in runs:
        for part, facts in run.parts.items():
            counts = facts.get("graph")
            if counts:
                key = json.dumps([run.corpus, part, counts], sort_keys=True)
                found.setdefault(key, (run, part, counts, []))[3].append(run.name)
    if not found:
        return None
    rows = []
    for run, part, counts, names in found.values():
        corpus = run.corpus if part == "corpus" else f"{run.corpus}: {part}"
        numbers = [_cell(counts.get(key), digits) for key, _, digits in _COLUMNS]
        rows.append([Cell(corpus or part), Cell(in_short(names)), *numbers])
    head = ["corpus", "runs", *(name for _, name, _ in _COLUMNS)]
    groups = [("", 2), ("", 3), ("edges", 4), ("structure", 4)]
    note = (
        "mentions: containment edges, atom to entity; relates and synonym: entity to entity. Average degree counts "
        "edges of different types apart; clustering is that of the simple graph."
    )
    table = Table(head, rows, "The Atom-Entity Graph of each corpus", groups, words=2, note=note)
    return Section("Graphs", anchors.new("graphs"), [table])


def in_short(names: Sequence[str]) -> str:
    """Return names as one text, cut where there are many.

    Example:
        >>> in_short(["a", "b"]), in_short(["a", "b", "c", "d"]), in_short(["a, b", "c, d"])
        ('a, b', 'a, b and 2 more', 'a, b; c, d')
    """
    long = any("," in name for name in names)
    shown = names if len(names) <= 3 else names[: 1 if long else 2]
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    return ("; " if long else ", ").join(shown) + more


def _cell(value: float | None, digits: int) -> Cell:
    return Cell("–") if value is None else Cell(f"{value:,.{digits}f}", number=float(value))

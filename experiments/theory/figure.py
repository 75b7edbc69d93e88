"""The tables of the theory experiments as one figure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.theory.finding import Findings

_INTERVAL = re.compile(r"^(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]$")


def draw(found: Mapping[str, Findings], path: Path) -> None:
    """Draw every table whose first column is a number, its other columns against it, with 95 % intervals."""
    from matplotlib.figure import Figure  # not pyplot: a caller's backend, in a notebook say, stays as it is

    tables = [table for one in found.values() for table in one.tables if _numeric(table[2])]
    columns = min(2, max(1, len(tables)))
    rows = -(-max(1, len(tables)) // columns)
    figure = Figure(figsize=(7 * columns, 4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for panel, table in zip(axes.flat, tables, strict=False):
        _panel(panel, *table)
    for panel in axes.flat[len(tables) :]:
        panel.set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def point(cell: Any) -> tuple[float, float, float] | None:
    """Return a cell as value and interval ends, None where it is no number.

    Example:
        >>> point("0.5 [0.25, 0.75]"), point(2), point("-")
        ((0.5, 0.25, 0.75), (2.0, 2.0, 2.0), None)
    """
    if isinstance(cell, int | float):
        return float(cell), float(cell), float(cell)
    match = _INTERVAL.match(str(cell))
    return None if match is None else (float(match[1]), float(match[2]), float(match[3]))


def _numeric(rows: list[list[Any]]) -> bool:
    return len(rows) > 2 and all(isinstance(row[0], int | float) for row in rows)


def _panel(panel: Any, title: str, heads: list[str], rows: list[list[Any]]) -> None:
    if heads[0] == "restart":  # two curves of the same columns
        for restart in sorted({row[0] for row in rows}):
            part = [row[1:] for row in rows if row[0] == restart]
            _curves(panel, [f"{head}, restart {restart}" for head in heads[1:]], part)
        panel.set_xlabel(heads[1])
    else:
        _curves(panel, heads, rows)
        panel.set_xlabel(heads[0])
        panel.set_xscale("log", base=2)
        panel.set_xticks([row[0] for row in rows], [str(row[0]) for row in rows])
    panel.set_title(title, fontsize="small")
    panel.grid(alpha=0.3)
    panel.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))


def _curves(panel: Any, heads: list[str], rows: list[list[Any]]) -> None:
    for at, head in enumerate(heads[1:], start=1):
        points = [(row[0], found) for row in rows if (found := point(row[at])) is not None]
        if points:
            xs = [x for x, _ in points]
            style = "-" if at % 2 else "--"  # where two curves are one, both are seen
            values = [value for _, (value, _, _) in points]
            (line,) = panel.plot(xs, values, style, marker="o", markersize=3, label=head)
            panel.fill_between(
                xs, [p[1] for _, p in points], [p[2] for _, p in points], alpha=0.15, color=line.get_color()
            )

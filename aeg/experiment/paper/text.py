"""A comparison as text, Markdown and plain values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from typing import Any

from aeg.experiment.paper.compare import Cell, Comparison
from aeg.experiment.table import aligned


def lines(comparison: Comparison, told: Collection[str] = ()) -> list[str]:
    """Return a comparison as lines of a text table: in each cell the paper's value, a bar, ours with its interval.

    Args:
        comparison: of one reading, data set and variant.
        told: notes that an earlier comparison has said; they are left out.
    """
    heads, rows = _grid(comparison)
    return [*_title(comparison), "", *aligned([heads, *rows]), "", *_below(comparison, told)]


def markdown(comparison: Comparison, told: Collection[str] = ()) -> str:
    """Return a comparison as a Markdown table with its notes, those that were `told` before left out."""
    heads, rows = _grid(comparison)
    title, *rest = _title(comparison)
    table = [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]
    below = [f"- {line}" for line in _below(comparison, told)]
    return "\n".join([f"### {title}", "", *rest, "", *table, "", *below]) + "\n"


def as_record(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON values; NaN becomes null."""
    return _plain(dataclasses.asdict(comparison))


def _title(comparison: Comparison) -> list[str]:
    facet = ", ".join(f"{key} {value}" for key, value in comparison.facet.items())
    place = ": ".join(part for part in (comparison.reading, facet) if part)
    first = f"{comparison.table}, {comparison.title}" + (f" ({place})" if place else "")
    same = "the same quantity" if comparison.same_quantity else "ANOTHER quantity: compare signs and order only"
    return [first, f"paper: {comparison.measure}; ours: {comparison.ours} ({same})"]


def _grid(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    compared = any(row.against for row in comparison.rows)
    heads = ["paper ¦ ours", *comparison.columns]
    if compared:
        heads += [f"against {comparison.reference}: paper", "ours", "verdict"]
    rows = []
    for row in comparison.rows:
        cells = [row.name, *(_cell(row.cells[column]) for column in comparison.columns)]
        if compared:
            found = row.against
            cells += (
                ["", "", "reference" if row.name == comparison.reference else ""]
                if found is None
                else [f"{found.paper:+.1f}", f"{found.ours:+.1f} [{found.low:+.1f}, {found.high:+.1f}]", found.verdict]
            )
        rows.append(cells)
    return heads, rows


def _cell(cell: Cell) -> str:
    ours = "-" if cell.ours is None else _number(cell.ours, cell.unit)
    if cell.low is not None and cell.high is not None:
        ours += f" ±{(cell.high - cell.low) / 2:.1f}"
    if cell.difference is not None and cell.paper is not None:
        digits = len(_number(cell.paper, cell.unit).partition(".")[2])
        ours += f" ({cell.difference:+,.{digits}f})"
    return f"{'-' if cell.paper is None else _number(cell.paper, cell.unit)} ¦ {ours}"


def _number(value: float, unit: str) -> str:
    if unit == "percent":
        return f"{value:.1f}"
    if float(value).is_integer() and abs(value) >= 10:
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.2g}"


def _below(comparison: Comparison, told: Collection[str]) -> list[str]:
    found = []
    if comparison.counts:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(comparison.counts.items()))
        found.append(f"signs against {comparison.reference} on {comparison.main}: {counts}")
    if comparison.tau is not None:
        tau = comparison.tau
        ends = "" if math.isnan(tau.low) else f" [{tau.low:+.2f}, {tau.high:+.2f}]"
        found.append(
            f"order of the {tau.rows} rows on {comparison.main}: Kendall's τ with the paper {tau.value:+.2f}{ends}: "
            f"{tau.verdict}"
        )
    if comparison.missing:
        found.append(f"not finished: {', '.join(comparison.missing)}")
    return [*found, *(f"note: {note}" for note in comparison.notes if note not in told)]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value

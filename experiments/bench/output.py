"""Aligned text tables and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Table:
    """A titled table.

    Attributes:
        title: what it shows.
        columns: heads.
        rows: cells; numbers are shown to three digits, None as a dash.
        notes: lines below it.
    """

    title: str
    columns: Sequence[str]
    rows: list[list[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the table as aligned text.

        Example:
            >>> print(Table("t", ["name", "ms"], [["a", 1.23456], ["bb", None]]).text())
            t
            name    ms
            a     1.23
            bb       -
        """
        cells = [list(map(str, self.columns)), *([shown(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[at]) for row in cells) for at in range(len(self.columns))]
        left = [all(isinstance(row[at], str) for row in self.rows) for at in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.ljust(width) if first else cell.rjust(width)
                for cell, width, first in zip(row, widths, left, strict=True)
            ).rstrip()
            for row in cells
        ]
        return "\n".join([self.title, *lines, *self.notes])

    def plain(self) -> dict[str, Any]:
        """Return the table as JSON values, a row an object."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": self.notes}


def shown(cell: Any) -> str:
    """Return a cell as text: three digits, no exponent between 0.001 and a million.

    Example:
        >>> shown(0.00012), shown(12345.6), shown(None), shown(3.0), shown("x")
        ('1.2e-04', '12,346', '-', '3', 'x')
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return str(cell)
    if cell == 0:
        return "0"
    if abs(cell) < 1e-3 or abs(cell) >= 1e6:
        return f"{cell:.1e}"
    if abs(cell) >= 100 or float(cell).is_integer():
        return f"{cell:,.0f}"
    return f"{cell:.3g}"

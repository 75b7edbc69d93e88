"""The section that sets the paper's tables beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING

from aeg.errors import AegError
from aeg.report.blocks import NONE, Anchors, Block, Cell, Figures, Heading, Notes, Section, Table, Text
from aeg.report.canvas import Chart
from aeg.report.chart import Panel, Point, Series, lines
from aeg.report.entry import label
from aeg.report.folder import Source, Sweep
from aeg.report.graph import in_short

if TYPE_CHECKING:
    from aeg.experiment.paper import Cell as PaperCell
    from aeg.experiment.paper import Comparison, PaperRow

_MARKS = {"holds": "good", "fails": "bad", "undecided": "unsure"}


def paper(sources: Sequence[Source], anchors: Anchors) -> Section | None:
    """Return the section, or None where no sweep belongs to a table of the paper."""
    sweeps = [source for source in sources if isinstance(source, Sweep) and source.paper]
    if not sweeps:
        return None
    from aeg.experiment.paper import comparisons

    blocks: list[Block] = []
    for sweep in sweeps:
        try:
            found = comparisons(sweep.folder)
        except AegError as error:
            blocks += [Heading(sweep.name, anchors.new(f"paper {sweep.name}"), "not compared")]
            blocks.append(Text(str(error), warns=True))
            continue
        told: set[str] = set()
        names = {run.id: run.name for run in sweep.runs}
        for comparison in found:
            blocks += _comparison(comparison, anchors, told, names)
    return Section("The paper's tables beside ours", anchors.new("paper"), blocks)


def _comparison(found: Comparison, anchors: Anchors, told: set[str], names: Mapping[str, str]) -> list[Block]:
    """One comparison; a note that an earlier one of the sweep has `told` is not said again.

    Args:
        found: one reading of one table.
        anchors: of the report.
        told: notes so far; new ones are added.
        names: of the sweep's runs, by id.
    """
    facet = ", ".join(str(value) for value in found.facet.values())
    words = ": ".join(word for word in (found.table, found.title) if word)
    words = f"{words} ({facet})" if facet else words
    words = f"{words}; {found.reading}" if found.reading else words
    blocks: list[Block] = [Heading(words, anchors.new(f"{found.table} {facet} {found.reading or ''}"))]
    blocks.append(Text(_about(found)))
    blocks.append(_table(found))
    chart = _chart(found, anchors, words)
    if chart is not None:
        blocks.append(Figures([chart]))
    said = _verdicts(found)
    notes = [*said, *(note for note in map(str, found.notes) if note not in told)]
    told.update(map(str, found.notes))
    if found.missing:
        notes.append(
            f"Not finished, so without a number of ours: {in_short([names.get(one, one) for one in found.missing])}."
        )
    if notes:
        blocks.append(Notes(notes))
    return blocks


def _about(found: Comparison) -> str:
    text = f"The paper's: {found.measure}."
    if found.ours:
        text += f" Ours: {label(found.ours)}."
    if not found.same_quantity:
        text += " These are different quantities: no difference is shown, only the direction against one row."
    return text


def _table(found: Comparison) -> Table:
    measured = {name for row in found.rows for name, cell in row.cells.items() if cell.ours is not None}
    against = any(row.against is not None for row in found.rows)
    spans, head = [("", 1)], ["row"]
    for name in found.columns:
        parts = ["paper", *(["ours"] if name in measured else [])]
        parts += ["difference"] if name in measured and found.same_quantity else []
        spans.append((name, len(parts)))
        head += parts
    if against:
        spans.append((f"against row {found.reference}", 3))
        head += ["paper", "ours", "verdict"]
    rows = [_row(row, found, measured, against) for row in found.rows]
    means = any(cell.low is not None for row in found.rows for cell in row.cells.values())
    note = "±: half the width of the 95 % bootstrap interval over questions." if means else ""
    if against:
        note += " Against the row: paired differences with their 95 % intervals."
    return Table(head, rows, "", spans, note=note.strip())


def _row(row: PaperRow, found: Comparison, measured: set[str], against: bool) -> list[Cell]:
    cells = [Cell(row.name)]
    for name in found.columns:
        cell = row.cells.get(name)
        cells.append(_number(None if cell is None else cell.paper))
        if name in measured:
            cells.append(Cell(NONE) if cell is None else _ours(cell))
            if found.same_quantity:
                cells.append(Cell(NONE) if cell is None else _difference(cell))
    if against:
        cells += _against(row)
    return cells


def _ours(cell: PaperCell) -> Cell:
    if cell.ours is None:
        return Cell(NONE)
    if cell.unit != "percent":
        detail = "" if cell.low is None or cell.high is None else f"±{_text((cell.high - cell.low) / 2)}"
        return Cell(_text(cell.ours), detail, cell.ours)
    detail = "" if cell.low is None or cell.high is None else f"±{(cell.high - cell.low) / 2:.1f}"
    return Cell(f"{cell.ours:.1f}", detail, cell.ours)


def _difference(cell: PaperCell) -> Cell:
    """Ours less the paper's, in as many digits as the paper's."""
    if cell.difference is None or cell.paper is None:
        return Cell(NONE)
    digits = len(_text(cell.paper).partition(".")[2])
    return Cell(_sign(f"{cell.difference:+,.{digits}f}"), number=cell.difference)


def _against(row: PaperRow) -> list[Cell]:
    told = row.against
    if told is None:
        return [Cell(NONE)] * 3
    ours = Cell(_sign(f"{told.ours:+.1f}"), _sign(f"[{told.low:+.1f}, {told.high:+.1f}]"), told.ours)
    return [_signed(told.paper), ours, Cell(told.verdict, mark=_MARKS.get(told.verdict, ""))]


def _verdicts(found: Comparison) -> list[str]:
    said = []
    counts = {name: count for name, count in found.counts.items() if count}
    if counts:
        words = ", ".join(f"{count} {name}" for name, count in counts.items())
        said.append(f"Direction against row {found.reference}: {words}.")
    if found.tau is not None:
        tau = found.tau
        said.append(
            f"Kendall's τ with the paper's ranking over {tau.rows} rows: "
            + _sign(f"{tau.value:+.2f}" + ("" if isnan(tau.low) else f" [{tau.low:+.2f}, {tau.high:+.2f}]"))
            + f": {tau.verdict}."
        )
    return said


def _chart(found: Comparison, anchors: Anchors, words: str) -> Chart | None:
    """Both over the row's number, where the rows are numbers: ours above, the paper's below."""
    try:
        xs = [float(row.name) for row in found.rows]
    except ValueError:
        return None
    main = found.main
    if main is None or len(xs) < 3 or not any(_has(row, main) for row in found.rows):
        return None
    ours, theirs = [], []
    for x, row in zip(xs, found.rows, strict=True):
        cell = row.cells.get(main)
        if cell is not None and cell.ours is not None:
            ours.append(Point(x, cell.ours, cell.low, cell.high))
        if cell is not None and cell.paper is not None:
            theirs.append(Point(x, cell.paper))
    panels = [Panel(f"ours: {main}", [Series(label(found.ours or "ours"), ours)])]
    panels.append(Panel(f"paper: {main}", [Series("paper", theirs)], expected=True))
    anchor = anchors.new(f"plot {words}")
    note = f"Above ours ({label(found.ours)}), below the paper's ({found.measure})."
    return lines(anchor, words, found.title, panels, note)


def _has(row: PaperRow, name: str) -> bool:
    cell = row.cells.get(name)
    return cell is not None and cell.ours is not None and cell.paper is not None


def _number(value: float | None) -> Cell:
    return Cell(NONE) if value is None else Cell(_text(value), number=value)


def _signed(value: float) -> Cell:
    return Cell(_sign(f"{value:+,.1f}" if abs(value) < 1000 else f"{value:+,.0f}"), number=value)


def _sign(text: str) -> str:
    """The text with the sign for minus in place of the hyphen."""
    return text.replace("-", "−")


def _text(value: float) -> str:
    """A number in as many digits as the paper prints of its size."""
    if abs(value) >= 1000 and value == round(value):
        return f"{value:,.0f}"
    if 0 < abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:,.1f}" if abs(value) >= 30 or value == round(value, 1) else f"{value:,.2f}"

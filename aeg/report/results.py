"""The section of results: methods by metrics with intervals, by type of question, and as curves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from aeg.evaluation.aggregate import ALL, MACRO
from aeg.report.blocks import NONE, Anchors, Block, Cell, Figures, Folded, Heading, Section, Table, Text
from aeg.report.canvas import Chart
from aeg.report.chart import Panel, Series, intervals, lines
from aeg.report.entry import Entry, Group, capital, family, label, percent_point

_MOST_LINES, _MOST_DOTS = 12, 24
_RANKED = ("recall", "ndcg", "mrr")
_EVIDENCE = ("evidence_coverage", "evidence_similarity")
_CURVES = (("recall", "k, documents"), ("evidence_coverage", "budget, tokens"))


def results(groups: Sequence[Group], anchors: Anchors) -> Section | None:
    """Return the section, or None where no run has finished."""
    blocks: list[Block] = []
    single = [group.title for group in groups if group.questions == 1]
    for group in groups:
        if group.questions == 1:
            continue
        blocks += [Heading(group.title, anchors.new(f"results {group.title}")), Text(_about(group))]
        blocks += _tables(group)
        charts = [*_curves(group, anchors), *_dots(group, anchors)]
        if charts:
            blocks.append(Figures(charts))
        by_type = _by_type(group)
        if by_type is not None:
            blocks.append(Folded(f"{label(group.main or '')} by type of question", [by_type]))
    if single:
        blocks.append(Text(f"Asked a single question, which makes no average: {', '.join(single)}."))
    return Section("Results", anchors.new("results"), blocks) if blocks else None


def value_cell(entry: Entry, metric: str, group: str = ALL, counts: bool = False) -> Cell:
    """Return an average in percent, with half the width of its interval beside it."""
    found = entry.metric(metric, group)
    if found is None or found.value is None:
        return Cell(NONE)
    detail = "" if found.low is None or found.high is None else f"±{50 * (found.high - found.low):.1f}"
    if counts:
        detail += f" ({found.n}/{found.skipped}/{found.failed})"
    return Cell(f"{100 * found.value:.1f}", detail, found.value)


def marked(rows: Sequence[Sequence[Cell]], columns: Sequence[int], low_is_best: Sequence[int] = ()) -> list[list[Cell]]:
    """Mark the best and the second of each column, as the paper does; equal numbers share a mark."""
    table = [list(row) for row in rows]
    for column in columns:
        given = [row[column].number for row in table]
        shown = {row[column].text: number for row, number in zip(table, given, strict=True) if number is not None}
        order = sorted(shown, key=lambda text: shown[text], reverse=column not in low_is_best)
        if len(order) < 2:
            continue
        for row in table:
            cell = row[column]
            mark = {order[0]: "best", order[1]: "second"}.get(cell.text, "") if cell.number is not None else ""
            row[column] = Cell(cell.text, cell.detail, cell.number, mark, cell.link)
    return table


def _about(group: Group) -> str:
    run = group.runs[0]
    text = f"{run.corpus or 'corpus not told'}, {group.questions:,} questions; percent ± half the width of the 95 % "
    text += "bootstrap interval over questions. Best in bold, second underlined."
    if group.sweep is not None and len(group.sweep.finished) < len(group.sweep.runs):
        missing = len(group.sweep.runs) - len(group.sweep.finished)
        text += f" {missing} of the sweep's {len(group.sweep.runs)} runs are not finished and have no row."
    return text


def _tables(group: Group) -> list[Block]:
    ranked = [name for name in group.metrics if family(name)[0] in _RANKED]
    evidence = [name for name in group.metrics if family(name)[0] in _EVIDENCE]
    answers = [name for name in group.metrics if name not in (*ranked, *evidence)]
    ranked = [name for name in ranked if family(name)[0] != "ndcg" or name == "ndcg@5"] or ranked
    captions = ("Passages found", "Evidence found at an equal token budget", "Answers")
    tables = []
    for metrics, caption in zip((ranked, evidence, answers), captions, strict=True):
        if metrics:
            tables.append(_table(group, metrics, caption, metrics is answers))
    return list(tables)


def _table(group: Group, metrics: Sequence[str], caption: str, counts: bool) -> Table:
    body = [
        [Cell(entry.name), *(value_cell(entry, metric, ALL, counts) for metric in metrics), _time(entry)]
        for entry in group.entries
        if any(entry.metric(metric) for metric in metrics)
    ]
    titles = [label(family(metric)[0]) if family(metric)[1] is not None else "" for metric in metrics]
    spans = [("", 1), *((title, len(list(same))) for title, same in groupby(titles)), ("", 1)]
    heads = [f"@{family(metric)[1]}" if title else label(metric) for metric, title in zip(metrics, titles, strict=True)]
    columns = list(range(1, len(metrics) + 1))
    note = "Beside each mean: questions scored/skipped/failed." if counts else ""
    head = ["method" if group.sweep is None else "run", *heads, "ms a question"]
    return Table(head, marked(body, columns), caption, spans, note=note)


def _time(entry: Entry) -> Cell:
    milliseconds = entry.milliseconds
    return Cell(NONE) if milliseconds is None else Cell(f"{milliseconds:,.2f}", number=milliseconds)


def _by_type(group: Group) -> Table | None:
    metric = group.main
    if metric is None:
        return None
    counts = {m.group: m.n for run in group.runs for m in run.metrics if m.metric == metric and m.group != ALL}
    types = [name for name in counts if name != MACRO]
    if not types:
        return None
    columns = [*types, *([MACRO] if MACRO in counts else [])]
    head = [f"{name} (n = {counts[name]:,})" if name != MACRO else "mean of types" for name in columns]
    body = [[Cell(e.name), *(value_cell(e, metric, column) for column in columns)] for e in group.entries]
    return Table(["method", *head], marked(body, range(1, len(head) + 1)))


def _curves(group: Group, anchors: Anchors) -> list[Chart]:
    charts = []
    for prefix, x_label in _CURVES:
        series = [one for one in group.series(prefix) if len(one.points) > 1]
        if not series or group.numeric_axes:
            continue
        shown, note = _few(series)
        title = f"{capital(label(prefix))} against {x_label.split(',')[0]}"
        anchor = anchors.new(f"{prefix} {group.title}")
        panel = Panel(f"{label(prefix)}, percent", shown)
        charts.append(lines(anchor, f"{title}: {group.title}", x_label, [panel], note))
    return charts


def _dots(group: Group, anchors: Anchors) -> list[Chart]:
    """The main metric of each entry with its interval."""
    metric = group.main
    if metric is None or len(group.entries) < 2 or group.numeric_axes:
        return []
    found = [(entry, percent_point(entry.metric(metric), 0)) for entry in group.entries]
    series = [Series(entry.name, [point], entry.style) for entry, point in found if point is not None]
    series.sort(key=lambda one: -one.points[0].y)
    note = "" if len(series) <= _MOST_DOTS else f"The {_MOST_DOTS} best of {len(series)}."
    title = f"{capital(label(metric))} with 95 % intervals: {group.title}"
    anchor = anchors.new(f"intervals {group.title}")
    return [intervals(anchor, title, f"{label(metric)}, percent", series[:_MOST_DOTS], note)]


def _few(series: Sequence[Series]) -> tuple[Sequence[Series], str]:
    if len(series) <= _MOST_LINES:
        return series, ""
    best = sorted(series, key=lambda one: -one.points[-1].y)[:_MOST_LINES]
    names = {one.name for one in best}
    return [s for s in series if s.name in names], f"The {_MOST_LINES} highest of {len(series)}; the table has all."

"""The tables that a run prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aeg.evaluation.aggregate import MetricRow


def format_table(
    rows: Sequence[MetricRow],
    seconds: Mapping[str, float],
    metrics: Sequence[str],
    group: str,
    counts: bool = False,
) -> str:
    """Return methods × metrics as text: percent, with the half width of the 95 % interval, and ms a query.

    Args:
        rows: the metric rows of a run.
        seconds: seconds a query by method.
        metrics: the columns, in order.
        group: which rows are shown (`all`, `macro`, or a question type).
        counts: put the numbers of questions that were scored, skipped and failed beside each mean.
    """
    values = {(row.method, row.metric): row for row in rows if row.group == group}
    methods = list(dict.fromkeys(row.method for row in rows if row.group == group and row.metric in metrics))
    head = ["method", *(metric.removeprefix("evidence_") for metric in metrics), "ms/query"]
    body = [
        [method, *(_cell(values.get((method, metric)), counts) for metric in metrics), f"{1000 * seconds[method]:.2f}"]
        for method in methods
    ]
    lines = aligned([head, *body])
    return "\n".join([lines[0], "  ".join("-" * width for width in _widths([head, *body])), *lines[1:]])


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines, the first column flush left, the others flush right.

    Example:
        >>> aligned([["a", "n"], ["bc", "10"]])
        ['a    n', 'bc  10']
    """
    widths = _widths(table)
    return [_line(row, widths) for row in table]


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[at]) for row in table) for at in range(len(table[0]))]


def _cell(row: MetricRow | None, counts: bool) -> str:
    if row is None:
        return "-"
    beside = f" ({row.n}/{row.skipped}/{row.failed})" if counts else ""
    if not row.n:
        return f"-{beside}"
    return f"{100 * row.value:.1f} ±{50 * (row.ci_high - row.ci_low):.1f}{beside}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        cell.ljust(width) if at == 0 else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([first, *rest])

"""The one table that a run prints: methods by metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aeg.evaluation.aggregate import MetricRow


def format_table(rows: Sequence[MetricRow], seconds: Mapping[str, float], metrics: Sequence[str], group: str) -> str:
    """Return methods × metrics as text: percent, with the half width of the 95 % interval, and ms a query.

    Args:
        rows: the metric rows of a run.
        seconds: seconds a query by method.
        metrics: the columns, in order.
        group: which rows are shown (`all`, `macro`, or a question type).
    """
    values = {(row.method, row.metric): row for row in rows if row.group == group}
    methods = list(dict.fromkeys(row.method for row in rows if row.group == group))
    head = ["method", *(metric.removeprefix("evidence_") for metric in metrics), "ms/query"]
    body = [
        [method, *(_cell(values.get((method, metric))) for metric in metrics), f"{1000 * seconds[method]:.2f}"]
        for method in methods
    ]
    widths = [max(len(line[at]) for line in [head, *body]) for at in range(len(head))]
    lines = [_line(head, widths), "  ".join("-" * width for width in widths)]
    return "\n".join([*lines, *(_line(line, widths) for line in body)])


def _cell(row: MetricRow | None) -> str:
    if row is None:
        return "-"
    return f"{100 * row.value:.1f} ±{50 * (row.ci_high - row.ci_low):.1f}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        cell.ljust(width) if at == 0 else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([first, *rest])

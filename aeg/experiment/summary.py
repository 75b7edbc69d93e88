"""The text of a run: its tables, and the lines that belong under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aeg.config.schema import ExperimentConfig
from aeg.evaluation.aggregate import ALL, MACRO, MetricRow
from aeg.experiment.scoring import ANSWER_METRICS
from aeg.experiment.table import format_table


def summary(
    config: ExperimentConfig, rows: Sequence[MetricRow], seconds: Mapping[str, float], notes: Sequence[str] = ()
) -> str:
    """Return the run's tables: the main metrics over all questions, and by question type where there are types."""
    metrics = [metric for metric in dict.fromkeys(row.metric for row in rows) if metric != "mrr"]
    passages = [m for m in metrics if m.startswith(("recall@", "ndcg@5"))]
    evidence = [m for m in metrics if m.startswith("evidence_")]
    count = max((row.n for row in rows if row.group == ALL), default=0)
    blocks = [f"{config.name}: n = {count:,} questions, percent ± half width of the 95 % bootstrap interval"]
    for columns in (passages, evidence):
        if columns:
            blocks.append(format_table(rows, seconds, columns, ALL))
    answers = [metric for metric in ANSWER_METRICS if metric in metrics]
    for columns in (answers[:3], answers[3:]):
        if columns:
            blocks.append(
                "answers (questions scored/skipped/failed)\n" + format_table(rows, seconds, columns, ALL, True)
            )
    if notes:
        blocks.append("\n".join(notes))
    groups = [group for group in dict.fromkeys(row.group for row in rows) if group != ALL]
    main = next(iter([m for m in passages if m == "recall@5"] + passages + evidence), None)
    for metric in (main, next(iter(answers), None)):
        if groups and metric:
            blocks.append(_by_group(rows, groups, metric))
    return "\n\n".join(blocks)


def _by_group(rows: Sequence[MetricRow], groups: Sequence[str], metric: str) -> str:
    """Methods by question types for one metric."""
    counts = {row.group: row.n for row in rows if row.metric == metric}
    columns = {group: f"{group} (n={counts.get(group, 0)})" if group != MACRO else "mean of types" for group in groups}
    chosen = [row for row in rows if row.metric == metric and row.group in columns]
    methods = list(dict.fromkeys(row.method for row in chosen))
    value = {(row.method, row.group): f"{100 * row.value:.1f}" for row in chosen}
    width = max(len(method) for method in [*methods, metric])
    lines = ["  ".join([metric.ljust(width), *columns.values()])]
    for method in methods:
        cells = [value.get((method, group), "-").rjust(len(head)) for group, head in columns.items()]
        lines.append("  ".join([method.ljust(width), *cells]))
    return "\n".join(lines)

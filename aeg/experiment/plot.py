"""The plot of a run: recall against k, or evidence coverage against the token budget, for each method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aeg.evaluation.aggregate import MetricRow


def save_plot(rows: Sequence[MetricRow], path: Path, title: str) -> None:
    """Draw `recall@k` against k, else `evidence_coverage@B` against B, with 95 % intervals, as a PNG."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure  # not pyplot: a caller's backend, in a notebook say, stays as it is

    overall = [row for row in rows if row.group == "all"]
    prefix, label = "recall@", "k (documents)"
    if not any(row.metric.startswith(prefix) for row in overall):
        prefix, label = "evidence_coverage@", "token budget"
    methods = list(dict.fromkeys(row.method for row in overall))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    colours = colormaps["tab20"].colors  # type: ignore[attr-defined]
    for at, method in enumerate(methods):
        points = sorted(
            (int(row.metric.removeprefix(prefix)), row)
            for row in overall
            if row.method == method and row.metric.startswith(prefix)
        )
        xs = [x for x, _ in points]
        colour = colours[at % len(colours)]
        style = "--" if method in ("dense_atoms", "dense_passages", "bm25") else "-"
        axes.plot(xs, [100 * row.value for _, row in points], style, marker="o", label=method, color=colour)
        axes.fill_between(
            xs,
            [100 * row.ci_low for _, row in points],
            [100 * row.ci_high for _, row in points],
            alpha=0.12,
            color=colour,
            linewidth=0,
        )
    axes.set(xlabel=label, ylabel=f"{prefix.rstrip('@').replace('_', ' ')} (%)", title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", ncols=2)
    figure.savefig(path, dpi=150, metadata={"Software": None})

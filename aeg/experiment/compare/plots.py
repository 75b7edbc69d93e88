"""Plots of a comparison: differences with their intervals, and curves over an axis of numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aeg.experiment.compare.rows import MACRO, Comparison, Row
from aeg.experiment.compare.text import significance

_BLUE, _ORANGE, _GREY = "#0072b2", "#d55e00", "#7f7f7f"  # told apart by colour-blind readers too
_GREYS = ("#404040", "#808080", "#b0b0b0")
_SHAPES = ("o", "s", "^", "D", "v", "P", "X")


def save_plots(comparison: Comparison, folder: Path) -> list[Path]:
    """Draw each metric's differences, and its curve where an axis has at least three numbers, as PNG and PDF."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for metric in comparison.metrics:
        rows = [row for row in comparison.rows if row.metric == metric]
        paths += _saved(_differences(rows, metric, comparison.baseline), folder / f"differences-{_slug(metric)}")
        for axis in _numeric(comparison):
            figure = _curve(rows, metric, axis, comparison.axes)
            paths += _saved(figure, folder / f"curve-{_slug(metric)}-{_slug(axis)}")
    return paths


def _differences(rows: Sequence[Row], metric: str, baseline: str) -> Any:
    from matplotlib.figure import Figure  # not pyplot: a caller's backend, in a notebook say, stays as it is

    rows = [row for row in rows if row.versus is not None]
    datasets = list(dict.fromkeys(row.dataset for row in rows)) or [""]
    most = max([sum(row.dataset == dataset for row in rows) for dataset in datasets])
    size = (3.2 * len(datasets) + 2, 0.32 * most + 1.4)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(1, len(datasets), squeeze=False)
    for axes, dataset in zip(grid[0], datasets, strict=True):
        chosen = [row for row in rows if row.dataset == dataset][::-1]
        for at, row in enumerate(chosen):
            v = row.versus
            if v is None:
                continue
            colour = {"+": _BLUE, "-": _ORANGE}.get(significance(v), _GREY)
            axes.plot([100 * v.low, 100 * v.high], [at, at], color=colour, linewidth=1.6)
            axes.plot([100 * v.value], [at], "o", color=colour, markersize=5)
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(chosen)), [row.system for row in chosen])
        axes.set(title=dataset, xlabel="points")
        axes.grid(axis="x", alpha=0.3)
    figure.suptitle(f"{metric.replace('_', ' ')}: difference to {baseline}", fontsize="medium")
    figure.supxlabel("95 % intervals; coloured: p < .05, Holm-corrected", fontsize="x-small")
    return figure


def _curve(rows: Sequence[Row], metric: str, axis: str, values: Mapping[str, Mapping[str, Any]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    axes = figure.subplots()
    lines: dict[str, list[tuple[float, Row]]] = {}
    for row in rows:
        place = values.get(row.system, {})
        if row.dataset == MACRO or axis not in place:
            continue
        rest = row.system.split(f"{axis.rpartition('.')[2]}=")[0].strip(", ")
        lines.setdefault(", ".join(part for part in (row.dataset, rest) if part), []).append((float(place[axis]), row))
    for at, (name, points) in enumerate(lines.items()):
        points.sort(key=lambda point: point[0])
        xs = [x for x, _ in points]
        shape = f"{_SHAPES[at % len(_SHAPES)]}-"
        (line,) = axes.plot(xs, [100 * row.value for _, row in points], shape, label=name)
        low, high = ([100 * getattr(row, end) for _, row in points] for end in ("low", "high"))
        axes.fill_between(xs, low, high, alpha=0.15, color=line.get_color(), linewidth=0)
    for at, row in enumerate(row for row in rows if row.dataset != MACRO and not values.get(row.system)):
        name = ", ".join((row.dataset, row.system))
        style = ("--", "-.", ":")[at % 3]
        axes.axhline(100 * row.value, linestyle=style, linewidth=1.2, color=_GREYS[at // 3 % len(_GREYS)], label=name)
    axes.set(xlabel=axis, ylabel=f"{metric.replace('_', ' ')} (%)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure


def _numeric(comparison: Comparison) -> list[str]:
    """Axes with at least three different numbers."""
    found: dict[str, set[float]] = {}
    for axes in comparison.axes.values():
        for axis, value in axes.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(axis, set()).add(float(value))
    return [axis for axis, values in found.items() if len(values) > 2]


def _slug(name: str) -> str:
    """A name as a part of a file's name.

    Example:
        >>> _slug("propagation.0.restart"), _slug("recall@5")
        ('propagation.0.restart', 'recall-5')
    """
    return re.sub(r"[^\w.+-]+", "-", name)


def _saved(figure: Any, path: Path) -> list[Path]:
    files = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "pdf")]
    figure.savefig(files[0], dpi=150, metadata={"Software": None})
    figure.savefig(files[1], metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return files

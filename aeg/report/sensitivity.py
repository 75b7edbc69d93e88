"""The section of sensitivity: a measure over a number that a sweep varies, such as restart or seed weight."""

from __future__ import annotations

from collections.abc import Sequence

from aeg.report.blocks import Anchors, Block, Figures, Section
from aeg.report.canvas import Chart
from aeg.report.chart import Panel, Point, Series, lines
from aeg.report.entry import EVERY_RUN, Group, label, percent_point

_MEASURES = ("answer_accuracy", "recall@5", "evidence_coverage@512", "evidence_coverage@256")
_WORDS = {
    "restart": "restart, ρ of eq. 7",
    "atom_share": "share of the seeds on atoms",
    "alpha": "atom weight α, λ_seed in Table 13",
    "top_k": "top k, atoms",
    "max_tokens": "context budget, tokens",
}


def sensitivity(groups: Sequence[Group], anchors: Anchors) -> Section | None:
    """Return the section, or None where no sweep varies a number."""
    charts: list[Chart] = []
    for group in groups:
        for axis in group.numeric_axes:
            charts += _chart(group, axis, anchors)
    blocks: list[Block] = [Figures(charts)]
    return Section("Sensitivity", anchors.new("sensitivity"), blocks) if charts else None


def _chart(group: Group, axis: str, anchors: Anchors) -> list[Chart]:
    metrics = [name for name in _MEASURES if name in group.metrics][:2] or [m for m in (group.main,) if m]
    panels = [Panel(f"{label(metric)}, percent", _series(group, axis, metric)) for metric in metrics]
    panels = [panel for panel in panels if panel.series]
    if not panels:
        return []
    short = axis.rsplit(".", 1)[-1]
    anchor = anchors.new(f"sensitivity {short} {group.title}")
    note = f"{axis}; where there are bands, they are 95 % bootstrap intervals."
    return [lines(anchor, f"Sensitivity to {short}: {group.title}", _WORDS.get(short, short), panels, note)]


def _setting(axis: str, value: object) -> str:
    """A value of an axis; data sets and variants have names that say what they are."""
    return str(value) if axis in ("dataset", "variant") else f"{axis.rsplit('.', 1)[-1]}={value}"


def _series(group: Group, axis: str, metric: str) -> list[Series]:
    """A line for each method and each setting of the sweep's other axes."""
    axes = [name for name in (group.sweep.axes if group.sweep else []) if name != axis]
    others = [name for name in axes if len({str(run.axes.get(name)) for run in group.runs}) > 1]
    varied = [entry for entry in group.entries if not entry.name.endswith(f"({EVERY_RUN})")]
    lone = len({entry.method for entry in varied}) == 1
    found: dict[str, list[Point]] = {}
    for entry in varied:
        point = percent_point(entry.metric(metric), float(entry.run.axes[axis]))
        words = [_setting(name, entry.run.axes[name]) for name in others if name in entry.run.axes]
        name = ", ".join([*([] if lone and words else [entry.method]), *words])
        if point is not None:
            found.setdefault(name, []).append(point)
    xs = sorted({point.x for points in found.values() for point in points})
    for entry in group.entries:
        point = percent_point(entry.metric(metric), 0)
        if entry not in varied and point is not None:
            found[entry.method] = [Point(x, point.y) for x in xs]
    lines_of = [(name, sorted(points, key=lambda p: p.x)) for name, points in found.items()]
    return [Series(name, points, at) for at, (name, points) in enumerate(lines_of)]

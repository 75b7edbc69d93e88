"""The kinds of charts of a report: lines with bands, points with intervals, and bars of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aeg.report.canvas import GRID, INK, QUIET, Chart, drawing, finish, series_style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEGEND_COLUMNS = 3
_LONG_NAME = 17
_MOST_BANDS = 3


@dataclass(frozen=True)
class Point:
    """A value at a place, with its interval where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """A named sequence of points; `style` numbers its colour, the same for one name all over a report."""

    name: str
    points: Sequence[Point]
    style: int = 0


@dataclass(frozen=True)
class Panel:
    """Series over one y axis; `expected` ones are the paper's, drawn quietly."""

    label: str
    series: Sequence[Series]
    expected: bool = False


def lines(anchor: str, title: str, x_label: str, panels: Sequence[Panel], note: str = "") -> Chart:
    """Return a chart of lines, one panel above the other on a shared x axis; few lines with their 95 % bands."""
    named = [series for panel in panels for series in panel.series if not panel.expected]
    legend = _legend_rows(named) if len(named) > 1 else 0
    with drawing(len(panels), 1.0 + 2.3 * len(panels) - 0.3 * (len(panels) > 1) + 0.19 * legend) as (figure, axes):
        for axis, panel in zip(axes, panels, strict=True):
            for series in panel.series:
                _line(axis, series, panel.expected, len(panel.series) <= _MOST_BANDS)
            axis.set_ylabel(panel.label)
        xs = sorted({point.x for panel in panels for series in panel.series for point in series.points})
        if len(xs) <= 12:
            ticks = _apart(xs)
            axes[-1].set_xticks(ticks, [_number(x) for x in ticks])
        axes[-1].set_xlabel(x_label)
        if legend:
            _legend(figure, axes, named)
        return finish(figure, anchor, title, _alt(title, x_label, panels), note)


def points(
    anchor: str, title: str, x_label: str, y_label: str, series: Sequence[Series], log: bool, note: str
) -> Chart:
    """Return a chart of single points with vertical intervals, such as quality over latency."""
    legend = _legend_rows(series)
    with drawing(1, 3.3 + 0.19 * legend) as (figure, (axis,)):
        for one in series:
            style = series_style(one.style) | {"linestyle": "none"}
            for at, point in enumerate(one.points):
                label = one.name if at == 0 else None
                axis.errorbar(point.x, point.y, yerr=_reach(point), label=label, elinewidth=1, capsize=0, **style)
        if log:
            _log_scale(axis)
        axis.set(xlabel=x_label, ylabel=y_label)
        _legend(figure, [axis], series)
        return finish(figure, anchor, title, _alt(title, x_label, [Panel(y_label, series)]), note)


def intervals(anchor: str, title: str, label: str, series: Sequence[Series], note: str = "") -> Chart:
    """Return a chart of one interval a name, the first on top: the mean and its 95 % interval."""
    with drawing(1, 0.9 + 0.24 * len(series)) as (figure, (axis,)):
        for at, one in enumerate(series):
            point, style = one.points[0], series_style(one.style) | {"linestyle": "none"}
            axis.errorbar(point.y, -at, xerr=_reach(point), elinewidth=1.6, capsize=2.5, **style)
        axis.set_yticks([-at for at in range(len(series))], [one.name for one in series], color=INK)
        axis.grid(visible=False, axis="y")
        axis.set_ylim(0.6 - len(series), 0.6)
        axis.set_xlabel(label)
        return finish(figure, anchor, title, _alt(title, "", [Panel(label, series)]), note)


def _line(axis: Axes, series: Series, expected: bool, band: bool) -> None:
    xs, ys = [p.x for p in series.points], [p.y for p in series.points]
    if expected:
        axis.plot(xs, ys, color=QUIET, linestyle="--", marker="o", markerfacecolor=GRID, label="_paper")
        return
    style = series_style(series.style)
    axis.plot(xs, ys, label=series.name, **style)
    if band and all(p.low is not None for p in series.points):
        low, high = [p.low or 0.0 for p in series.points], [p.high or 0.0 for p in series.points]
        axis.fill_between(xs, low, high, color=style["color"], alpha=0.13, linewidth=0)


def _log_scale(axis: Axes) -> None:
    """A logarithmic x axis with plain numbers at 1, 2 and 5 times the powers of ten; of a wide one at the powers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_xscale("log")
    low, high = axis.get_xlim()
    subs = (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
    axis.xaxis.set_major_locator(LogLocator(subs=subs))
    axis.xaxis.set_major_formatter(lambda x, _: _number(x))
    axis.xaxis.set_minor_formatter(NullFormatter())


def _legend(figure: Figure, axes: Sequence[Axes], series: Sequence[Series]) -> None:
    """One legend below all panels; each name once."""
    shown: dict[str, Artist] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=_columns(series))


def _reach(point: Point) -> list[list[float]] | None:
    if point.low is None or point.high is None:
        return None
    return [[max(point.y - point.low, 0.0)], [max(point.high - point.y, 0.0)]]


def _columns(series: Sequence[Series]) -> int:
    longest = max((len(one.name) for one in series), default=0)
    return 1 if longest > 30 else 2 if longest > _LONG_NAME else min(_LEGEND_COLUMNS, len(series))


def _legend_rows(series: Sequence[Series]) -> int:
    return -(-len(series) // _columns(series))


def _apart(xs: Sequence[float]) -> list[float]:
    """The places whose numbers do not run into each other; of two that are near the larger."""
    least, kept = 0.055 * (xs[-1] - xs[0]) if xs else 0.0, list(xs[-1:])
    for x in reversed(xs[:-1]):
        if kept[-1] - x >= least:
            kept.append(x)
    return kept[::-1]


def _number(x: float) -> str:
    return f"{x:,.10g}"


def _alt(title: str, x_label: str, panels: Sequence[Panel]) -> str:
    """The chart in words: each series with its first and its last or best value."""
    said = []
    for panel in panels:
        for series in panel.series:
            if series.points:
                top = max(series.points, key=lambda point: point.y)
                at = f" at {x_label} {_number(top.x)}" if x_label and len(series.points) > 1 else ""
                said.append(f"{series.name or panel.label} {top.y:.1f}{at}")
    return f"{title}. Highest values: {'; '.join(said)}."

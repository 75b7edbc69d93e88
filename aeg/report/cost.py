"""The section of cost: quality against latency and against tokens, and what each run took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aeg.report.blocks import NONE, Anchors, Block, Cell, Figures, Folded, Section, Table
from aeg.report.canvas import Chart
from aeg.report.chart import Series, points
from aeg.report.entry import Entry, Group, capital, label, percent_point
from aeg.report.folder import Run

_SIDES = ("index", "query", "evaluation")
_QUALITY = ("answer_accuracy", "token_f1", "rouge_l", "exact_match")
_MOST_POINTS, _MOST_ROWS = 24, 12
_SUMS = ("calls", "cache_hits", "failures", "prompt_tokens", "completion_tokens")


def cost(groups: Sequence[Group], anchors: Anchors) -> Section | None:
    """Return the section, or None where no run has finished."""
    sweeps = {group.sweep for group in groups if group.sweep is not None}
    names: dict[Run, str] = {}
    for group in groups:
        prefix = f"{group.sweep.name}: " if group.sweep is not None and len(sweeps) > 1 else ""
        names |= {run: f"{prefix}{run.name}" for run in group.runs}
    if not names:
        return None
    charts = [chart for group in groups for chart in (*_latency(group, anchors), *_tokens(group, anchors))]
    blocks: list[Block] = [Figures(charts)] if charts else []
    totals = _totals(names)
    few = len(names) <= _MOST_ROWS
    blocks.append(totals if few else Folded(f"What each of the {len(names)} runs took", [totals]))
    blocks += [Folded(f"By module: {name}", [_modules(run)]) for run, name in names.items() if _asked(run)]
    return Section("Latency, tokens and cost", anchors.new("cost"), blocks)


def _latency(group: Group, anchors: Anchors) -> list[Chart]:
    metric = group.main
    if metric is None or group.numeric_axes or group.questions == 1:
        return []
    series = []
    for entry in group.entries:
        milliseconds = entry.milliseconds
        point = percent_point(entry.metric(metric), milliseconds or 0.0)
        if milliseconds and point is not None:
            series.append(Series(entry.name, [point], entry.style))
    if len(series) < 2:
        return []
    note = "Time of ranking alone, linking and seeding apart; up and to the left is better."
    if len(series) > _MOST_POINTS:
        note += f" The first {_MOST_POINTS} of {len(series)}."
    title = f"Quality against latency: {group.title}"
    y_label = f"{label(metric)}, percent"
    anchor = anchors.new(f"latency {group.title}")
    return [points(anchor, title, "milliseconds a question", y_label, series[:_MOST_POINTS], True, note)]


def _tokens(group: Group, anchors: Anchors) -> list[Chart]:
    metric = next((name for name in _QUALITY if name in group.metrics), None)
    if metric is None:
        return []
    series = []
    for entry in group.entries:
        tokens = evidence_tokens(entry)
        point = percent_point(entry.metric(metric), tokens or 0.0)
        if tokens is not None and point is not None:
            series.append(Series(entry.name, [point], entry.style))
    if not series:
        return []
    title = f"{capital(label(metric))} against tokens: {group.title}"
    note = "Tokens of the evidence that the reader was shown, mean over questions."
    anchor = anchors.new(f"tokens {group.title}")
    y_label = f"{label(metric)}, percent"
    return [points(anchor, title, "evidence tokens a question", y_label, series[:_MOST_POINTS], False, note)]


def evidence_tokens(entry: Entry) -> float | None:
    """Return the mean number of tokens of evidence that a question's reader was shown; None without answers."""
    path = entry.run.folder / "answers.parquet"
    if not path.is_file():
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=["method", "units"], filters=[("method", "=", entry.method)])
    except (pa.ArrowException, OSError, KeyError):
        return None
    shown = [sum(unit["tokens"] or 0 for unit in units or ()) for units in table.column("units").to_pylist()]
    return sum(shown) / len(shown) if shown else None


def _totals(names: Mapping[Run, str]) -> Table:
    asked = any(_asked(run) for run in names)
    head = ["run", "questions", "index", "query", "evaluation", "whole run"]
    groups = [("", 2), ("seconds", 4)]
    if asked:
        head += ["calls", "from cache", "failed", "prompt tokens", "completion tokens", "USD"]
        groups.append(("language models", 6))
    rows = []
    for run, name in names.items():
        now = ((run.manifest.get("usage") or {}).get("sides") or {}).get("now") or {}
        sides = [now.get(side) or {} for side in _SIDES]
        seconds = [*(side.get("seconds") for side in sides), (run.manifest.get("seconds") or {}).get("total")]
        row = [Cell(name), _number(run.manifest.get("questions"), 0), *(_number(s, 1) for s in seconds)]
        rows.append([*row, *(_models(sides) if asked else ())])
    note = "Stages that an earlier run had finished are not made again: their time is that run's."
    return Table(head, rows, "What each run took", groups, note=note)


def _models(sides: Sequence[dict[str, Any]]) -> list[Cell]:
    """Calls, tokens and cost of language models, all sides together; nothing where none was asked."""
    sums = [sum(int(side.get(name) or 0) for side in sides) for name in _SUMS]
    if not sums[0] and not sums[1]:
        return [Cell(NONE)] * (len(sums) + 1)
    priced = [side.get("cost") for side in sides]
    usd = None if None in priced else sum(float(value or 0) for value in priced)
    return [*(_number(value, 0) for value in sums), _number(usd, 4)]


def _modules(run: Run) -> Table:
    head = ["module", "", "seconds", "calls", "from cache", "failed", "prompt tokens", "completion tokens", "USD"]
    rows = []
    for module in (run.manifest.get("usage") or {}).get("modules") or []:
        cells = [_number(module.get(name), 0) for name in _SUMS]
        when = "earlier runs" if module.get("reused") else "this run"
        line = [Cell(str(module.get("module"))), Cell(when), _number(module.get("seconds"), 2), *cells]
        rows.append([*line, _number(module.get("cost"), 4)])
    return Table(head, rows, words=2, note="As in the paper's Tables 4 and 7; only tokens that were paid for.")


def _asked(run: Run) -> bool:
    modules: list[dict[str, Any]] = (run.manifest.get("usage") or {}).get("modules") or []
    return any(module.get("calls") or module.get("cache_hits") for module in modules)


def _number(value: Any, digits: int) -> Cell:
    return Cell(NONE) if value is None else Cell(f"{float(value):,.{digits}f}", number=float(value))

"""The rows of result tables: what was ranked by which method in which run, of one corpus."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from aeg.evaluation.aggregate import ALL
from aeg.report.chart import Point, Series
from aeg.report.folder import Metric, Run, Source, Sweep

BASELINES = ("dense_atoms", "dense_passages", "bm25")
EVERY_RUN = "in every run"
_AT = re.compile(r"(.+)@(\d+)$")
_NAMES = {
    "mrr": "MRR",
    "answer_accuracy": "answer accuracy",
    "exact_match": "exact match",
    "token_f1": "token F1",
    "rouge_l": "ROUGE-L",
}
_FAMILIES = {
    "recall": "recall",
    "ndcg": "nDCG",
    "evidence_coverage": "evidence coverage",
    "evidence_similarity": "evidence similarity",
}
_PREFERENCE = ("answer_accuracy", "recall@5", "evidence_coverage@512", "recall", "evidence_coverage", "token_f1")


@dataclass(frozen=True, eq=False)
class Entry:
    """A method of a run under the name that a table gives it; `style` numbers its colour."""

    name: str
    run: Run
    method: str
    style: int = 0

    def metric(self, name: str, group: str = ALL) -> Metric | None:
        """One of its averages."""
        return self.run.metric(self.method, name, group)

    @property
    def milliseconds(self) -> float | None:
        """Time of ranking a question, linking and seeding apart."""
        seconds = (self.run.manifest.get("seconds") or {}).get("a_query") or {}
        value = seconds.get(self.method)
        return None if value is None else 1000 * float(value)


@dataclass(frozen=True, eq=False)
class Group:
    """Entries that belong into one table: a run, or the finished elements of a sweep on one corpus.

    Attributes:
        title: the run's or the sweep's name.
        entries: the rows, in order.
        sweep: the sweep that it belongs to, None for a single run.
    """

    title: str
    entries: Sequence[Entry]
    sweep: Sweep | None = None

    @property
    def runs(self) -> list[Run]:
        """Its runs, each once."""
        return list(dict.fromkeys(entry.run for entry in self.entries))

    @property
    def metrics(self) -> list[str]:
        """The metrics that any entry has, in the runs' order."""
        names = dict.fromkeys(metric.metric for run in self.runs for metric in run.metrics)
        return [name for name in names if any(entry.metric(name) for entry in self.entries)]

    @property
    def main(self) -> str | None:
        """The metric that stands for the others: answer accuracy, else recall@5, else evidence coverage."""
        for wanted in _PREFERENCE:
            found = next((name for name in self.metrics if name == wanted or family(name)[0] == wanted), None)
            if found:
                return found
        return next(iter(self.metrics), None)

    @property
    def questions(self) -> int:
        """The most questions that one of its averages is taken over."""
        return max((metric.n for run in self.runs for metric in run.metrics if metric.group == ALL), default=0)

    @property
    def numeric_axes(self) -> list[str]:
        """The axes of its sweep that are numbers in every run, with at least three values here."""
        axes = self.sweep.axes if self.sweep is not None else []
        values = {axis: [run.axes.get(axis) for run in self.runs] for axis in axes}
        return [axis for axis, of in values.items() if all(_is_number(v) for v in of) and len(set(of)) > 2]

    def series(self, prefix: str) -> list[Series]:
        """Each entry's values of a family of metrics, such as `recall`, over its cut-offs."""
        names = [name for name in self.metrics if family(name)[0] == prefix and family(name)[1] is not None]
        found = []
        for entry in self.entries:
            points = [p for name in names if (p := percent_point(entry.metric(name), family(name)[1] or 0))]
            if points:
                found.append(Series(entry.name, sorted(points, key=lambda p: p.x), entry.style))
        return found


def groups(sources: Sequence[Source]) -> list[Group]:
    """Return the tables' groups: each finished run, and each sweep once for each of its corpora."""
    styles: dict[str, int] = {}
    for source in sources:  # the plainest styles go to the methods of single runs
        if isinstance(source, Run) and source.finished:
            for method in source.methods:
                styles.setdefault(method, len(styles))
    found = []
    for source in sources:
        if isinstance(source, Run):
            if source.finished and source.metrics:
                found.append(_styled(source.name, [(m, source, m) for m in source.methods], None, styles))
            continue
        corpora = list(dict.fromkeys(run.corpus for run in source.finished if run.metrics))
        for corpus in corpora:
            runs = [run for run in source.finished if run.metrics and run.corpus == corpus]
            title = source.name if len(corpora) == 1 else f"{source.name}: {corpus}"
            found.append(_styled(title, _rows(runs), source, styles))
    return found


def label(metric: str) -> str:
    """Return a metric's name in words.

    Example:
        >>> label("evidence_coverage@256"), label("ndcg@5"), label("mrr")
        ('evidence coverage@256', 'nDCG@5', 'MRR')
    """
    name, at = family(metric)
    shown = _FAMILIES.get(name, _NAMES.get(name, name.replace("_", " ")))
    return shown if at is None else f"{shown}@{at}"


def capital(text: str) -> str:
    """Return a text with its first letter raised, the others as they are.

    Example:
        >>> capital("token F1")
        'Token F1'
    """
    return text[:1].upper() + text[1:]


def family(metric: str) -> tuple[str, int | None]:
    """Return a metric's name without its cut-off, and the cut-off.

    Example:
        >>> family("recall@5"), family("mrr")
        (('recall', 5), ('mrr', None))
    """
    found = _AT.match(metric)
    return (found[1], int(found[2])) if found else (metric, None)


def percent_point(metric: Metric | None, x: float) -> Point | None:
    """Return an average as a point at `x`, in percent; None where it has no value."""
    if metric is None or metric.value is None:
        return None
    low, high = (None if bound is None else 100 * bound for bound in (metric.low, metric.high))
    return Point(x, 100 * metric.value, low, high)


def _styled(title: str, rows: Sequence[tuple[str, Run, str]], sweep: Sweep | None, styles: dict[str, int]) -> Group:
    entries = [Entry(name, run, method, styles.setdefault(name, len(styles))) for name, run, method in rows]
    return Group(title, entries, sweep)


def _rows(runs: Sequence[Run]) -> list[tuple[str, Run, str]]:
    """Name the entries of a sweep; a method that gave the same in every run stands there once.

    Where nothing differs, only what is retrieved without propagation does, so that the sweep is seen to be flat.
    """
    methods = list(dict.fromkeys(method for run in runs for method in run.methods))
    same = {method for method in methods if len(runs) > 1 and len({_values(run, method) for run in runs}) == 1}
    if len(same) == len(methods):
        same &= set(BASELINES)
    varied = [method for method in methods if method not in same]
    datasets = {str(run.axes.get("dataset", "")) for run in runs}
    told = f"{datasets.pop()}, " if len(datasets) == 1 else ""  # the heading says it
    rows = []
    for run in runs:
        name = run.name.removeprefix(told)
        for method in (method for method in run.methods if method in varied):
            rows.append((name if len(varied) == 1 else f"{method} · {name}", run, method))
    return rows + [(f"{method} ({EVERY_RUN})", runs[0], method) for method in methods if method in same]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _values(run: Run, method: str) -> str:
    """What a method gave; embeddings of other batches round differently, which makes no other method."""
    rows = [m for m in run.metrics if m.method == method]
    return json.dumps([(m.metric, m.group, None if m.value is None else round(m.value, 6)) for m in rows])

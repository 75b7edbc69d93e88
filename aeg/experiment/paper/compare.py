"""A sweep's results beside the paper's: values, signs against the reference row, rank correlation, verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aeg.errors import ConfigError, DataError
from aeg.experiment.paper.agreement import Against, Tau, against, interval, rank_agreement
from aeg.experiment.paper.expected import SOURCES, PaperTable, Reading
from aeg.experiment.paper.values import RunFiles, Sample
from aeg.experiment.sweep.record import FILE, read_sweep

__all__ = ["Against", "Cell", "Comparison", "PaperRow", "Tau", "comparisons", "load_sweep"]

_RESERVED = frozenset({*SOURCES, "metric", "method", "module", "scale", "share", "per"})
_SEED = "seed"


@dataclass(frozen=True)
class Cell:
    """A value of the paper beside ours.

    Attributes:
        paper: the paper's, None where it has none.
        ours: ours, None where there is none (yet).
        low, high: 95 % interval of ours; None where it is no mean over questions.
        n: questions behind it.
        difference: ours − paper, only where both are the same quantity.
        unit: `percent`, or empty.
    """

    paper: float | None
    ours: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    difference: float | None = None
    unit: str = ""


@dataclass(frozen=True)
class PaperRow:
    """A row of the table.

    Attributes:
        cells: by column.
        against: the row against the reference row, on the main column; None where that cannot be told.
        run_id, folder, method: where ours comes from; empty where the paper alone has the row.
    """

    name: str
    cells: Mapping[str, Cell]
    against: Against | None = None
    run_id: str = ""
    folder: str = ""
    method: str = ""


@dataclass(frozen=True)
class Comparison:
    """One reading of one table on one data set and variant.

    Attributes:
        ours: name of our metric.
        facet: the axes that tell this comparison from others of the sweep.
        tau: agreement of our ranking of the rows with the paper's.
        counts: rows by verdict.
        missing: ids of runs that are not finished.
    """

    table: str
    title: str
    measure: str
    ours: str
    same_quantity: bool
    reading: str
    facet: Mapping[str, Any]
    columns: tuple[str, ...]
    rows: tuple[PaperRow, ...]
    main: str | None = None
    reference: str | None = None
    tau: Tau | None = None
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Run:
    id: str
    axes: Mapping[str, Any]
    config: Mapping[str, Any]
    files: RunFiles

    def has(self, key: str, value: Any) -> bool:
        """Whether an axis, or else a key of the config, has this value."""
        return _same(self.axes[key] if key in self.axes else _lookup(self.config, key), value)


def load_sweep(folder: Path) -> dict[str, Any]:
    """Return the `sweep.json` of a sweep's folder.

    Raises:
        DataError: if there is none, or it is of another format.
    """
    return read_sweep(folder.parent if folder.name == FILE else folder)


def comparisons(folder: Path) -> list[Comparison]:
    """Return the paper's table beside a sweep's results: one comparison for each reading, data set and variant.

    A row holds where the paired 95 % interval of ours − reference excludes 0 and its sign is the paper's, fails where
    it is not, and is undecided where the interval includes 0 or the paper's own difference is 0.

    Raises:
        DataError: if the folder is no sweep's.
        ConfigError: if the sweep repeats no table, or its selectors fit several runs.
    """
    sweep = load_sweep(folder)
    where = folder.parent if folder.name == FILE else folder
    if not sweep.get("paper"):
        raise ConfigError(f"{where}: this sweep repeats no table of the paper (its config has no section `paper:`)")
    table = PaperTable.from_section(sweep["paper"])
    runs = [
        _Run(run["id"], run["axes"], run["config"], RunFiles((where / run["folder"]).resolve()))
        for run in sweep["runs"]
    ]
    return [
        _compared(table, reading, facet, some)
        for reading in table.find
        for facet, some in _facets(table, reading, runs)
        if _concerned(reading, some)
    ]


def _facets(table: PaperTable, reading: Reading, runs: Sequence[_Run]) -> Iterator[tuple[dict[str, Any], list[_Run]]]:
    """Groups of runs by the axes that neither rows nor columns name."""
    named = {key for chosen in reading.rows.values() for key in chosen}
    named |= {key for spec in table.columns.values() for key in spec} - _RESERVED
    free = [key for key in dict.fromkeys(key for run in runs for key in run.axes) if key not in named | {_SEED}]
    groups: dict[tuple[str, ...], tuple[dict[str, Any], list[_Run]]] = {}
    for run in runs:
        facet = {key: run.axes[key] for key in free if key in run.axes}
        groups.setdefault(tuple(map(str, facet.values())), (facet, []))[1].append(run)
    yield from groups.values()


def _concerned(reading: Reading, runs: Sequence[_Run]) -> bool:
    """Whether any row of the reading has a run in this group."""
    return any(_fits(run, chosen) for chosen in reading.rows.values() for run in runs)


def _compared(table: PaperTable, reading: Reading, facet: Mapping[str, Any], runs: Sequence[_Run]) -> Comparison:
    dataset = str(facet.get("dataset", ""))
    metric = table.metric_of(dataset)
    found = {name: _Row(table, metric, reading.rows.get(name), runs, dataset) for name in table.rows}
    samples = {name: row.sample(table.main) for name, row in found.items()} if table.main else {}
    base = samples.get(table.reference or "")
    rows = []
    for name, row in found.items():
        cells = {column: _cell(table, name, column, row.sample(column)) for column in table.columns}
        verdict = None
        if table.reference is not None and name != table.reference and table.main is not None:
            verdict = against(_paper(table, name), _paper(table, table.reference), samples[name], base)
        first = row.runs[0] if row.runs else None
        where = (first.id, str(first.files.folder)) if first else ("", "")
        rows.append(PaperRow(name, cells, verdict, *where, row.method or ""))
    ranked = [
        (value, sample) for name, sample in samples.items() if (value := _paper(table, name)) is not None and sample
    ]
    unfinished = dict.fromkeys(run.id for row in found.values() for run in row.runs if not run.files.finished)
    return Comparison(
        table=table.table,
        title=table.title,
        measure=table.measure,
        ours=metric or "as the paper's",
        same_quantity=table.same_quantity,
        reading=reading.name,
        facet=dict(facet),
        columns=tuple(table.columns),
        rows=tuple(rows),
        main=table.main,
        reference=table.reference,
        tau=rank_agreement(ranked) if table.main and len(ranked) > 2 else None,
        notes=table.notes,
        counts=dict(Counter(row.against.verdict for row in rows if row.against)),
        missing=tuple(unfinished),
    )


def _paper(table: PaperTable, row: str) -> float | None:
    return table.value(row, str(table.main))


@dataclass(frozen=True, eq=False)
class _Row:
    """Where one row's cells are found; `chosen` is None for a row that the paper alone has."""

    table: PaperTable
    metric: str
    chosen: Mapping[str, Any] | None
    of: Sequence[_Run]
    dataset: str = ""

    @property
    def method(self) -> str | None:
        """The label of the ranking, where the selector names one."""
        return None if self.chosen is None else self.chosen.get("method")

    @property
    def runs(self) -> list[_Run]:
        """The runs that fit the row."""
        return [] if self.chosen is None else [run for run in self.of if _fits(run, self.chosen)]

    def sample(self, column: str) -> Sample | None:
        """Return the values of a cell; None where there are none."""
        spec = self.table.columns[column]
        if self.chosen is None or not spec:
            return None
        if "mean" in spec:
            parts = [self.sample(one) for one in spec["mean"]]
            return None if any(part is None for part in parts) else Sample.joined([part for part in parts if part])
        runs = [run for run in self.runs if _fits(run, spec) and run.files.finished]
        axes = {key: {str(run.axes.get(key)) for run in runs} for run in runs for key in run.axes if key != _SEED}
        if several := [key for key, values in axes.items() if len(values) > 1]:
            raise ConfigError(
                f"paper.find: {self.chosen} fits runs that differ in {several[0]}; name that axis as well"
            )
        whole = {**spec, **({"module": self.chosen["module"]} if "module" in self.chosen else {})}
        if isinstance(whole.get("group"), Mapping):
            whole["group"] = whole["group"].get(self.dataset, "")
        samples = [run.files.sample(whole, self.metric, self.method) for run in runs]
        return _over_seeds([sample for sample in samples if sample is not None])


def _over_seeds(samples: Sequence[Sample]) -> Sample | None:
    """The mean over runs that differ in their seed only."""
    if not samples:
        return None
    first = samples[0]
    if len(samples) == 1:
        return first
    if first.number is not None:
        return Sample(number=sum(sample.number or 0.0 for sample in samples) / len(samples))
    if any(sample.keys != first.keys for sample in samples):
        raise DataError("runs of different seeds have different questions; run the sweep again")
    return Sample(first.keys, np.mean([sample.values for sample in samples], axis=0), first.strata)


def _cell(table: PaperTable, row: str, column: str, sample: Sample | None) -> Cell:
    paper, spec = table.value(row, column), table.columns[column]
    percent = "group" in spec or "mean" in spec
    if sample is None:
        return Cell(paper, unit="percent" if percent else "")
    if sample.number is not None:
        return Cell(paper, sample.number, difference=_difference(table, sample.number, paper))
    scale = 100.0 if percent else 1.0
    one = interval(sample)
    ours, low, high = (scale * value for value in (one.value, one.low, one.high))
    return Cell(paper, ours, low, high, one.n, _difference(table, ours, paper), "percent" if percent else "")


def _difference(table: PaperTable, ours: float, paper: float | None) -> float | None:
    return ours - paper if table.same_quantity and paper is not None else None


def _fits(run: _Run, selector: Mapping[str, Any]) -> bool:
    return all(run.has(key, value) for key, value in selector.items() if key not in _RESERVED)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float) and not isinstance(one, bool):
        return abs(one - other) < 1e-9
    return bool(one == other)


def _lookup(config: Mapping[str, Any], key: str) -> Any:
    node: Any = config
    for part in key.split("."):
        if isinstance(node, Mapping) and part in node:
            node = node[part]
        elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            return None
    return node

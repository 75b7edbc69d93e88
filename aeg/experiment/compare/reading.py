"""Reading what runs measured: systems by data sets, question by question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from aeg.artifacts import MANIFEST, read_json
from aeg.core.progress import progress
from aeg.errors import DataError
from aeg.experiment.compare.statistics import FloatArray
from aeg.experiment.state import FINISHED, status_of
from aeg.experiment.sweep.record import FILE, read_sweep

_ROUNDING = 1e-6

Key = tuple[str, str]
"""A question: its part and its id."""


@dataclass(frozen=True)
class Source:
    """One method in one run.

    Attributes:
        folder: of the run.
        method: as the results name it.
        variant: the run's place in its sweep, data set and seed left out.
        axes: the values behind it.
        dataset: what the run was made on.
        seed: the sweep's seed of the run.
        origin: the folder that was given, to tell apart what is otherwise called the same.
    """

    folder: Path
    method: str
    variant: str
    axes: Mapping[str, Any] = field(compare=False)
    dataset: str
    seed: int | None
    origin: str


@dataclass
class Results:
    """Values of systems on data sets.

    Attributes:
        questions: by data set, in order.
        types: the question types, likewise.
        values: by (system, data set) and metric, float64 [questions of the data set], NaN where there is none.
        sources: where the values of a system on a data set come from; none for a run file of another system.
        systems: in the order in which they came.
        axes: values of the axes behind each system.
        notes: what a person should know.
        baseline: what the sweeps name as such.
    """

    questions: dict[str, list[Key]] = field(default_factory=dict)
    types: dict[str, list[str]] = field(default_factory=dict)
    values: dict[tuple[str, str], dict[str, FloatArray]] = field(default_factory=dict)
    sources: dict[tuple[str, str], list[Source]] = field(default_factory=dict)
    systems: list[str] = field(default_factory=list)
    axes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    baseline: str | None = None

    @property
    def metrics(self) -> list[str]:
        """The metrics of any system, in the order in which they came."""
        return list(dict.fromkeys(metric for values in self.values.values() for metric in values))


Values = dict[str, dict[Key, float]]
"""By metric, the value of each question."""


def read_results(folders: Sequence[Path]) -> Results:
    """Return what the finished runs in these folders measured; runs that are not finished are noted.

    Args:
        folders: of sweeps and of runs.

    Raises:
        DataError: if a folder is neither, a file is malformed, or nothing is finished.
    """
    found = Results()
    every: dict[tuple[Path, str], Source] = {}
    for source in (source for folder in folders for source in _sources(folder, found)):
        every.setdefault((source.folder.resolve(), source.method), source)  # a run that was given twice
    sources = _told_apart(list(every.values()))
    if not sources:
        raise DataError(f"{folders[0]}: no finished run; {'; '.join(found.notes) or 'run it first'}")
    measured: dict[Source, Values] = {}
    types: dict[str, dict[Key, str]] = {}
    runs = list(dict.fromkeys(source.folder for source in sources))
    for run in progress(runs, len(runs), "reading", "run"):
        of_run = [source for source in sources if source.folder == run]
        for source, values in _measured(run, of_run, types.setdefault(of_run[0].dataset, {})).items():
            measured[source] = values
    _check_data(sources, found)
    for dataset, of_dataset in types.items():
        found.questions[dataset] = sorted(of_dataset)
        found.types[dataset] = [of_dataset[key] for key in found.questions[dataset]]
    methods = {source.method for source in sources if source.variant}  # a bare name: the same in all variants
    for name, group in _named(sources, measured).items():
        found.systems.append(name)
        found.axes[name] = {} if name in methods else group[0].axes
        for dataset in dict.fromkeys(source.dataset for source in group):
            there = [source for source in group if source.dataset == dataset]
            found.sources[name, dataset] = there
            found.values[name, dataset] = _averaged([measured[s] for s in there], found.questions[dataset])
    return found


def _sources(folder: Path, found: Results) -> list[Source]:
    """The methods of a sweep's finished runs, or of one run."""
    if (folder / FILE).is_file():
        content = read_sweep(folder)
        found.baseline = found.baseline or content.get("baseline")
        runs = [(folder.parent / Path(item["folder"]).name, item, folder.name) for item in content["runs"]]
    elif (folder / MANIFEST).is_file() or (folder / "results.parquet").is_file():
        runs = [(folder, {"name": folder.name, "system": "", "axes": {}}, folder.name)]
    else:
        raise DataError(f"{folder}: neither a sweep's folder (sweep.json) nor a run's (manifest.json)")
    sources: list[Source] = []
    for path, item, origin in runs:
        if (status := status_of(path)) != FINISHED:
            found.notes.append(f"left out, not finished: {item['name']} ({path.name}): {status}")
            continue
        axes = {axis: value for axis, value in item["axes"].items() if axis not in ("dataset", "seed")}
        dataset = item["axes"].get("dataset") or corpus_name(read_json(path / MANIFEST)["config"]["corpus"])
        seed = item["axes"].get("seed")
        for method in _methods(path):
            sources.append(Source(path, method, item["system"], axes, dataset, seed, origin))
    return sources


def corpus_name(corpus: Mapping[str, Any]) -> str:
    """Return what a data set is called where no axis names it.

    Example:
        >>> corpus_name({"name": "graphrag_bench", "path": "novel/novel-*"}), corpus_name({"name": "sample"})
        ('novel', 'sample')
    """
    path = str(corpus.get("path") or corpus.get("documents") or "")
    plain = [part for part in PurePosixPath(path).parts if "*" not in part]
    return PurePosixPath(plain[-1]).stem if plain else str(corpus["name"])


def _methods(folder: Path) -> list[str]:
    import pyarrow.parquet as pq

    return list(dict.fromkeys(pq.read_table(folder / "results.parquet", columns=["method"])["method"].to_pylist()))


def _told_apart(sources: list[Source]) -> list[Source]:
    """Put the origin in front of variants that different runs share on one data set and seed."""
    runs: dict[tuple[str, str, int | None], set[Path]] = {}
    for source in sources:
        runs.setdefault((source.variant, source.dataset, source.seed), set()).add(source.folder)
    if all(len(folders) == 1 for folders in runs.values()):
        return sources
    return [
        Source(
            s.folder, s.method, ", ".join(p for p in (s.origin, s.variant) if p), s.axes, s.dataset, s.seed, s.origin
        )
        for s in sources
    ]


def _measured(folder: Path, sources: Sequence[Source], types: dict[Key, str]) -> dict[Source, Values]:
    """The metrics of one run by method, a stochastic method's mean over its seeds."""
    import pyarrow.parquet as pq

    columns = ["part", "question_id", "type", "method", "metrics"]
    gathered: dict[str, dict[str, dict[Key, list[float]]]] = {}
    for name in ("results.parquet", "answers.parquet"):
        if not (folder / name).is_file():
            continue
        for row in pq.read_table(folder / name, columns=columns).to_pylist():
            key = (row["part"], row["question_id"])
            types.setdefault(key, row["type"])
            for metric, value in row["metrics"]:
                gathered.setdefault(row["method"], {}).setdefault(metric, {}).setdefault(key, []).append(value)
    return {
        source: {
            metric: {key: float(np.mean(values)) for key, values in of.items()}
            for metric, of in gathered.get(source.method, {}).items()
        }
        for source in sources
    }


def _named(sources: Sequence[Source], measured: Mapping[Source, Values]) -> dict[str, list[Source]]:
    """The sources of each system, by name; a method that is the same in all variants is one system."""
    variants = list(dict.fromkeys(source.variant for source in sources))
    methods = list(dict.fromkeys(source.method for source in sources))
    constant = {m for m in methods if len(variants) > 1 and _constant([s for s in sources if s.method == m], measured)}
    varied = [method for method in methods if method not in constant]
    if not varied:  # no axis made a difference; that is worth seeing
        constant, varied = set(), methods
    named: dict[str, list[Source]] = {}
    for source in sources:
        if source.method in constant or not source.variant:
            name = source.method
        elif len(varied) == 1:
            name = source.variant
        else:
            name = f"{source.method}, {source.variant}"
        named.setdefault(name, []).append(source)
    for name, group in named.items():
        if name in constant:
            first = {source.dataset: source.variant for source in reversed(group)}
            named[name] = [source for source in group if source.variant == first[source.dataset]]
    return dict(sorted(named.items(), key=lambda item: item[0] in constant))


def _constant(sources: Sequence[Source], measured: Mapping[Source, Values]) -> bool:
    """Whether a method has the same values in every variant, of which there are several."""
    places: dict[tuple[str, int | None], list[Source]] = {}
    for source in sources:
        places.setdefault((source.dataset, source.seed), []).append(source)
    return all(len(group) > 1 for group in places.values()) and all(
        _same(measured[source], measured[group[0]]) for group in places.values() for source in group
    )


def _same(one: Values, other: Values) -> bool:
    """Whether two runs measured the same, but for what the batches of an encoder round differently."""
    return one.keys() == other.keys() and all(
        of.keys() == other[metric].keys() and all(abs(of[key] - other[metric][key]) <= _ROUNDING for key in of)
        for metric, of in one.items()
    )


def _averaged(runs: Sequence[Values], questions: Sequence[Key]) -> dict[str, FloatArray]:
    """The mean over seeds; a question that one of them lacks has none."""
    metrics = dict.fromkeys(metric for run in runs for metric in run)
    return {
        metric: np.mean([[run.get(metric, {}).get(key, np.nan) for key in questions] for run in runs], axis=0)
        for metric in metrics
    }


def _check_data(sources: Iterable[Source], found: Results) -> None:
    """Note data sets whose runs did not have the same documents or questions."""
    seen: dict[str, dict[str, str]] = {}
    for folder, dataset in {source.folder: source.dataset for source in sources}.items():
        parts = read_json(folder / MANIFEST)["parts"]
        content = repr(sorted((label, part.get("data")) for label, part in parts.items()))
        seen.setdefault(dataset, {}).setdefault(content, folder.name)
    for dataset, contents in seen.items():
        if len(contents) > 1:
            found.notes.append(f"{dataset}: runs have different documents: {', '.join(contents.values())}")

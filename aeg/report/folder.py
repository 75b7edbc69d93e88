"""Reading run folders and sweep folders: what finished, and what did not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from aeg.artifacts import MANIFEST
from aeg.errors import AegError, DataError
from aeg.evaluation.aggregate import ALL
from aeg.experiment.state import FINISHED, LOG, MISSING, STATE, state_of, status_of

SWEEP, METRICS = "sweep.json", "metrics.json"
LOG_LINES = 15
_TAIL_BYTES = 64_000
_FORMAT = 1


@dataclass(frozen=True)
class Metric:
    """One average of a run, as a fraction, with its 95 % interval; None where no question has a value."""

    method: str
    metric: str
    group: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    skipped: int = 0
    failed: int = 0


@dataclass(frozen=True, eq=False)
class Run:
    """A run folder.

    Attributes:
        name: the folder's name, or the element's in its sweep.
        folder: where it lies.
        state: `finished`, `running`, `failed`, `interrupted`, `waiting`; `not started` where there is no folder;
            `unfinished` where files are there, but neither a manifest nor a state; `unreadable`.
        error: the last lines of what went wrong, where something did.
        since: when the state began, as the state file says.
        axes: the element's place in its sweep.
        config: the resolved config; empty where it is not known.
        id: the element's id in its sweep.
    """

    name: str
    folder: Path
    state: str
    manifest: dict[str, Any] = field(default_factory=dict)
    metrics: Sequence[Metric] = ()
    error: str = ""
    since: str = ""
    axes: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    id: str = ""

    @property
    def finished(self) -> bool:
        """Whether it has results to show."""
        return self.state == FINISHED

    @property
    def corpus(self) -> str:
        """The data in a word: the last part of its path, else the loader's name."""
        given = self.config.get("corpus") or {}
        return Path(str(given.get("path") or given.get("documents") or given.get("name") or "")).name

    @property
    def parts(self) -> dict[str, dict[str, Any]]:
        """The manifest's facts by corpus."""
        return dict(self.manifest.get("parts") or {})

    @cached_property
    def methods(self) -> list[str]:
        """The methods that were measured, in the run's order."""
        return list(dict.fromkeys(metric.method for metric in self.metrics))

    @cached_property
    def by_key(self) -> dict[tuple[str, str, str], Metric]:
        """The metrics by (method, metric, group)."""
        return {(m.method, m.metric, m.group): m for m in self.metrics}

    def metric(self, method: str, metric: str, group: str = ALL) -> Metric | None:
        """One average, or None."""
        return self.by_key.get((method, metric, group))

    def log_tail(self) -> str:
        """The last lines of the run's log; empty where there is none."""
        path = self.folder / LOG
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            text = file.read().decode("utf-8", errors="replace")
        return "\n".join(text.replace("\r", "\n").rstrip().split("\n")[-LOG_LINES:])


@dataclass(frozen=True, eq=False)
class Sweep:
    """A sweep folder: its elements are runs, finished or not."""

    name: str
    folder: Path
    config: str
    runs: Sequence[Run]
    baseline: str | None = None
    paper: dict[str, Any] | None = None
    command: str = ""

    @property
    def finished(self) -> list[Run]:
        """The elements with results."""
        return [run for run in self.runs if run.finished]

    @property
    def axes(self) -> list[str]:
        """The axes along which its elements differ."""
        names = dict.fromkeys(axis for run in self.runs for axis in run.axes)
        return [name for name in names if len({json.dumps(run.axes.get(name)) for run in self.runs}) > 1]


Source = Run | Sweep


def read(paths: Sequence[Path]) -> list[Source]:
    """Return the runs and sweeps in the folders, in the order given; each folder once.

    A folder that is neither, but holds some, stands for all of them by name; runs that belong to a sweep among
    them appear with their sweep only.

    Raises:
        DataError: if a folder is missing, or neither is nor holds a run or a sweep.
    """
    folders: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            raise DataError(f"{path}: no such folder; give run folders, sweep folders, or a folder that holds them")
        folders.update(dict.fromkeys([path] if _is_source(path) else _inside(path)))
    distinct = {folder.resolve(): folder for folder in reversed(folders)}
    kept = [folder for folder in folders if distinct[folder.resolve()] == folder]
    sources = [read_sweep(folder) if (folder / SWEEP).is_file() else read_run(folder) for folder in kept]
    owned = {run.folder.resolve() for source in sources if isinstance(source, Sweep) for run in source.runs}
    return [s for s in sources if isinstance(s, Sweep) or s.folder.resolve() not in owned]


def read_run(folder: Path, **facts: Any) -> Run:
    """Return the run in a folder, whatever became of it; `facts` are those that its sweep knows."""
    facts.setdefault("name", folder.name)
    if not folder.is_dir():
        return Run(folder=folder, state="not started", **facts)
    try:
        state, told = status_of(folder), state_of(folder)
        if state != FINISHED:
            state = "unfinished" if state == MISSING else state
            return Run(folder=folder, state=state, error=_lines(told.get("error")), since=_since(told), **facts)
        manifest = _object(folder / MANIFEST)
        metrics = _metrics(folder / METRICS)
    except AegError as error:
        return Run(folder=folder, state="unreadable", error=str(error), **facts)
    facts["config"] = manifest.get("config") or facts.get("config") or {}
    return Run(folder=folder, state=FINISHED, manifest=manifest, metrics=metrics, **facts)


def read_sweep(folder: Path) -> Sweep:
    """Return the sweep in a folder.

    Raises:
        DataError: if `sweep.json` is damaged or of another format.
    """
    path = folder / SWEEP
    content = _object(path)
    if content.get("format") != _FORMAT:
        raise DataError(f"{path}: got format {content.get('format')!r}, expected {_FORMAT}; made by another version")
    elements = content.get("runs")
    if not isinstance(elements, list) or not all(isinstance(e, dict) and "folder" in e for e in elements):
        raise DataError(f"{path}: `runs` must be a list of elements, each with its `folder`; run the sweep again")
    runs = [
        read_run(
            folder / str(element["folder"]),
            name=str(element.get("name") or element.get("id") or element["folder"]),
            axes=dict(element.get("axes") or {}),
            config=dict(element.get("config") or {}),
            id=str(element.get("id", "")),
        )
        for element in elements
    ]
    name, config = str(content.get("name", folder.name)), str(content.get("config", ""))
    command = str(content.get("command") or "")
    return Sweep(name, folder, config, runs, content.get("baseline"), content.get("paper"), command)


def _is_source(folder: Path) -> bool:
    names = (SWEEP, MANIFEST, STATE, METRICS, f".{METRICS}.tmp", "results.parquet", ".results.parquet.tmp")
    return any((folder / name).is_file() for name in names)


def _inside(folder: Path) -> list[Path]:
    found = [child for child in sorted(folder.iterdir()) if child.is_dir() and _is_source(child)]
    if not found:
        raise DataError(
            f"{folder}: neither a run folder (manifest.json or state.json) nor a sweep folder (sweep.json), nor does "
            "it hold any; run `aeg run` or `python -m experiments.ablate` first"
        )
    return found


def _object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error}); run it again") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: got a {type(value).__name__}, expected an object; run it again")
    return value


def _metrics(path: Path) -> list[Metric]:
    try:
        return [_metric(row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); run it again") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: damaged ({type(error).__name__}: {error}); run it again") from None


def _metric(row: dict[str, Any]) -> Metric:
    value, low, high = (None if row[key] is None else float(row[key]) for key in ("value", "ci_low", "ci_high"))
    method, metric, group = (str(row[key]) for key in ("method", "metric", "group"))
    counts = int(row["n"]), int(row.get("skipped", 0)), int(row.get("failed", 0))
    return Metric(method, metric, group, value, low, high, *counts)


def _lines(error: Any) -> str:
    return "\n".join(map(str, error)) if isinstance(error, list) else str(error or "")


def _since(state: Mapping[str, Any]) -> str:
    return str(state.get("since") or "")

"""The file `sweep.json`: what a sweep consists of, so that its runs stay what they were when they were queued."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aeg.artifacts import read_json, write_text
from aeg.config.load import parsed, restored, to_plain
from aeg.errors import AegError, ConfigError, DataError
from aeg.experiment.run import PLACES
from aeg.experiment.sweep.expand import expand
from aeg.experiment.sweep.sweep import Sweep, SweepRun

FILE = "sweep.json"
FORMAT = 1


def load_sweep(source: str | Path, overrides: Sequence[str] = ()) -> Sweep:
    """Return the sweep of a config file, or the one recorded in a sweep's folder; every run's methods are looked up.

    Args:
        source: a YAML file, the name of a shipped one, a sweep's folder, or its `sweep.json`.
        overrides: `key.sub=value`; for a recorded sweep, of places only (`artifacts_dir`, `device`, ...).

    Raises:
        ConfigError: if a run's config is wrong; the run is named.
        DataError: if a file is missing or malformed.
    """
    path = Path(source)
    folder = path.parent if path.name == FILE else path
    recorded = (folder / FILE).is_file()
    sweep = _recorded(folder, overrides) if recorded else expand(source, overrides)
    from aeg.pipeline.methods import resolve

    for run in sweep.runs:
        try:
            resolve(run.config)
        except AegError as error:
            raise type(error)(f"run {run.name!r} of {sweep.name}: {error}") from None
    return sweep


def write_sweep(sweep: Sweep) -> Path:
    """Write the sweep's `sweep.json`, unless it was read from there, and return its folder.

    Raises:
        DataError: if the folder cannot be written.
    """
    folder = sweep.folder
    if sweep.place is not None:
        return folder
    words = ["python", "-m", "experiments.ablate", sweep.source, *sweep.overrides]
    content = {
        "format": FORMAT,
        "name": sweep.name,
        "config": sweep.source,
        "overrides": list(sweep.overrides),
        "command": shlex.join(words),
        "baseline": sweep.baseline,
        "paper": sweep.sections.get("paper"),
        "expected": sweep.sections.get("expected"),
        "runs": [_plain(run) for run in sweep.runs],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / FILE, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror}); set run_dir to a writable folder") from None
    return folder


def read_sweep(folder: Path) -> dict[str, Any]:
    """Return the content of a sweep's `sweep.json`.

    Raises:
        DataError: if it is missing, malformed, or of another format.
    """
    content = read_json(folder / FILE)
    if not isinstance(content, dict) or content.get("format") != FORMAT or not content.get("runs"):
        raise DataError(f"{folder / FILE}: not a sweep of format {FORMAT}; write it again by experiments.ablate")
    return content


def _plain(run: SweepRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "name": run.name,
        "system": run.system,
        "axes": dict(run.axes),
        "folder": f"../{run.folder.name}",
        "config": to_plain(run.config),
    }


def _recorded(folder: Path, overrides: Sequence[str]) -> Sweep:
    """The sweep of a folder, its runs beside it wherever it lies now."""
    for key, _ in map(parsed, overrides):
        if key.partition(".")[0] not in PLACES or key == "run_dir":
            allowed = ", ".join(name for name in PLACES if name != "run_dir")
            raise ConfigError(f"override {key}: a recorded sweep keeps its configs; only {allowed} may change")
    content = read_sweep(folder)
    runs = []
    for item in content["runs"]:
        config = restored({**item["config"], "run_dir": str(folder.parent)}, overrides)
        run = SweepRun(item["name"], item["system"], item["axes"], config)
        if run.id != item["id"]:
            raise DataError(
                f"{folder / FILE}: run {item['id']} ({item['name']}) would be {run.id} with this version of the "
                f"framework; run its config again: {content['command']}"
            )
        runs.append(run)
    sections = {name: content[name] for name in ("paper", "expected") if content.get(name) is not None}
    overridden = tuple(content["overrides"])
    return Sweep(content["name"], content["config"], overridden, content["baseline"], sections, tuple(runs), folder)

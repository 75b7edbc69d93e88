"""A sweep in the tracker: one run whose steps are the sweep's runs, in the order of its axes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aeg.artifacts import MANIFEST, read_json
from aeg.claims import Claim
from aeg.config.load import restored
from aeg.config.schema import ExperimentConfig
from aeg.tracking.content import summary
from aeg.tracking.journal import SWEEP, write_journal
from aeg.tracking.mark import content_of, read_mark
from aeg.tracking.process import Mirror
from aeg.tracking.tracker import Report, identity, mode_of, tell

_CLAIM = "tracking.claim"


def track_sweep(folder: Path, report: Report, mode: str | None = None, again: bool = False) -> bool:
    """Log a sweep in its folder and, once all its runs are finished, show it in the tracker of its config.

    Step i has the metrics of the i-th run, by `method/metric`, and its place on the axes. Whoever else is at it does
    it alone; a sweep that was shown with the same metrics is not shown again.

    Args:
        folder: of the sweep, with its `sweep.json`.
        report: takes a line on what became of it.
        mode: `online` or `offline`; None takes the config's.
        again: show it although it was shown before.

    Returns:
        Whether the tracker has it now, or none is wanted.

    Raises:
        DataError: if a file of the sweep or of a run is malformed.
    """
    content = read_json(folder / "sweep.json")
    config = restored(content["runs"][0]["config"])
    steps = {at: _step(folder, run) for at, run in enumerate(content["runs"]) if _finished(folder, run)}
    own = identity(folder, config.tracking, folder.name, SWEEP)
    with Claim(folder / _CLAIM, report, f"tracking of {folder.name}"):
        before = content_of(folder)
        write_journal(folder, own, _told(content), steps)
        chosen = mode or mode_of(config.tracking)
        if len(steps) < len(content["runs"]) or chosen == "disabled":
            return chosen == "disabled"
        written = any(folder.glob("wandb/offline-run-*")) and before == content_of(folder)
        if chosen == "offline" and written and not again:
            return True
        return _shown(folder, config, chosen, report, again)


def _shown(folder: Path, config: ExperimentConfig, mode: str, report: Report, again: bool) -> bool:
    mark = read_mark(folder)
    if mark is not None and mark.content == content_of(folder) and not again:
        return True
    outcome = Mirror(folder, mode, config.tracking.timeout).wait()
    tell(folder, mode, outcome, report)
    return outcome.ok


def _finished(folder: Path, run: Mapping[str, Any]) -> bool:
    return (folder / run["folder"] / MANIFEST).is_file() and (folder / run["folder"] / "metrics.json").is_file()


def _step(folder: Path, run: Mapping[str, Any]) -> dict[str, Any]:
    axes = {f"axis/{key}": value for key, value in run["axes"].items() if isinstance(value, str | int | float)}
    return {"run": run["name"], "id": run["id"], **axes, **summary(read_json(folder / run["folder"] / "metrics.json"))}


def _told(content: Mapping[str, Any]) -> dict[str, Any]:
    """The sweep as its config: what it is of, and the first run's config for what the axes leave alone."""
    runs = [{key: run[key] for key in ("id", "name", "system", "axes")} for run in content["runs"]]
    kept = ("name", "config", "overrides", "command", "baseline")
    return {**{key: content.get(key) for key in kept}, "runs": runs, "first": content["runs"][0]["config"]}

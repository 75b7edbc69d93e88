"""Uploading folders that are finished: once, whatever tracker they ran with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from aeg.artifacts import MANIFEST, read_json
from aeg.config.load import restored
from aeg.config.tracking import TrackingConfig
from aeg.errors import DataError
from aeg.tracking.content import summary
from aeg.tracking.journal import Identity, read_journal, write_journal
from aeg.tracking.mark import content_of, read_mark
from aeg.tracking.process import Mirror
from aeg.tracking.sweep import track_sweep
from aeg.tracking.tracker import identity, tell

Say = Callable[[str], None]


def sync(folder: Path, say: Say, mode: str = "online", again: bool = False, timeout: float | None = None) -> bool:
    """Upload a finished run's folder, or a sweep's folder with all its finished runs.

    Args:
        folder: of a run or a sweep.
        say: takes a line on each.
        mode: `online`, or `offline` to write a folder for `wandb sync`.
        again: send values, tables and files anew; steps that are there are not repeated.
        timeout: seconds for a folder's beginning and end each; None takes the config's.

    Returns:
        Whether all that is finished is there now.

    Raises:
        DataError: if it is no folder of a finished run or of a sweep, or a file is malformed.
    """
    if not (folder / "sweep.json").is_file():
        return _run(folder, say, mode, again, timeout, group=None)
    group, good = folder.name, True
    for run in read_json(folder / "sweep.json")["runs"]:
        place = folder / run["folder"]
        if (place / MANIFEST).is_file():
            good &= _run(place.resolve(), say, mode, again, timeout, group)
        else:
            say(f"{run['name']} ({run['id']}): not finished, passed over")
    return track_sweep(folder, say, mode, again) and good


def _run(folder: Path, say: Say, mode: str, again: bool, timeout: float | None, group: str | None) -> bool:
    if not (folder / MANIFEST).is_file():
        raise DataError(
            f"{folder}: no finished run (no {MANIFEST}); give the folder of a run that has ended, or of a sweep"
        )
    mark = read_mark(folder)
    if mark is not None and mode == "online" and not again:
        changed = "; its metrics have changed since" if mark.content != content_of(folder) else ""
        say(f"{folder.name}: was uploaded on {mark.at} as {mark.url or mark.id}{changed}; --again sends it anew")
        return not changed
    config = _tracking(folder)
    _logged(folder, identity(folder, config, group))
    outcome = Mirror(folder, mode, timeout or config.timeout).wait()
    tell(folder, mode, outcome, lambda line: say(f"{folder.name}: {line}"))
    return outcome.ok


def _tracking(folder: Path) -> TrackingConfig:
    """The tracking that the run's config asked for; defaults for a run from before there was any."""
    config = read_json(folder / MANIFEST)["config"]
    return restored({"tracking": config.get("tracking", {})}).tracking


def _logged(folder: Path, own: Identity) -> None:
    """Make the log of a run that has none, from what the run folder holds."""
    journal = read_journal(folder)
    known = journal.identity
    if known is not None and journal.steps and journal.status == "finished":
        if known.group is None and own.group is not None:  # ran alone, and belongs to a sweep as well
            write_journal(folder, replace(known, group=own.group), journal.config, journal.steps)
        return
    facts = read_json(folder / MANIFEST)
    asked = int(facts.get("questions", 0))
    values = {"questions": asked, **summary(read_json(folder / "metrics.json"))}
    write_journal(folder, known or own, facts["config"], {**journal.steps, max(asked, journal.last + 1): values})

"""Following one run: its log in the run folder, and the tracker that it is shown in."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aeg.artifacts import MANIFEST
from aeg.config.tracking import TrackingConfig
from aeg.errors import PendingBatch
from aeg.tracking.journal import Identity, Writer, valid_id
from aeg.tracking.mark import Mark, content_of, write_mark
from aeg.tracking.process import Mirror, Outcome

Report = Callable[[str], None]
FINISHED, FAILED, INTERRUPTED, WAITING = "finished", "failed", "interrupted", "waiting"
_HASTE = 15.0  # seconds that an interrupted run waits for its tracker: its own time is nearly over
_REMEDY = "the run folder is whole without it; `python -m experiments.sync {}` sends it later"


class Tracker:
    """Takes what a run has to tell while it runs.

    Values are logged by step: the questions that were asked so far. A run that is interrupted and started again logs
    no step twice, as it reads the steps that are logged.

    Args:
        writer: of the run folder's log.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._started = time.perf_counter()
        self._before = 0  # questions of the parts that are done
        self._size = 0  # of the part at hand

    def advanced(self, done: int, total: int) -> None:
        """Take how many of a part's questions are ranked; the last ones are told with the part's measures."""
        self._size = total
        if done < total:
            self._step(self._before + done, {})

    def part(self, asked: int, values: Mapping[str, float]) -> None:
        """Take that a part is done.

        Args:
            asked: questions of all parts so far.
            values: means over them by `method/metric`.
        """
        self._before = asked
        self._step(asked, values)

    def _step(self, questions: int, values: Mapping[str, float]) -> None:
        seconds = round(time.perf_counter() - self._started, 3)
        self._writer.step(questions, {"questions": questions, "seconds": seconds, **values})


def identity(folder: Path, config: TrackingConfig, group: str | None, kind: str = "run") -> Identity:
    """Return what a tracker knows a run folder by.

    Args:
        folder: of the run or the sweep; its name decides the id.
        config: of tracking.
        group: where the config names none.
        kind: `run` or `sweep`.
    """
    return Identity(
        id=valid_id(folder.name),
        name=folder.name,
        kind=kind,
        project=config.project or os.environ.get("WANDB_PROJECT") or "aeg",
        entity=config.entity or os.environ.get("WANDB_ENTITY") or None,
        group=config.group or group,
        tags=tuple(config.tags),
        artifacts=config.artifacts,
    )


def mode_of(config: TrackingConfig) -> str:
    """Return `online`, `offline` or `disabled`."""
    if config.name == "none":
        return "disabled"
    told = config.mode or os.environ.get("WANDB_MODE") or "online"
    return {"online": "online", "offline": "offline", "dryrun": "offline"}.get(told, "disabled")


@contextmanager
def tracked(
    folder: Path, config: TrackingConfig, plain: Mapping[str, Any], group: str | None, report: Report
) -> Iterator[Tracker]:
    """Follow a run for the block: log it in its folder, and show it in the tracker of the config, if there is one.

    Nothing that befalls the tracker reaches the block: it is reported, and the run is uploaded later.

    Args:
        folder: of the run.
        config: of tracking.
        plain: the run's whole config, as plain values.
        group: of runs that belong together: the sweep's.
        report: takes a line on what became of it.
    """
    anew = (folder / MANIFEST).is_file()
    writer = Writer(folder, anew)
    writer.begin(identity(folder, config, group), plain, _now())
    mode = mode_of(config)
    mirror = _started(folder, mode, config, report, follow=True) if mode == "online" else None
    status = FAILED
    try:
        yield Tracker(writer)
        status = FINISHED
    except (KeyboardInterrupt, SystemExit):
        status = INTERRUPTED
        raise
    except PendingBatch:
        status = WAITING
        raise
    finally:
        writer.end(status, _now())
        if mode == "offline" and status == FINISHED:
            mirror = _started(folder, mode, config, report)
        if mirror is not None:
            tell(folder, mode, mirror.wait(_HASTE if status == INTERRUPTED else None), report, status)


def _started(folder: Path, mode: str, config: TrackingConfig, report: Report, follow: bool = False) -> Mirror | None:
    try:
        return Mirror(folder, mode, config.timeout, follow)
    except OSError as error:
        report(f"tracking: wandb ({mode}) cannot be started ({error.strerror}); {_REMEDY.format(folder)}")
        return None


def tell(folder: Path, mode: str, outcome: Outcome, report: Report, status: str = FINISHED) -> None:
    """Report what became of showing a folder, and mark it as uploaded where it was."""
    for note in outcome.notes:
        report(f"tracking: {note}")
    if not outcome.ok:
        report(f"tracking: wandb ({mode}) failed: {outcome.error}; {_REMEDY.format(folder)}")
        return
    if mode == "online" and status == FINISHED:
        name = valid_id(folder.name)
        write_mark(folder, Mark(_now(), "wandb", name, outcome.url, outcome.steps, content_of(folder)))
    where = (
        f" at {outcome.url}" if mode == "online" else f" in {outcome.url}; `wandb sync` or experiments.sync sends it"
    )
    report(f"tracking: wandb ({mode}), {outcome.steps} steps{where}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

"""Running a sweep: what is missing or failed, one run after the other, shared with whoever else is at it."""

from __future__ import annotations

import gc
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from aeg.artifacts import CLAIM, MANIFEST, write_text
from aeg.claims import Claim
from aeg.core.progress import progress_bar
from aeg.errors import AegError, PendingBatch
from aeg.experiment.run import run
from aeg.experiment.state import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    LOG,
    MISSING,
    RUNNING,
    STATE,
    WAITING,
    now,
    state_of,
    status_of,
    whoami,
)
from aeg.experiment.sweep.record import write_sweep
from aeg.experiment.sweep.sweep import Sweep, SweepRun
from aeg.tracking.sweep import track_sweep

Report = Callable[[str], None]
_EXIT = {FAILED: 1, WAITING: PendingBatch.exit_code}


def run_sweep(sweep: Sweep, report: Report, only: Sequence[str] = (), again: bool = False) -> int:
    """Run what is missing, failed or interrupted of a sweep, and return the exit code.

    A run that fails does not stop the others. A run that another process is at is left to it, and waited for at the
    end. `sweep.json` is written first; the sweep's `state.json` and `log.txt` say what happened.

    Args:
        sweep: what `load_sweep` gave.
        report: called with a line a stage and a run.
        only: ids or names of the runs; none for all.
        again: repeat finished runs too.

    Returns:
        0; 1 if a run failed; 75 if none failed and some wait for an offline job of a language model.

    Raises:
        DataError: if `only` names no run, or a folder cannot be written.
    """
    chosen = sweep.chosen(only)
    folder = write_sweep(sweep)
    handler = logging.FileHandler(folder / LOG, encoding="utf-8")
    form = logging.Formatter("%(asctime)sZ %(process)d %(message)s")
    form.converter = time.gmtime
    handler.setFormatter(form)
    log = logging.Logger("aeg.sweep")
    log.addHandler(handler)
    try:
        return _Worker(sweep, chosen, report, log, again).work()
    finally:
        handler.close()


class _Worker:
    """One process that works at a sweep."""

    def __init__(
        self, sweep: Sweep, chosen: Sequence[SweepRun], report: Report, log: logging.Logger, again: bool
    ) -> None:
        self._sweep, self._chosen, self._report, self._logger, self._again = sweep, chosen, report, log, again
        self._began, self._since = time.time(), now()
        self._seconds: dict[str, float] = {}
        self._tried: dict[str, str] = {}
        self._claims = {run.id: Claim(run.folder / CLAIM, report, f"run {run.name}") for run in chosen}
        self._error: str | None = None

    def work(self) -> int:
        """Do what is to be done, and return the exit code."""
        waiting = [run for run in self._chosen if self._again or status_of(run.folder) != FINISHED]
        found = len(self._chosen) - len(waiting)
        self._tell(f"{self._sweep.name}: {len(self._chosen)} runs, {found} of them finished; in {self._sweep.folder}")
        self._write(RUNNING)
        try:
            with progress_bar(len(waiting), "sweep", "run") as bar:
                self._all(waiting, bar)
        except (KeyboardInterrupt, SystemExit):
            self._error = "interrupted; the same command goes on"
            self._logger.info(self._error)
            self._write(INTERRUPTED)
            raise
        return self._ended()

    def _all(self, waiting: list[SweepRun], bar: Any) -> None:
        total = len(waiting)
        while waiting:
            for item in list(waiting):
                if self._claims[item.id].try_acquire():
                    self._one(item, total)
                    waiting.remove(item)
                    bar.update()
            if waiting and self._awaited(waiting[0]):  # others are at these
                self._tried[waiting[0].id] = status_of(waiting[0].folder)
                waiting.pop(0)
                bar.update()

    def _awaited(self, run: SweepRun) -> bool:
        """Wait for another process at a run; False if it left the run to this one."""
        return not self._claims[run.id].acquire(done=lambda: self._theirs(run))

    def _theirs(self, run: SweepRun) -> bool:
        """Whether another process has finished with a run since this one began, well or not."""
        status = status_of(run.folder)
        if status == FINISHED:
            return self._there(run)
        return status in (FAILED, WAITING) and (run.folder / STATE).stat().st_mtime > self._began

    def _one(self, run: SweepRun, total: int) -> None:
        """Run what is claimed, unless another process did it meanwhile."""
        with self._claims[run.id] as claim:
            if self._there(run):
                self._tried[run.id] = FINISHED
                return
            self._logger.info("begun: %s (%s)", run.name, run.id)
            self._report(f"run {len(self._tried) + 1} of {total}: {run.name} ({run.id})")
            self._write(RUNNING, at=run.id)
            started = time.perf_counter()
            status = self._attempt(run, claim)
            self._seconds[run.id] = time.perf_counter() - started
            self._tried[run.id] = status
        gc.collect()
        left = total - len(self._tried)
        self._tell(
            f"{status}: {run.name} ({run.id}) in {self._seconds[run.id]:.1f} s; {left} to go"
            + (f", about {left * self._last():.0f} s" if left else "")
        )
        self._write(RUNNING)

    def _there(self, run: SweepRun) -> bool:
        """Whether a run is finished, and since this process began where finished runs are to be repeated."""
        file = run.folder / MANIFEST
        return file.is_file() and (not self._again or file.stat().st_mtime > self._began)

    def _attempt(self, item: SweepRun, claim: Claim) -> str:
        try:
            run(item.config, self._report, claim=claim, group=self._sweep.folder.name)
        except PendingBatch as error:
            self._tell(f"waiting: {item.name} ({item.id}): {error}")
            return WAITING
        except AegError as error:
            self._tell(f"failed: {item.name} ({item.id}): {error}")
            return FAILED
        except Exception:  # whatever it is, the other runs go on
            self._logger.exception("failed: %s (%s)", item.name, item.id)
            self._report(f"failed: {item.name} ({item.id}); the traceback is in {item.folder / LOG}")
            return FAILED
        return FINISHED

    def _ended(self) -> int:
        counts = Counter(self._status(run) for run in self._chosen)
        for item in self._chosen:
            if (became := self._status(item)) in (FAILED, WAITING):
                reason = " ".join(str(state_of(item.folder).get("error") or "").split())
                self._tell(f"{became}: {item.name} ({item.id}): {reason}")
        self._tell(f"{self._sweep.name}: " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items())))
        whole = {self._status(run) for run in self._sweep.runs}
        self._write(next((of for of in (FAILED, RUNNING, WAITING, INTERRUPTED, MISSING) if of in whole), FINISHED))
        self._track()
        return next((code for status, code in _EXIT.items() if counts[status]), 0)

    def _track(self) -> None:
        """Log the sweep, and show it in its tracker once all its runs are finished; a failure is no failure of it."""
        try:
            track_sweep(self._sweep.folder, self._tell)
        except AegError as error:
            self._tell(f"tracking: {error}")

    def _status(self, run: SweepRun) -> str:
        return self._tried.get(run.id) or status_of(run.folder)

    def _last(self) -> float:
        """Seconds of the last run: the first one of a sweep builds what the others find."""
        return list(self._seconds.values())[-1]

    def _tell(self, line: str) -> None:
        self._logger.info(line)
        self._report(line)

    def _write(self, status: str, at: str | None = None) -> None:
        runs = {run.id: self._status(run) for run in self._sweep.runs} | ({at: RUNNING} if at else {})
        done = sum(status == FINISHED for status in runs.values())
        left = len(self._chosen) - len(self._tried)
        state = {
            "status": INTERRUPTED if status == MISSING else status,
            "since": self._since,
            "updated": now(),
            **whoami(),
            "error": self._error,
            "runs": runs,
            "done": done,
            "total": len(runs),
            "seconds": {name: round(seconds, 3) for name, seconds in self._seconds.items()},
            "eta_seconds": round(left * self._last(), 1) if self._seconds and status == RUNNING else None,
        }
        write_text(self._sweep.folder / STATE, json.dumps(state, indent=1, ensure_ascii=False) + "\n")

"""What became of the runs of a sweep: by their folders, and by Slurm's queue where there is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aeg.artifacts import MANIFEST, read_json
from aeg.cluster.queue import ACTIVE, DONE, WAITING, Job, jobs_of
from aeg.cluster.submission import Submission, submissions
from aeg.errors import DataError
from aeg.experiment.state import FAILED, FINISHED, INTERRUPTED, LOG, MISSING, RUNNING, state_of, status_of
from aeg.experiment.state import WAITING as WAITS_FOR_BATCH

QUEUED, CANCELLED = "queued", "cancelled"
ORDER = (FINISHED, RUNNING, QUEUED, WAITS_FOR_BATCH, INTERRUPTED, FAILED, CANCELLED, MISSING)
_LINES = 5  # of a log
_SWEEP = "sweep.json"


@dataclass(frozen=True)
class RunStatus:
    """What became of one run.

    Attributes:
        id, name: of the run.
        status: `finished`; `running`; `queued`: Slurm will start it, or start it again; `waiting`: for an offline
            batch job; `interrupted`: it stopped and nobody will go on; `failed`; `cancelled`; `missing`: nothing began.
        job: Slurm's id, empty without one.
        slurm: Slurm's state, with its reason.
        part, parts: the corpus that it is at, and its place among how many; empty where not known.
        done, total: questions ranked by all methods, of that corpus.
        attempts: how often the run was begun.
        error: what a failed run said.
        log: the last lines of its log, where it failed.
    """

    id: str
    name: str
    status: str
    job: str = ""
    slurm: str = ""
    part: str = ""
    parts: tuple[int, int] | tuple[()] = ()
    done: int = 0
    total: int = 0
    attempts: int = 0
    error: str = ""
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class SweepStatus:
    """What became of a sweep.

    Attributes:
        name, folder: of the sweep.
        slurm: whether Slurm told of any job.
        jobs: state of the index and report jobs of the last submission, by what they do.
        runs: in the sweep's order.
    """

    name: str
    folder: str
    slurm: bool
    jobs: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[RunStatus, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Runs by status, those that there are."""
        found = Counter(run.status for run in self.runs)
        return {status: found[status] for status in ORDER if found[status]}

    def plain(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self) | {"counts": self.counts}


def status(folder: Path, queue: bool = True) -> SweepStatus:
    """Return what became of the runs of a sweep, or of one run.

    Args:
        folder: of the sweep, or of a run.
        queue: ask Slurm too.

    Raises:
        DataError: if it is neither.
    """
    if not (folder / _SWEEP).is_file():
        return _single(folder, queue)
    sweep = read_json(folder / _SWEEP)
    if not isinstance(sweep, dict) or not sweep.get("runs"):
        raise DataError(f"{folder / _SWEEP}: not a sweep's file; write it again by experiments.ablate")
    sent = submissions(folder)
    numbers = sorted({number for one in sent for number in one.numbers})
    jobs = jobs_of(numbers) if queue else None
    runs = tuple(
        _run(item["id"], item["name"], folder / item["folder"], folder, _latest(sent, item["id"]), jobs)
        for item in sweep["runs"]
    )
    return SweepStatus(sweep["name"], str(folder), bool(jobs), _service(sent, jobs), runs)


def described(found: SweepStatus) -> str:
    """Return a status in words, a line a run; failed runs with the last lines of their logs."""
    head = ", ".join(f"{count} {name}" for name, count in found.counts.items()) or "no runs"
    lines = [f"{found.name}: {head} ({found.folder})"]
    lines += [f"  {what} job {state}" for what, state in found.jobs.items()]
    width = max((len(run.name) for run in found.runs), default=0)
    for run in found.runs:
        facts = [_questions(run), f"job {run.job} {run.slurm}" if run.job else ""]
        facts += [f"begun {run.attempts} times" if run.attempts > 1 else ""]
        told = "; ".join(fact for fact in facts if fact)
        lines.append(f"  {run.id}  {run.status:<11}  {run.name:<{width}}  {told}".rstrip())
        if run.error:
            lines.append(f"            {run.error}")
        lines += [f"            | {line}" for line in run.log]
    return "\n".join(lines)


def _questions(run: RunStatus) -> str:
    if not run.total:
        return ""
    part = f", part {run.part} ({run.parts[0]} of {run.parts[1]})" if run.part and len(run.parts) == 2 else ""
    return f"{run.done:,} of {run.total:,} questions{part}"


def _latest(sent: Sequence[Submission], run: str) -> str:
    """The element of the last submission that has the run; empty where none has."""
    return next((element for one in reversed(sent) if (element := one.element(run)) is not None), "")


def _run(
    run: str, name: str, folder: Path, sweep: Path | None, element: str, jobs: Mapping[str, Job] | None
) -> RunStatus:
    own, state = status_of(folder), state_of(folder)
    job = (jobs or {}).get(element)
    if job is not None and job.state in WAITING and own == RUNNING and state.get("job") == job.number:
        own = INTERRUPTED  # its claim has not expired yet, but it waits to be started again
    what = _combined(own, job)
    questions, parts = state.get("questions") or {}, state.get("parts") or ()
    bad = what in (FAILED, INTERRUPTED, CANCELLED)
    error = str(state.get("error") or "") if bad and own in (FAILED, INTERRUPTED) else ""
    if bad and not error and job is not None:
        error = f"ended by Slurm: {_slurm(job)}"
    log = _log(folder, sweep, element) if what in (FAILED, INTERRUPTED) else ()
    return RunStatus(
        id=run,
        name=name,
        status=what,
        job=element,
        slurm="" if job is None else _slurm(job),
        part=str(questions.get("part", "")),
        parts=tuple(parts),
        done=int(questions.get("done", 0)),
        total=int(questions.get("total", 0)),
        attempts=_attempts(folder),
        error=error,
        log=log,
    )


def _combined(own: str, job: Job | None) -> str:
    """What a run is by its folder and its job: the folder says what was reached, the job what will come."""
    if own == FINISHED:
        return FINISHED
    if job is None or job.state == DONE:
        return own
    if job.state in WAITING:
        return RUNNING if own == RUNNING else QUEUED
    if job.state in ACTIVE:
        return RUNNING
    if job.state == "CANCELLED":
        return CANCELLED if own in (MISSING, RUNNING, INTERRUPTED) else own
    return WAITS_FOR_BATCH if own == WAITS_FOR_BATCH else FAILED


def _slurm(job: Job) -> str:
    return f"{job.state} ({job.reason})" if job.reason else job.state


def _service(sent: Sequence[Submission], jobs: Mapping[str, Job] | None) -> dict[str, str]:
    if not sent:
        return {}
    found = {}
    for what, number in (("index", sent[-1].index), ("report", sent[-1].report)):
        if number is not None:
            job = (jobs or {}).get(str(number))
            found[what] = f"{number} {_slurm(job) if job is not None else 'not known to Slurm'}"
    return found


def _attempts(folder: Path) -> int:
    file = folder / LOG
    if not file.is_file():
        return 0
    return sum(" INFO begun by process " in line for line in _lines(file))


def _log(folder: Path, sweep: Path | None, element: str) -> tuple[str, ...]:
    """The last lines of the job's log where there is one, else of the run's."""
    files = [] if sweep is None or not element else [sweep / "logs" / f"runs-{element}.log"]
    for file in [*files, folder / LOG]:
        lines = [line for line in _lines(file) if line.strip()] if file.is_file() else []
        if lines:
            return tuple(lines[-_LINES:])
    return ()


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines()


def _single(folder: Path, queue: bool) -> SweepStatus:
    """A run's own folder."""
    state = state_of(folder)
    if not state and not (folder / MANIFEST).is_file():
        raise DataError(f"{folder}: neither a sweep's folder nor a run's; give one that experiments.submit named")
    number = str(state.get("job", ""))
    jobs = jobs_of([int(number)]) if queue and number.isdigit() else None
    name, _, run = folder.resolve().name.rpartition("-")
    found = _run(run, name, folder, None, number, jobs)
    return SweepStatus(name, str(folder), bool(jobs), {}, (found,))

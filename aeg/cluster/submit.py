"""Submitting a sweep: index, then its runs as an array that depends on it, then the report that depends on all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aeg.artifacts import write_text
from aeg.cluster.queue import cancel, jobs_of, submitted
from aeg.cluster.script import filled, template
from aeg.cluster.snapshot import Snapshot, absolute, snapshot
from aeg.cluster.submission import Submission, record, submissions
from aeg.config.load import data_root
from aeg.errors import AegError, DataError
from aeg.experiment.state import FINISHED, status_of
from aeg.experiment.sweep import Sweep
from aeg.experiment.sweep.record import write_sweep

INDEX, ARRAY, REPORT = "index", "array", "report"


@dataclass(frozen=True)
class Wishes:
    """What the jobs are to get.

    Attributes:
        options: of sbatch for all jobs, by long name: partition, account, qos, ...
        index, array, report: further ones for the jobs that are named.
        gpus: on each node, for a run (and the index).
        nodes: for each run.
        processes: on each node, for each run; None is one for each GPU.
        max_parallel: elements of the array that run at once; None sets no limit.
        grace: seconds before the time limit at which a job is told to save.
        settings: of the templates: `AEG_PYTHON`, `AEG_SITE`, `AEG_CONTAINER`, ...
        server: a model that each run serves itself by vLLM; None for none.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    index: Mapping[str, str] = field(default_factory=dict)
    array: Mapping[str, str] = field(default_factory=dict)
    report: Mapping[str, str] = field(default_factory=dict)
    gpus: str = ""
    nodes: int = 1
    processes: int | None = None
    max_parallel: int | None = None
    grace: int = 120
    settings: Mapping[str, str] = field(default_factory=dict)
    server: str | None = None

    @property
    def several(self) -> bool:
        """Whether a run is of several processes."""
        if self.server is not None:
            return False
        count = self.gpus.rpartition(":")[2]
        gpus = int(count) if count.isdigit() else 0
        return self.nodes > 1 or (self.processes or gpus) > 1


@dataclass(frozen=True)
class Plan:
    """The scripts of a sweep's jobs, and what they run.

    Attributes:
        sweep: its runs' places absolute.
        snapshot: what the jobs run.
        tasks: id of the run by element of the array; runs that are finished, or in the queue, are none.
        scripts: by job.
        passed: runs that are left out, by why.
    """

    sweep: Sweep
    snapshot: Snapshot
    tasks: Mapping[int, str]
    scripts: Mapping[str, str]
    passed: Mapping[str, Sequence[str]]


def fixed(sweep: Sweep) -> Sweep:
    """Return the sweep with places that do not depend on the working folder or the environment."""
    runs = tuple(dataclasses.replace(run, config=absolute(run.config, data_root(run.config))) for run in sweep.runs)
    return dataclasses.replace(sweep, runs=runs)


def plan(sweep: Sweep, wishes: Wishes, with_index: bool = True) -> Plan:
    """Return the jobs of a sweep; nothing is written or submitted.

    Raises:
        ConfigError: if a plugin is missing, or an option cannot be given.
        DataError: if there is nothing left to run.
    """
    sweep = fixed(sweep)
    folder = sweep.folder
    queued = _queued(folder)
    finished = [run.id for run in sweep.runs if status_of(run.folder) == FINISHED]
    passed = {"finished": finished, "in the queue": [i for i in queued if i not in finished]}
    left = {at: run.id for at, run in enumerate(sweep.runs) if run.id not in (*finished, *queued)}
    if not left:
        why = ", ".join(f"{len(runs)} {name}" for name, runs in passed.items() if runs)
        raise DataError(f"{sweep.name}: nothing to submit: {why}; see `python -m experiments.status {folder}`")
    shot = snapshot(sweep, folder / "snapshots")
    scripts = {}
    if with_index:
        scripts[INDEX] = _script(INDEX, "index", sweep, shot, wishes)
    runner = "vllm_server" if wishes.server is not None else "evaluate" if wishes.several else "array"
    scripts[ARRAY] = _script(ARRAY, runner, sweep, shot, wishes, _tasks(left, wishes.max_parallel))
    scripts[REPORT] = _script(REPORT, "report", sweep, shot, wishes)
    return Plan(sweep, shot, left, scripts, passed)


def submit(planned: Plan, say: Callable[[str], None]) -> Submission:
    """Write the sweep's folder and the snapshot, and submit the jobs.

    The array starts when the index is done; if the index fails, Slurm cancels it. The report starts when all
    elements have ended, whatever way.

    Raises:
        DataError: if Slurm refuses a job; those that were submitted before are cancelled.
    """
    folder = write_sweep(planned.sweep)
    planned.snapshot.write()
    before = submissions(folder)
    scripts = folder / "scripts"
    for place in (scripts, folder / "logs"):
        place.mkdir(exist_ok=True)
    numbers: dict[str, int] = {}
    try:
        for name, text in planned.scripts.items():
            file = scripts / f"{len(before):03d}-{name}.sbatch"
            write_text(file, text)
            numbers[name] = submitted(file, *_dependency(name, numbers))
            say(f"{name}: job {numbers[name]} ({file})")
    except AegError:
        cancel(list(numbers.values()))
        raise
    tasks = {str(task): run for task, run in planned.tasks.items()}
    new = Submission(
        planned.snapshot.folder.name, numbers.get(INDEX), numbers[ARRAY], numbers[REPORT], tasks, options={}
    )
    record(folder, before, new)
    return new


def _dependency(name: str, numbers: Mapping[str, int]) -> list[str]:
    """Options that make a job wait; one whose condition can no longer be met is cancelled, not left waiting."""
    if name == ARRAY and INDEX in numbers:
        return [f"--dependency=afterok:{numbers[INDEX]}", "--kill-on-invalid-dep=yes"]
    if name == REPORT:
        return [f"--dependency=afterany:{numbers[ARRAY]}"]
    return []


def _queued(folder: Path) -> list[str]:
    """Runs that an earlier submission still has in Slurm's queue."""
    sent = submissions(folder)
    jobs = jobs_of([one.array for one in sent if one.array is not None]) or {}
    found = []
    for one in sent:
        for run in one.tasks.values():
            job = jobs.get(one.element(run) or "")
            if job is not None and job.alive:
                found.append(run)
    return found


def _script(
    name: str, kind: str, sweep: Sweep, shot: Snapshot, wishes: Wishes, more: Mapping[str, str | None] | None = None
) -> str:
    text = template(kind)
    log = "runs-%A_%a" if name == ARRAY else f"{name}-%j"
    options: dict[str, str | None] = {
        "job-name": f"{sweep.name}-{name}",
        "output": f"{sweep.folder}/logs/{log}.log",
        "chdir": str(Path.cwd()),
        **wishes.options,
        **(more or {}),
    }
    if name != REPORT:
        options["signal"] = f"B:USR1@{wishes.grace}"
        if wishes.gpus:
            options["gpus-per-node"] = wishes.gpus
    if name == ARRAY and wishes.nodes > 1:
        options["nodes"] = str(wishes.nodes)
    options |= {INDEX: wishes.index, ARRAY: wishes.array, REPORT: wishes.report}[name]
    settings = {
        "AEG_HOME": str(shot.home),
        "AEG_WHAT": str(sweep.folder if name == REPORT else shot.folder),
        **wishes.settings,
    }
    if kind == "vllm_server" and wishes.server is not None:
        settings["AEG_MODEL"] = wishes.server
    if kind == "evaluate" and wishes.processes is not None:
        settings["AEG_PROCESSES"] = str(wishes.processes)
    return filled(text, options, settings)


def _tasks(left: Mapping[int, str], most: int | None) -> dict[str, str | None]:
    """The option `--array`, consecutive elements as ranges.

    Example:
        >>> _tasks({0: "a", 1: "b", 2: "c", 5: "d"}, 2)
        {'array': '0-2,5%2'}
    """
    ranges: list[list[int]] = []
    for task in sorted(left):
        if ranges and ranges[-1][1] == task - 1:
            ranges[-1][1] = task
        else:
            ranges.append([task, task])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
    return {"array": text + (f"%{most}" if most else "")}

"""Slurm's side: submitting, and what became of jobs, with and without its accounting."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aeg.errors import DataError, DependencyError

WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
ACTIVE = ("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
DONE = "COMPLETED"
_SECONDS = 60.0


@dataclass(frozen=True)
class Job:
    """A job, or an element of an array.

    Attributes:
        id: `12`, or `12_3` for an element.
        state: Slurm's, in full: `PENDING`, `RUNNING`, `COMPLETED`, `FAILED`, `CANCELLED`, `TIMEOUT`, ...
        reason: why it waits, or how it ended; empty where there is none.
        node: where it runs or ran.
        number: an element's own number, which it knows itself by; empty where not known.
    """

    id: str
    state: str
    reason: str = ""
    node: str = ""
    number: str = ""

    @property
    def alive(self) -> bool:
        """Whether it waits or runs."""
        return self.state in WAITING or self.state in ACTIVE


def submitted(script: Path, *options: str) -> int:
    """Submit a script and return the job's number.

    Raises:
        DependencyError: if there is no sbatch.
        DataError: if Slurm refuses it; the message is Slurm's.
    """
    done = _run(["sbatch", "--parsable", *options, str(script)])
    if done is None:
        raise DependencyError("sbatch: not found; submit from a login node of the cluster, or look with --dry-run")
    if done.returncode:
        raise DataError(f"sbatch {script.name}: {' '.join((done.stderr or done.stdout).split())}")
    return int(done.stdout.strip().split(";")[0])


def cancel(jobs: Sequence[int]) -> None:
    """Cancel jobs; those that have ended are passed over."""
    if jobs:
        _run(["scancel", *map(str, jobs)])


def jobs_of(numbers: Sequence[int]) -> dict[str, Job] | None:
    """Return what is known of jobs and of the elements of arrays, by id; None where there is no Slurm.

    squeue tells what is in the queue and what left it a short while ago; scontrol likewise where squeue is of no use;
    accounting, where the cluster has it, tells the rest.
    """
    if not numbers:
        return {}
    if all(shutil.which(program) is None for program in ("squeue", "scontrol", "sacct")):
        return None
    found = _accounted(numbers)
    queued = _queued(numbers)
    return {**found, **(_controlled(numbers) if queued is None else queued)}


def _queued(numbers: Sequence[int]) -> dict[str, Job] | None:
    """By squeue, which fails where it knows none of the jobs; None where it cannot be asked."""
    form = "%A|%F|%K|%T|%r|%N"
    done = _run(["squeue", "--noheader", "--array", "--states=all", f"--format={form}", f"--jobs={_list(numbers)}"])
    if done is None or (done.returncode and "Invalid job id" not in done.stderr):
        return None
    found = {}
    for line in done.stdout.splitlines():
        fields = line.split("|")
        if len(fields) == 6:
            job, array, task, state, reason, node = (part.strip() for part in fields)
            name = f"{array}_{task}" if task.isdigit() else job
            found[name] = Job(name, state, "" if reason == "None" else reason, node, job)
    return found


def _controlled(numbers: Sequence[int]) -> dict[str, Job]:
    found = {}
    for number in numbers:
        done = _run(["scontrol", "show", "job", str(number), "--oneliner"])
        for line in done.stdout.splitlines() if done is not None and not done.returncode else ():
            fields = dict(part.partition("=")[::2] for part in line.split())
            if "JobState" not in fields:
                continue
            task = fields.get("ArrayTaskId", "")
            reason = fields.get("Reason", "None")
            kept = "" if reason == "None" else reason
            for name in _elements(number, task) if task else [fields["JobId"]]:
                found[name] = Job(name, fields["JobState"], kept, fields.get("NodeList", ""), fields["JobId"])
    return found


def _accounted(numbers: Sequence[int]) -> dict[str, Job]:
    """By sacct, which exits with an error where the cluster keeps no accounts."""
    form = "--format=JobID,State,Reason,NodeList"
    done = _run(
        ["sacct", "--noheader", "--allocations", "--parsable2", "--duplicates", form, f"--jobs={_list(numbers)}"]
    )
    if done is None or done.returncode:
        return {}
    found = {}
    for line in done.stdout.splitlines():
        fields = line.split("|")
        if len(fields) == 4 and "[" not in fields[0]:
            name, state, reason, node = fields
            words = state.split()  # "CANCELLED by 1000"
            found[name] = Job(name, words[0], "" if reason == "None" else reason, node)
    return found


def _elements(number: int, tasks: str) -> list[str]:
    """The elements that scontrol shows in one line while they wait.

    Example:
        >>> _elements(7, "0,2-4%2")
        ['7_0', '7_2', '7_3', '7_4']
    """
    found = []
    for part in tasks.partition("%")[0].split(","):
        first, _, last = part.partition("-")
        step = 1
        if ":" in last:
            last, _, width = last.partition(":")
            step = int(width)
        found += [f"{number}_{at}" for at in range(int(first), int(last or first) + 1, step)]
    return found


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """None where there is no such program, or it does not answer."""
    if shutil.which(command[0]) is None:
        return None
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return None

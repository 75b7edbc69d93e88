"""`aeg ablate`: the runs of a sweep, those that are missing or failed."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aeg.cli.terminal import Reporter, say

if TYPE_CHECKING:
    from aeg.experiment.sweep import Sweep, SweepRun


def main(arguments: Sequence[str]) -> int:
    """List or run the sweep that the arguments name, and return the exit code."""
    given = _parser().parse_intermixed_args(arguments)
    if given.jobs < 1:
        _parser().error(f"--jobs: got {given.jobs}, expected at least 1")
    from aeg.backends.group import led

    return led(lambda: _ablate(given))


def _ablate(given: argparse.Namespace) -> int:
    from aeg.backends.group import group
    from aeg.errors import ConfigError
    from aeg.experiment.sweep import load_sweep, run_sweep
    from aeg.experiment.sweep.record import write_sweep

    sweep = load_sweep(given.config, given.overrides)
    chosen = sweep.chosen(given.only or ())
    if given.list:
        write_sweep(sweep)
        _list(chosen, given.json)
        return 0
    report = Reporter()
    for line in _notes(sweep):
        report(line)
    if given.jobs > 1:
        if group().size > 1:
            raise ConfigError(f"--jobs: got {given.jobs} in a group of {group().size} processes; leave one of them out")
        write_sweep(sweep)
        code = _shared(sweep, given)
    else:
        code = run_sweep(sweep, report, given.only or (), given.again)
    _list(chosen, given.json)
    if not given.json:
        say(f"\nsweep folder: {sweep.folder}\ncompare:      python -m experiments.compare {sweep.folder}")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="aeg ablate", description="Run the runs of a sweep that are missing or failed; they share cached stages."
    )
    parser.add_argument(
        "config", help="a YAML file with a section 'sweep', the name of a shipped one, or a sweep folder"
    )
    parser.add_argument("--list", action="store_true", help="print id, state and name of each run, and stop")
    parser.add_argument("--json", action="store_true", help="print the runs as JSON")
    parser.add_argument("--only", action="append", metavar="ID", help="run this one only (may be given more than once)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that share the runs")
    parser.add_argument("--again", action="store_true", help="repeat finished runs too")
    parser.add_argument("overrides", nargs="*", metavar="key.sub=value", help="override the config")
    return parser


def _list(runs: Sequence[SweepRun], as_json: bool) -> None:
    from aeg.experiment.state import status_of

    rows: list[dict[str, Any]] = [
        {
            "id": run.id,
            "name": run.name,
            "state": status_of(run.folder),
            "folder": str(run.folder),
            "axes": dict(run.axes),
        }
        for run in runs
    ]
    if as_json:
        say(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    for row in rows:
        say(f"{row['id']}  {row['state']:<11}  {row['name']}")


def _notes(sweep: Sweep) -> list[str]:
    """What a person would want to know before the sweep begins."""
    from aeg.pipeline.methods import resolve

    if len({run.axes.get("seed") for run in sweep.runs}) < 2:
        return []
    chance = any(item.method.stochastic for run in sweep.runs[:1] for item in resolve(run.config).propagation)
    return [] if chance else ["note: the sweep has several seeds, but no method of chance; its runs give the same"]


def _shared(sweep: Sweep, given: argparse.Namespace) -> int:
    """Run the sweep by several processes, which claim its runs one by one."""
    command = [sys.executable, "-m", "aeg", "ablate", str(sweep.folder)]
    command += [f"--only={name}" for name in given.only or ()] + (["--again"] if given.again else [])
    command += given.overrides if sweep.place is not None else []  # else they are in sweep.json
    threads = str(max(1, len(os.sched_getaffinity(0)) // given.jobs))
    environment = {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads, **os.environ}
    workers = [
        subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)  # what they print is printed here once
        for _ in range(given.jobs)
    ]
    try:
        codes = [worker.wait() for worker in workers]
    except BaseException:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()
        raise
    return next((code for code in (1, 75) if code in codes), max(abs(code) for code in codes))

"""`python -m experiments.submit CONFIG --partition P ... [key.sub=value ...]`: a sweep as jobs of Slurm."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aeg.errors import AegError

_PASSED = ("partition", "account", "qos", "time", "mem", "constraint", "reservation")


def main(arguments: Sequence[str] | None = None) -> int:
    """Submit the jobs, or print their scripts; return 0, or 2 on wrong input."""
    given = _parser().parse_intermixed_args(arguments)
    from aeg.cluster.submit import plan, submit
    from aeg.experiment.sweep import load_sweep

    try:
        planned = plan(load_sweep(given.config, given.overrides), _wishes(given), not given.no_index)
        say = _quiet if given.dry_run else print
        _tell(planned, say)
        if given.dry_run:
            for name, text in planned.scripts.items():
                print(f"# ==== {name}\n{text}")
            return 0
        if not given.no_doctor and (code := _doctor(given)):
            print("error: see above; --no-doctor submits all the same", file=sys.stderr)
            return code
        submit(planned, print)
    except AegError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    print(f"sweep: {planned.sweep.folder}\nlook:  python -m experiments.status {planned.sweep.folder}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.submit",
        description="Submit a sweep (or one experiment): index, the runs as an array, the report. Given again, it "
        "submits what is not finished and not in the queue.",
    )
    parser.add_argument("config", help="a YAML file, the name of a shipped config, or a sweep's folder")
    parser.add_argument("overrides", nargs="*", metavar="key.sub=value", help="override the config")
    for name in _PASSED:
        parser.add_argument(f"--{name}", metavar=name.upper(), help="as sbatch takes it")
    parser.add_argument("--gpus", default="", metavar="[TYPE:]N", help="on each node, for the index and each run")
    parser.add_argument("--nodes", type=int, default=1, help="for each run (default 1)")
    parser.add_argument("--cpus", type=int, help="for each task")
    parser.add_argument("--processes", type=int, help="of a run on each node (default: one for each GPU)")
    parser.add_argument("--max-parallel", type=int, metavar="N", help="runs at once")
    parser.add_argument("--grace", type=int, default=120, metavar="SECONDS", help="to save before the time limit")
    parser.add_argument("--index-time", metavar="TIME", help="time limit of the index, where it differs")
    parser.add_argument("--server", metavar="MODEL", help="each run serves this model itself, by vLLM on its GPUs")
    parser.add_argument("--site", type=Path, metavar="FILE", help="sourced first: module loads, environments")
    parser.add_argument("--container", metavar="IMAGE", help="apptainer image to run Python in")
    parser.add_argument("--python", default=sys.executable, metavar="PROGRAM", help="default: the one running this")
    parser.add_argument("--sbatch", action="append", default=[], metavar="KEY[=VALUE]", help="any other option")
    parser.add_argument("--no-index", action="store_true", help="each run builds what is missing itself")
    parser.add_argument("--no-doctor", action="store_true", help="do not look first whether anything is missing")
    parser.add_argument("--dry-run", action="store_true", help="print the scripts and stop")
    return parser


def _wishes(given: argparse.Namespace) -> Any:
    from aeg.cluster.submit import Wishes
    from aeg.errors import ConfigError

    options = {name: str(value) for name in _PASSED if (value := getattr(given, name)) is not None}
    if given.cpus is not None:
        options["cpus-per-task"] = str(given.cpus)
    for extra in given.sbatch:
        name, _, value = extra.lstrip("-").partition("=")
        options[name] = value
    if given.site is not None and not given.site.is_file():
        raise ConfigError(f"--site: no file {str(given.site)!r}")
    settings = {"AEG_PYTHON": given.python}
    settings |= {"AEG_SITE": str(given.site.resolve())} if given.site is not None else {}
    settings |= {"AEG_CONTAINER": given.container} if given.container is not None else {}
    return Wishes(
        options=options,
        index={} if given.index_time is None else {"time": given.index_time},
        report={"time": "00:30:00"} if "time" in options else {},
        gpus=given.gpus,
        nodes=given.nodes,
        processes=given.processes,
        max_parallel=given.max_parallel,
        grace=given.grace,
        settings=settings,
        server=given.server,
    )


def _tell(planned: Any, say: Any) -> None:
    say(f"{planned.sweep.name}: {len(planned.tasks)} of {len(planned.sweep.runs)} runs to submit")
    for why, runs in planned.passed.items():
        if runs:
            say(f"left out, {why}: {', '.join(runs)}")
    code = planned.snapshot.code
    say(f"code: {code.described()}, {len(code.files)} files")
    for path in code.left_out:
        say(f"not copied, too large and unknown to git: {path}")


def _doctor(given: argparse.Namespace) -> int:
    """Look here, before anything is submitted, whether what the config needs is there; 0 where nothing is missing."""
    command = [sys.executable, "-m", "aeg", "doctor"]
    known = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
    if known.returncode:
        return 0
    if "--login" in known.stdout:
        command.append("--login")
    return subprocess.run([*command, given.config, *given.overrides], check=False).returncode


def _quiet(_: str) -> None:
    """Say nothing: the scripts alone go to standard output."""


if __name__ == "__main__":
    sys.exit(main())

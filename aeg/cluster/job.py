"""`python -m aeg.cluster.job`: what a job does: the index of a sweep, one of its runs, or its report."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aeg.artifacts import fingerprint
from aeg.cluster.signals import Stopped, stoppable
from aeg.errors import AegError, DataError

_DECISIVE = ("corpus", "chunk", "extraction", "encoder", "graph", "plugins", "llm")  # keys that an index depends on


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the work and return the exit code.

    0; 2 on an error of the input; 75 where requests wait for an offline job; 128 and the signal's number where a
    signal ended it: then the same command goes on where it stopped.
    """
    parser = argparse.ArgumentParser(prog="python -m aeg.cluster.job", description="What a job of a sweep does.")
    parser.add_argument("do", choices=("index", "run", "report"))
    parser.add_argument("what", help="a config, a sweep's folder, or a snapshot")
    parser.add_argument("--task", type=int, default=0, help="place of the run in the sweep, from 0")
    parser.add_argument("overrides", nargs="*", metavar="key.sub=value", help="override the config")
    given = parser.parse_intermixed_args(arguments)
    try:
        with stoppable():
            if given.do == "report":
                return report(Path(given.what))
            from aeg.backends.group import led

            if given.do == "index":
                return led(lambda: index(given.what, given.overrides))
            return led(lambda: run(given.what, given.task, given.overrides))
    except AegError as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        return error.exit_code
    except Stopped as stopped:
        sys.stderr.write(f"{stopped}; the same job goes on where it stopped\n")
        return stopped.exit_code


def index(what: str, overrides: Sequence[str]) -> int:
    """Build what the runs share: extraction and graph of each corpus, once for all runs that have them in common."""
    from aeg.cli.terminal import Reporter
    from aeg.pipeline.stages import Pipeline

    reporter = Reporter()
    distinct: dict[str, Any] = {}
    for config in _configs(what, overrides):
        distinct.setdefault(fingerprint([dataclasses.asdict(config)[key] for key in _DECISIVE]), config)
    for config in distinct.values():
        pipeline = Pipeline(config, reporter)
        try:
            for label, loader in pipeline.methods.corpus.parts(pipeline.root):
                if label:
                    reporter(f"part {label}")
                pipeline.graph(pipeline.passages(pipeline.corpus(loader)))
        finally:
            pipeline.close()
    return 0


def run(what: str, task: int, overrides: Sequence[str]) -> int:
    """Run one element of a sweep; what is finished already is passed over."""
    from aeg.cli.terminal import Reporter, say
    from aeg.experiment.run import run as run_experiment
    from aeg.experiment.run import run_folder
    from aeg.experiment.state import FINISHED, status_of

    config = _element(_configs(what, overrides), task)
    folder = run_folder(config)
    if status_of(folder) == FINISHED:
        say(f"finished already: {folder}")
        return 0
    outcome = run_experiment(config, Reporter())
    say(outcome.text)
    say(f"\nrun folder: {outcome.folder}")
    return 0


def report(folder: Path) -> int:
    """Write the report of a sweep into its folder; print the states of its runs."""
    from aeg.cli.terminal import say
    from aeg.cluster.status import described, status

    say(described(status(folder, queue=False)))
    if importlib.util.find_spec("aeg.report") is None:
        return 0
    from aeg.report import write

    files = write([folder], folder / "report", "")
    say(f"report: {files[0]}")
    return 0


def _configs(what: str, overrides: Sequence[str]) -> list[Any]:
    """The configs of a snapshot, of a recorded sweep, or of a config file."""
    from aeg.cluster import snapshot
    from aeg.experiment.sweep import load_sweep

    folder = Path(what)
    if (folder / snapshot.FILE).is_file():
        return [_overridden(config, overrides) for _, config in snapshot.configs(folder)]
    return [run.config for run in load_sweep(what, overrides).runs]


def _overridden(config: Any, overrides: Sequence[str]) -> Any:
    from aeg.config.load import restored, to_plain

    return restored(to_plain(config), overrides) if overrides else config


def _element(configs: Sequence[Any], task: int) -> Any:
    if not 0 <= task < len(configs):
        raise DataError(f"--task: got {task}, expected 0 to {len(configs) - 1}, the runs of the sweep")
    return configs[task]


if __name__ == "__main__":
    sys.exit(main())

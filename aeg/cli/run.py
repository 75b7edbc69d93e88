"""`aeg run`: one experiment config, end to end."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from aeg.cli.terminal import Reporter, say


def main(arguments: Sequence[str]) -> int:
    """Run the experiment that the arguments name; print its table and the run folder."""
    parser = argparse.ArgumentParser(
        prog="aeg run", description="Run one experiment: corpus, graph, propagation, evaluation, table, run folder."
    )
    parser.add_argument("config", help="a YAML file, or the name of a shipped config (configs/quickstart.yaml)")
    parser.add_argument(
        "--estimate", action="store_true", help="print calls, tokens and cost of the language models, and stop"
    )
    parser.add_argument("overrides", nargs="*", metavar="key.sub=value", help="override the config")
    given = parser.parse_intermixed_args(arguments)
    from aeg.backends.group import led

    return led(lambda: _run(given))


def _run(given: argparse.Namespace) -> int:
    from aeg.config.load import load_config
    from aeg.experiment.run import run

    if given.estimate:
        from aeg.experiment.estimate import estimate

        say(estimate(load_config(given.config, given.overrides), Reporter()))
        return 0
    outcome = run(load_config(given.config, given.overrides), Reporter())
    say(outcome.text)
    say(f"\nrun folder: {outcome.folder}")
    return 0

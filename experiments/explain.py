"""Why a question of a run found what it found: `python -m experiments.explain RUN QUESTION_ID`.

The pipeline is made again from the run's manifest, with the artifacts that the run left; no language model is asked,
its replies come from the cache of replies.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from aeg.cli.explain import add_options, check_options, show
from aeg.cli.terminal import Reporter
from aeg.errors import AegError
from aeg.explain.subject import of_run


def main(arguments: Sequence[str] | None = None) -> int:
    """Explain a question of a run; return 0, or 2 on an error that the input caused."""
    parser = argparse.ArgumentParser(prog="python -m experiments.explain", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, help="run folder made by `aeg run`")
    parser.add_argument("question_id")
    add_options(parser)
    parser.add_argument(
        "overrides", nargs="*", metavar="key.sub=value", help="where things lie by now: data_root=, artifacts_dir="
    )
    given = parser.parse_intermixed_args(arguments)
    check_options(parser, given)
    try:
        return show(of_run(given.run, given.question_id, Reporter(), given.overrides, given.method), given)
    except AegError as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())

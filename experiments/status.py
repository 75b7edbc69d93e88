"""`python -m experiments.status FOLDER [--json]`: what is done, running, waiting and failed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from aeg.errors import AegError


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the status; return 0 where all runs are finished, 1 where one failed or was cancelled, 3 otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.status",
        description="What became of a sweep's runs: by their folders, and by Slurm's queue where there is one.",
        epilog="exit code: 0 all finished, 1 some failed or cancelled, 3 some are still to be done, 2 wrong input",
    )
    parser.add_argument("folder", type=Path, help="of a sweep (experiments.submit and .ablate name it) or of a run")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--no-slurm", action="store_true", help="do not ask Slurm; read the folders only")
    given = parser.parse_args(arguments)
    from aeg.cluster.status import described, status

    try:
        found = status(given.folder, queue=not given.no_slurm)
    except AegError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(found.plain(), indent=1, ensure_ascii=False) if given.json else described(found))
    if set(found.counts) <= {"finished"}:
        return 0
    return 1 if {"failed", "cancelled"} & set(found.counts) else 3


if __name__ == "__main__":
    sys.exit(main())

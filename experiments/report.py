"""`python -m experiments.report FOLDER... [--out DIR]`: runs and sweeps as one web page, and as Markdown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from aeg.errors import AegError


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report; return 0, or 2 where a folder is missing or is none of a run or a sweep."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.report",
        description="Tables, plots, graph statistics, failures and commands of runs and sweeps, on one page.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a run, a sweep, or a folder of them")
    parser.add_argument("--out", type=Path, default=Path("report"), metavar="DIR", help="default: report")
    parser.add_argument("--title", default="", help="default: the names of the runs and sweeps")
    given = parser.parse_args(arguments)
    from aeg.report import write

    try:
        files = write(given.folders, given.out, given.title)
    except AegError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{files[0]} (open it in a browser), {files[1]}, {len(files) - 2} plots")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m experiments.sync FOLDER...`: upload finished run folders to Weights & Biases, each once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from aeg.errors import AegError


def main(arguments: Sequence[str] | None = None) -> int:
    """Upload; return 0 where all finished folders are there, 1 where one could not be sent, 2 on wrong input."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.sync",
        description="Upload finished runs, or a sweep with its runs, to Weights & Biases; each is uploaded once. "
        "The key comes from the environment (WANDB_API_KEY) or from `wandb login`.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="of a run or a sweep")
    parser.add_argument("--again", action="store_true", help="send anew what was uploaded before")
    parser.add_argument("--offline", action="store_true", help="send nothing: write a folder for `wandb sync`")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for the beginning and the end of each folder")
    given = parser.parse_args(arguments)
    from aeg.tracking.sync import sync

    mode = "offline" if given.offline else "online"
    try:
        good = [sync(folder, print, mode, given.again, given.timeout) for folder in given.folders]
    except AegError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())

"""`python -m experiments.compare FOLDER ...`: the same program as `aeg compare`."""

import sys

from aeg.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["compare", *sys.argv[1:]]))

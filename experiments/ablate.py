"""`python -m experiments.ablate CONFIG [key.sub=value ...]`: the same program as `aeg ablate`."""

import sys

from aeg.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["ablate", *sys.argv[1:]]))

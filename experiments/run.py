"""`python -m experiments.run CONFIG [key.sub=value ...]`: the same program as `aeg run`."""

import sys

from aeg.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["run", *sys.argv[1:]]))

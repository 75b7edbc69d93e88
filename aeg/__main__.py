"""`python -m aeg`: the command line."""

import sys

from aeg.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

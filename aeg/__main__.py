"""`python -m aeg`: the command line."""

import sys

from aeg.cli.main import main

sys.exit(main())

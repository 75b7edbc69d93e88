"""The command `aeg`: subcommands are imported only when they are called, so that `aeg --help` is fast."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib import import_module

from aeg import __version__
from aeg.cluster.signals import Stopped, stoppable
from aeg.errors import AegError, PendingBatch

_COMMANDS = {
    "run": ("run one experiment config end to end", "aeg.cli.run"),
    "ablate": ("run a sweep: the runs that are missing or failed", "aeg.cli.ablate"),
    "compare": ("compare runs question by question, with statistics", "aeg.cli.compare"),
    "index": ("build an index of your own documents", "aeg.cli.index"),
    "add": ("add documents to an index", "aeg.cli.add"),
    "remove": ("remove documents from an index", "aeg.cli.remove"),
    "update": ("bring an index up to date with its documents", "aeg.cli.update"),
    "query": ("ask an index a question", "aeg.cli.query"),
    "export": ("write an index as one archive, to give to others", "aeg.cli.export"),
    "import": ("check and unpack an archive of `aeg export`", "aeg.cli.import_"),
    "explain": ("tell why an index finds what it finds for a question", "aeg.cli.explain"),
    "stats": ("print the graph statistics of an index", "aeg.cli.stats"),
    "fetch": ("gather what a config needs from the network", "aeg.cli.fetch"),
    "doctor": ("say what a config needs and this machine lacks", "aeg.cli.doctor"),
    "check-method": ("run the contract on a registered propagation method", "aeg.cli.check_method"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    0; 2 on an error that the input caused; 75 where requests wait for an offline job, and the same command goes on;
    130 at Ctrl-C, 138 and 143 where SIGUSR1 or SIGTERM stopped it, likewise.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    parser = argparse.ArgumentParser(prog="aeg", description="Graph-based evidence retrieval over atoms and entities.")
    parser.add_argument("--version", action="version", version=f"aeg {__version__}")
    parser.add_argument("--debug", action="store_true", help="show a traceback where a command fails")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, (summary, _) in _COMMANDS.items():
        commands.add_parser(command, help=summary, add_help=False)
    name = parser.parse_args(given[:1]).command
    logging.basicConfig(level=logging.INFO if debug else logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        with stoppable():
            return int(import_module(_COMMANDS[name][1]).main(given[1:]))
    except AegError as error:
        return _fail(error, debug)
    except KeyboardInterrupt as stop:
        sys.stderr.write("interrupted; run the same command again to go on where it stopped\n")
        return stop.exit_code if isinstance(stop, Stopped) else 130
    except BrokenPipeError:
        return 0


def _fail(error: AegError, debug: bool) -> int:
    if debug:
        logging.getLogger("aeg").exception("%s", error)
    kind = "waiting" if isinstance(error, PendingBatch) else "error"
    sys.stderr.write(f"{kind}: {' '.join(str(error).split())}\n")
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())

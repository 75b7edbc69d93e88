"""Errors whose message is meant for a person: what was got, what was expected, what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AegError(Exception):
    """Base of all errors caused by input; command-line programs print it in one line and exit with 2."""


class ConfigError(AegError):
    """A config has an unknown key, a value outside its range, or names an unknown method."""


class DataError(AegError):
    """A file is missing, malformed or inconsistent with another."""


class DeviceError(AegError):
    """The device asked for is not there."""


class DependencyError(AegError):
    """An optional dependency is needed and not installed."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return a hint `Did you mean 'x'? Available: ...` for an unknown name.

    Example:
        >>> nearest("pr", ["ppr", "katz"])
        "Did you mean 'ppr'? Available: katz, ppr"
    """
    ordered = sorted(choices)
    close = difflib.get_close_matches(name, ordered, n=1, cutoff=0.5)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    return f"{hint}Available: {', '.join(ordered) or '(none)'}"

"""Errors whose message is meant for a person: what was got, what was expected, what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class AegError(Exception):
    """Base of all errors caused by input; command-line programs print it in one line.

    Attributes:
        exit_code: what a command-line program exits with.
    """

    exit_code: ClassVar[int] = 2


class ConfigError(AegError):
    """A config has an unknown key, a value outside its range, or names an unknown method."""


class DataError(AegError):
    """A file is missing, malformed or inconsistent with another."""


class DeviceError(AegError):
    """The device asked for is not there."""


class DependencyError(AegError):
    """An optional dependency is needed and not installed."""


class LLMError(AegError):
    """A language model cannot be used at all: no key, no endpoint, no recording."""


class BudgetError(AegError):
    """The next call of a language model could cost more than what is left of `max_cost_usd`."""


class PendingBatch(AegError):
    """Requests were written for an offline batch job; the same run goes on when the file of results is there."""

    exit_code: ClassVar[int] = 75  # EX_TEMPFAIL of sysexits.h: try again later


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

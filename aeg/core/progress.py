"""Progress of long work, shown on standard error only when it takes longer than two seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
_QUICK, _SLOW = 0.5, 30.0  # seconds between updates on a terminal, and in a log file
_hidden = False


def progress_bar(total: int | None, what: str, unit: str = "it") -> Any:
    """Return a tqdm bar (count, rate, time left) that appears after two seconds; call `update(n)` on it.

    Where standard error is no terminal (a job's log) it writes a line's worth only every half minute.
    """
    from tqdm import tqdm

    pause = _QUICK if sys.stderr.isatty() else _SLOW
    look = {"mininterval": pause, "maxinterval": pause, "delay": 2, "leave": False}
    return tqdm(total=total, desc=what, unit=unit, disable=_hidden, **look)


def hide_progress() -> None:
    """Show no progress in this process from now on: another one of its group does."""
    global _hidden
    _hidden = True


def progress(items: Iterable[T], total: int | None, what: str, unit: str = "it") -> Iterator[T]:
    """Yield the items, showing count, rate and time left after two seconds.

    Example:
        >>> list(progress([1, 2], 2, "counting"))
        [1, 2]
    """
    with progress_bar(total, what, unit) as bar:
        for item in items:
            yield item
            bar.update()

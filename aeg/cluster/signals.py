"""Signals that announce the end of a job's time: the work stops as at Ctrl-C, and the same command goes on later."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STOPPING = (signal.SIGUSR1, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal asked the process to stop; what is on disk is whole, as everything is written by rename.

    Attributes:
        signal: which one.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.signal = signal.Signals(number)

    @property
    def exit_code(self) -> int:
        """What a program exits with that ends by it: 128 and the signal's number."""
        return 128 + self.signal


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` in the main thread at the first SIGUSR1 or SIGTERM; later ones are ignored.

    The handlers of before come back at the end; in another thread nothing is changed. Everything that keeps its work
    at Ctrl-C keeps it here too.

    Example:
        >>> import os
        >>> with stoppable():
        ...     try:
        ...         os.kill(os.getpid(), signal.SIGUSR1)
        ...     except Stopped as stopped:
        ...         print(stopped, stopped.exit_code)
        stopped by SIGUSR1 138
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopped = False

    def stop(number: int, _: FrameType | None) -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            raise Stopped(number)

    before: dict[signal.Signals, Any] = {number: signal.signal(number, stop) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""What the commands share: printing, and progress lines with the time since the start."""

from __future__ import annotations

import sys
import time


def say(text: str = "") -> None:
    """Write one line to standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Reporter:
    """Writes a line for each finished stage to standard error, with the seconds since the start."""

    def __init__(self) -> None:
        self._started = time.perf_counter()

    def __call__(self, line: str) -> None:
        """Write the line."""
        sys.stderr.write(f"[{time.perf_counter() - self._started:6.1f} s] {line}\n")
        sys.stderr.flush()

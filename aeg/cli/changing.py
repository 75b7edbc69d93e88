"""What `aeg add`, `aeg update` and `aeg remove` print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aeg.cli.terminal import say

if TYPE_CHECKING:
    from aeg.index import Outcome


def told(folder: Path, outcome: Outcome) -> int:
    """Print what became of an index."""
    for line in outcome.changes.lines():
        say(line)
    say(f"index: {folder}" + ("" if outcome.changes.any else ": nothing to do"))
    return 0

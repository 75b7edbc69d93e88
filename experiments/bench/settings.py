"""What every bench takes and gives."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from experiments.bench.output import Table

if TYPE_CHECKING:
    from experiments.bench.problem import Contender


@dataclass(frozen=True)
class Settings:
    """How a bench runs.

    Attributes:
        quick: a smoke run: graphs a five-hundredth of the size, few queries, no peak memory.
        shapes: names of graphs (see `graphs.NAMES`).
        queries: a batch.
        rounds: timed runs of each contender.
        memory: whether peak memory is measured, each contender in a process of its own.
        sizes: non-zeros of the graphs of `scale`.
        entities: rows of `synonyms`.
        atoms: atoms of `build`.
        without: contenders whose label contains one of these are left out.
        device: where our own contenders of `propagation`, `latency` and `methods` compute; peers stay on the CPU.
    """

    quick: bool = False
    shapes: tuple[str, ...] = ("musique",)
    queries: int = 1000
    rounds: int = 5
    memory: bool = True
    sizes: tuple[int, ...] = (10**5, 10**6, 10**7)
    entities: int = 90_000
    atoms: int = 100_000
    without: tuple[str, ...] = ()
    device: str = "cpu"

    def entered(self, contenders: Sequence[Contender]) -> list[Contender]:
        """Return the contenders that are not left out.

        Example:
            >>> from experiments.bench.contenders import contenders
            >>> {"push" in one.label for one in Settings(without=("push",)).entered(contenders())}
            {False}
        """
        return [one for one in contenders if not any(word in one.label for word in self.without)]


@dataclass
class Outcome:
    """What a bench gives: tables, and ratios by key of what must hold (see `required.REQUIRED`)."""

    tables: list[Table] = field(default_factory=list)
    measured: dict[str, float | None] = field(default_factory=dict)


def report(text: str) -> None:
    """Say how far the bench is, on standard error."""
    print(text, file=sys.stderr, flush=True)

"""Progress of long work, shown on standard error only when it takes longer than two seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def progress(items: Iterable[T], total: int | None, what: str, unit: str = "it") -> Iterator[T]:
    """Yield the items, showing count, rate and time left after two seconds.

    Example:
        >>> list(progress([1, 2], 2, "counting"))
        [1, 2]
    """
    from tqdm import tqdm

    yield from tqdm(items, total=total, desc=what, unit=unit, delay=2, leave=False, mininterval=0.5)

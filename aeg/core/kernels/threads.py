"""Sharing a compiled loop over rows among as many threads as torch uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Generic, TypeVar

import torch

_threads: ContextVar[int] = ContextVar("threads of the compiled loops", default=0)
T = TypeVar("T")
ALONE = 500_000  # numbers to move below which waking another thread takes longer than the work


@contextmanager
def compiled_threads() -> Iterator[None]:
    """Within it torch's own operations are done by this thread, and `share` has all threads that torch had.

    The threads of torch go on spinning for milliseconds after an operation, and the loops would wait for the cores
    that they hold.
    """
    before = torch.get_num_threads()
    token = _threads.set(_threads.get() or before)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _threads.reset(token)


def threads() -> int:
    """Return how many threads the loops may use."""
    return _threads.get() or torch.get_num_threads()


@contextmanager
def all_threads() -> Iterator[None]:
    """Within it torch has again the threads that `compiled_threads` took from it: for a large dense product."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)


def share(work: Callable[[int], None], parts: int, size: int) -> None:
    """Call `work(part)` for each part, by as many threads as torch has (this one is one of them).

    Args:
        work: what to do.
        parts: how many parts there are.
        size: numbers that are read or written in all; little work is done by this thread alone.
    """
    count = 1 if size < ALONE else min(threads(), parts)
    waiting = iter(range(parts))

    def worker() -> None:
        for part in waiting:  # a range's iterator gives each part to one thread only
            work(part)

    futures = [_pool(os.getpid(), count).submit(worker) for _ in range(count - 1)]
    try:
        worker()
    finally:
        for future in futures:
            future.result()


def share_rows(work: Callable[[int, int, int], None], rows: int, parts: int, size: int) -> None:
    """Call `work(first, stop, part)` for equal parts of the rows, as `share` does; `size` as there."""
    at = [rows * part // parts for part in range(parts + 1)]
    share(lambda part: work(at[part], at[part + 1], part), parts, size)


class Lent(Generic[T]):
    """Things that one thread at a time works with, such as large arrays; made where all that there are is lent.

    Example:
        >>> arrays = Lent(list)
        >>> with arrays.one() as first, arrays.one() as second:
        ...     first is second
        False
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._free: list[T] = []

    @contextmanager
    def one(self) -> Iterator[T]:
        """Lend one for the block, which leaves it as it was; what a block breaks off with is not lent again."""
        try:
            found = self._free.pop()
        except IndexError:  # the other threads have them
            found = self._make()
        yield found
        self._free.append(found)


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """The pool of one process (a forked child makes its own)."""
    return ThreadPoolExecutor(threads, thread_name_prefix="aeg-kernel")


def bounds(work: torch.Tensor, parts: int) -> list[int]:
    """Return `parts` + 1 row bounds that cut a running total of work (ascending, [rows + 1]) into equal shares.

    Example:
        >>> bounds(torch.tensor([0, 5, 6, 10]), 2)
        [0, 1, 3]
    """
    marks = torch.arange(1, parts, dtype=torch.int64) * int(work[-1]) // parts
    return [0, *torch.searchsorted(work, marks).tolist(), len(work) - 1]

"""Sharing a compiled loop over rows among as many threads as torch uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch


def share(work: Callable[[int], None], parts: int) -> None:
    """Call `work(part)` for each part, by as many threads as torch has (this one is one of them)."""
    threads = min(torch.get_num_threads(), parts)
    waiting = iter(range(parts))

    def worker() -> None:
        for part in waiting:  # a range's iterator gives each part to one thread only
            work(part)

    futures = [_pool(os.getpid(), threads).submit(worker) for _ in range(threads - 1)]
    try:
        worker()
    finally:
        for future in futures:
            future.result()


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

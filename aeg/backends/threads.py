"""Work shared out among CPU threads one item each, instead of threads sharing each operation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Generator[Result, None, None]:
    """Yield `function(item)` for each item, in order, as many at a time as torch has threads.

    Within `function` torch uses one thread. Threads that share every operation of a small model spend much of
    their time waiting for each other, above all on a busy machine. Where there are fewer than two items a thread,
    the items are done one after the other, with all threads.

    Example:
        >>> list(map_threads(lambda item: item * 2, [1, 2, 3]))
        [2, 4, 6]
    """
    threads = torch.get_num_threads()
    if threads == 1 or len(items) < 2 * threads:
        for item in items:
            yield function(item)
        return
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)

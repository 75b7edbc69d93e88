"""Work shared by several processes, results in order."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from aeg.errors import AegError

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield `function(item)` of each item, in the items' order, each as soon as it and all before it are done.

    Args:
        function: a picklable function (of a module, or a `functools.partial` of one).
        items: picklable items; at most two a worker are under way at a time.
        workers: processes, started afresh ("spawn"), so a calling script needs `if __name__ == "__main__":`;
            0 or 1 works in this process.

    Raises:
        AegError: if a worker dies; what was yielded before is whole.
    """
    if workers <= 1:
        yield from map(function, items)
        return
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise AegError(
            f"one of {workers} worker processes died (killed, out of memory, or started from a script without "
            '`if __name__ == "__main__":`); what was finished is kept: run again, with fewer workers if memory '
            "is short (workers: 0 uses this process alone)"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)

"""A group of processes at one piece of work: the first leads, the others do their shares of what it gives out."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any, Protocol

from aeg.core.progress import hide_progress
from aeg.errors import AegError, ConfigError, DeviceError

logger = logging.getLogger(__name__)

_PATIENCE = timedelta(days=30)  # that a process waits for the next task: the first may be at other work for long


class Task(Protocol):
    """Work for all processes of a group; it is sent to them, with all that it holds, by the one that leads."""

    def share(self, rank: int, size: int, kept: dict[Any, Any]) -> Any:
        """Do one process's share and return what it gives.

        Args:
            rank: of the process, below `size`.
            size: processes that share the task.
            kept: what the process keeps from task to task, such as a loaded model.
        """


@dataclass(eq=False)
class Group:
    """The processes that `torchrun` (or srun) started together; a process alone is a group of one.

    Only the first process runs the program. Where it comes to work that can be shared (batches of an encoder or of a
    language model in the process, blocks of questions) it gives out a task; every process does its share, and the
    first puts the results in order. What a share holds is planned for the whole list, so that results are the same
    bytes for any number of processes with the same threads and devices.

    Attributes:
        rank: of this process, from 0.
        size: how many there are.
        local_rank: of this process on its machine.
        kept: what this process keeps from task to task.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    kept: dict[Any, Any] = field(default_factory=dict)
    _busy: bool = False

    def run(self, task: Task, own: Callable[[], Any]) -> list[Any]:
        """Give out a task, do the first process's own share, and return what each process gave, by rank.

        Args:
            task: what the others are sent.
            own: does the share of this process.

        Raises:
            AegError: what a process raised; it is named.
            DeviceError: if a process ended.
        """
        if self._busy:
            raise DeviceError("the group of processes is at a share that was broken off; start it again")
        self._busy = True  # from here to the end of the exchange the others do not listen for another task
        with _whole():
            self._broadcast(task)
        try:
            mine = own()
        except AegError as error:
            mine = error
        with _whole():
            results = [mine, *self._gather(mine)[1:]]
        self._busy = False
        if isinstance(mine, AegError):
            raise mine
        for rank, result in enumerate(results):
            if isinstance(result, AegError):
                raise type(result)(f"process {rank} of {self.size}: {result}") from result
        return results

    def follow(self) -> None:
        """Do this process's share of every task, until the first process ends.

        Raises:
            DeviceError: if the first process ended without a word.
        """
        hide_progress()
        while True:
            with _whole():
                task = self._broadcast(None)
            if task is None:
                return
            try:
                result: Any = task.share(self.rank, self.size, self.kept)
            except AegError as error:
                result = error
            with _whole():
                self._gather(result)

    def end(self) -> None:
        """Tell the others that there is no more to do, unless they are at a share: then torchrun ends them."""
        if self.rank == 0 and self.size > 1 and not self._busy:
            with suppress(RuntimeError):  # one that has ended needs no telling
                self._broadcast(None)

    def _broadcast(self, task: Task | None) -> Any:
        from accelerate.utils import broadcast_object_list

        return broadcast_object_list([task])[0]

    def _gather(self, result: Any) -> list[Any]:
        """What each process gave, in the first one; elsewhere an empty list."""
        from torch import distributed

        results: list[Any] = [None] * self.size if self.rank == 0 else []
        distributed.gather_object(None if self.rank == 0 else result, results or None, dst=0)
        return results


@lru_cache(maxsize=1)
def group() -> Group:
    """Return the group of this process: of one, unless `led` has joined the group that it was started in."""
    return Group()


def led(work: Callable[[], int]) -> int:
    """Do a program's work, shared by all processes that were started together, and return its exit code.

    Started by `torchrun`, the processes join by accelerate (CPU and gloo carry what they tell each other; each computes
    on its own device). The first one does the work; the others do their shares. A process that fails ends the job.

    Args:
        work: the program.

    Raises:
        ConfigError: if the environment (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, as torchrun sets them)
            names a group that cannot be joined.
        AegError: whatever the work raises.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return work()
    found = _join()
    if found.rank:
        found.follow()
        return 0
    try:
        return work()
    finally:
        found.end()


def _join() -> Group:
    import torch
    from accelerate import PartialState

    try:
        state = PartialState(cpu=True, timeout=_PATIENCE)
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"WORLD_SIZE={os.environ['WORLD_SIZE']}: the group of processes cannot be joined ({error}); start by "
            "torchrun, or unset WORLD_SIZE"
        ) from None
    found = group()
    found.rank, found.size, found.local_rank = state.process_index, state.num_processes, state.local_process_index
    if torch.cuda.device_count() > found.local_rank:
        torch.cuda.set_device(found.local_rank)  # kernels are launched on the current device
    logger.info("process %d of %d on %s", found.rank, found.size, socket.gethostname())
    return found


@contextmanager
def _whole() -> Iterator[None]:
    """Tell in words what torch raises where a process of the group has ended."""
    try:
        yield
    except RuntimeError as error:
        text = " ".join(str(error).split())[:300]
        raise DeviceError(
            f"a process of the group ended before its share was done ({text}); see its own messages"
        ) from error

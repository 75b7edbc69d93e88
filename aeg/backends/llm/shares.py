"""Batches shared out among processes that hold a model each, one to a GPU."""

from __future__ import annotations

import logging
import multiprocessing
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from aeg.backends.llm.base import Failure, Reply
from aeg.backends.llm.chat_model import ChatModel, ModelSpec, Prepared
from aeg.backends.loading import one_line
from aeg.errors import AegError

logger = logging.getLogger(__name__)

Outcomes = list[Reply | Failure]
_GRACE = 5.0  # seconds for a process to end once it was told to


@dataclass
class _Worker:
    number: int
    process: BaseProcess
    connection: Connection
    batch: int | None = None  # number of the batch in hand


class Shares:
    """Processes that generate replies, each with its own model on its own device.

    Batches are planned beforehand and handed to whichever process is free, so that what a batch holds, and hence
    its replies, does not depend on the number of processes.

    Attributes:
        halved: how often a process halved a batch for want of memory.
    """

    def __init__(self, specs: Sequence[ModelSpec], threads: int) -> None:
        self.halved = 0
        self._specs, self._threads = list(specs), threads
        self._workers: dict[int, _Worker] = {}

    @property
    def pids(self) -> list[int]:
        """Process ids of the running workers, by number."""
        return [worker.process.pid or 0 for _, worker in sorted(self._workers.items())]

    def run(self, batches: Sequence[Sequence[Prepared]]) -> Iterator[tuple[int, Outcomes]]:
        """Yield (number of the batch, its outcomes) as they arrive.

        A process that ends fails the batch in its hands, with the cause; the others do the rest. Closing the
        iterator early ends all processes.

        Raises:
            AegError: if a process cannot load the model.
        """
        self._start()
        waiting = deque(enumerate(batches))
        cause = ""
        try:
            for worker in list(self._workers.values()):
                self._hand(worker, waiting, batches)
            while busy := {worker.connection: worker for worker in self._workers.values() if worker.batch is not None}:
                for ready in wait(list(busy)):
                    number, outcome = self._receive(busy[ready])  # type: ignore[index]
                    if isinstance(outcome, str):
                        cause = outcome
                        outcome = _failed(batches[number], cause)
                    else:
                        self._hand(busy[ready], waiting, batches)  # type: ignore[index]
                    yield number, outcome
            for number, batch in waiting:
                yield number, _failed(batch, f"no process is left; the last one: {cause}")
        finally:
            if any(worker.batch is not None for worker in self._workers.values()):
                self.close()

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers.values():
            worker.connection.close()
            worker.process.terminate()
        for worker in self._workers.values():
            worker.process.join(_GRACE)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers = {}

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
        for number, spec in enumerate(self._specs):
            if number in self._workers:
                continue
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, spec, self._threads), name=f"aeg-llm-{number}", daemon=True
            )
            process.start()
            theirs.close()  # else its end is never noticed here
            self._workers[number] = _Worker(number, process, ours)

    def _hand(
        self,
        worker: _Worker,
        waiting: deque[tuple[int, Sequence[Prepared]]],
        batches: Sequence[Sequence[Prepared]],
    ) -> None:
        """Give the next batch to a free worker, if there is one."""
        if not waiting:
            return
        worker.batch, batch = waiting.popleft()
        try:
            worker.connection.send(list(batch))
        except OSError:
            logger.debug("process %d ended before it took a batch", worker.number)  # its end is read as any other's

    def _receive(self, worker: _Worker) -> tuple[int, Outcomes | str]:
        """Return the number of a worker's batch and its outcomes, or in words why the worker ended."""
        number = worker.batch
        assert number is not None
        worker.batch = None
        try:
            message = worker.connection.recv()
        except (EOFError, OSError):
            message = ""
        if isinstance(message, AegError):
            self.close()
            raise message
        if isinstance(message, str):
            return number, self._bury(worker, message)
        outcomes, halved = message
        self.halved += halved
        return number, outcomes

    def _bury(self, worker: _Worker, message: str) -> str:
        worker.process.join(_GRACE)
        cause = message or _exit(worker.process.exitcode)
        place = self._specs[worker.number].device_map
        told = f"process {worker.number} on {place} ended: {cause}"
        logger.error("%s; its batch failed, %d processes are left", told, len(self._workers) - 1)
        worker.connection.close()
        if worker.process.is_alive():
            worker.process.kill()
        del self._workers[worker.number]
        return told


def _failed(batch: Sequence[Prepared], cause: str) -> Outcomes:
    return [Failure("server", cause) for _ in batch]


def _exit(code: int | None) -> str:
    if code is None:
        return "it closed its connection"
    if code >= 0:
        return f"exit code {code}; its own message stands in the log"
    name = signal.Signals(-code).name
    return f"killed by {name}{' (the system may have run out of memory)' if name == 'SIGKILL' else ''}"


def _serve(connection: Connection, spec: ModelSpec, threads: int) -> None:
    """Answer batches until the connection closes: what a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its workers
    torch.set_num_threads(threads)
    try:
        model = ChatModel(spec)
    except AegError as error:
        connection.send(error)
        return
    halved = 0
    while True:
        try:
            batch = connection.recv()
        except EOFError:
            return
        try:
            outcomes = model.replies(batch)
        except (RuntimeError, IndexError, ValueError) as error:
            connection.send(f"{type(error).__name__}: {one_line(error)}")
            return
        connection.send((outcomes, model.counts["batches_halved"] - halved))
        halved = model.counts["batches_halved"]

"""Batches of prompts, shared by a group of processes that hold the model each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from aeg.backends.device import resolve_device
from aeg.backends.group import group
from aeg.backends.llm.base import Failure, Reply
from aeg.backends.llm.chat_model import ChatModel, ModelSpec, Prepared

Given = tuple[list[Reply | Failure], int]
"""The outcomes of a batch, and how many batches were halved for want of memory."""


@dataclass(frozen=True)
class Generation:
    """A batch of prompts for each process of the group.

    Attributes:
        spec: of the model, as the first process has loaded it.
        batches: as many as there are processes, or fewer.
    """

    spec: ModelSpec
    batches: Sequence[Sequence[Prepared]]

    def share(self, rank: int, size: int, kept: dict[Any, Any]) -> Given:
        """Answer this process's batch; see `Task`.

        Raises:
            AegError: if the model cannot be loaded here.
        """
        if rank >= len(self.batches):
            return [], 0
        if self.spec not in kept:
            device = resolve_device(self.spec.device_map.partition(":")[0])
            kept[self.spec] = ChatModel(replace(self.spec, device_map=str(device)))
        return _given(kept[self.spec], self.batches[rank])


def shared(model: ChatModel, batches: Sequence[Sequence[Prepared]]) -> Iterator[Given]:
    """Yield what each batch gave, in order, a batch a process at a time."""
    team = group()
    for start in range(0, len(batches), team.size):
        part = batches[start : start + team.size]
        results = team.run(Generation(model.spec, part), partial(_given, model, part[0]))
        yield from results[: len(part)]


def _given(model: ChatModel, batch: Sequence[Prepared]) -> Given:
    before = model.counts["batches_halved"]
    outcomes = model.outcomes(batch)
    return outcomes, model.counts["batches_halved"] - before

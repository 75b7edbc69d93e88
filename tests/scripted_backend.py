"""A backend whose replies come from a function, for tests of what is done with replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from aeg.backends.llm.base import Backend, Failure, Reply, Request, Session


@dataclass(frozen=True)
class Scripted(Backend):
    """Answers with `script(request)`: a str, a `Reply`, or a `Failure`; notes what it was sent."""

    model: str = "scripted"
    script: Callable[[Request], Any] = field(default=lambda request: "", repr=False)
    sent: list[list[Request]] = field(default_factory=list, repr=False)
    backwards: bool = False  # the last request is answered first

    @property
    def endpoint(self) -> str:
        return "scripted"

    @property
    def calls(self) -> list[tuple[str, str]]:
        """(task, subject) of every request, in order."""
        return [(request.task, request.subject) for batch in self.sent for request in batch]

    def open(self) -> Session:
        return _Session(self)


class _Session(Session):
    def __init__(self, backend: Scripted) -> None:
        self.backend = backend

    def send(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        self.backend.sent.append(list(requests))
        order = range(len(requests))
        for at in reversed(order) if self.backend.backwards else order:
            found = self.backend.script(requests[at])
            yield at, Reply(found, 10, 5, 0.01) if isinstance(found, str) else found

"""A backend in the process whose replies a function decides, for tests of what stands around backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from aeg.backends.llm import Ask, Backend, Failure, Reply, Request, Session
from aeg.backends.llm.prompt import parse_prompt

ECHO = parse_prompt("echo", "### system\nReply in JSON.\n### user\n{{text}}")


def ask(text: str, **fields: Any) -> Ask:
    """An `Ask` of the prompt `echo`."""
    return Ask(ECHO, {"text": text}, subject=f"subject {text}", **fields)


def reply(text: str, **fields: Any) -> Reply:
    """A reply of 10 prompt and 5 completion tokens."""
    return Reply(text, **{"prompt_tokens": 10, "completion_tokens": 5, "seconds": 0.01, **fields})


@dataclass(frozen=True)
class Fake(Backend):
    """`script(request, number)` gives a str, Reply or Failure, or raises; `number` counts all requests from 0."""

    script: Callable[[Request, int], Any] = field(default=lambda request, number: "[]")
    sent: list[Request] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # of the batches
    state: dict[str, int] = field(default_factory=lambda: {"opened": 0, "closed": 0, "cancelled": 0})

    @property
    def endpoint(self) -> str:
        return "fake"

    def open(self) -> Session:
        self.state["opened"] += 1
        return _FakeSession(self)


class _FakeSession(Session):
    def __init__(self, backend: Fake) -> None:
        self.backend = backend

    def send(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        self.backend.sizes.append(len(requests))
        for place in reversed(range(len(requests))):
            self.backend.sent.append(requests[place])
            outcome = self.backend.script(requests[place], len(self.backend.sent) - 1)
            try:
                yield place, reply(outcome) if isinstance(outcome, str) else outcome
            except GeneratorExit:
                self.backend.state["cancelled"] += 1
                raise

    def close(self) -> None:
        self.backend.state["closed"] += 1

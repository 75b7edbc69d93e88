"""A judge that is a function, behind the real `Asker`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aeg.backends.llm.asker import Asker
from aeg.backends.llm.base import Backend, Failure, Reply, Request, Session
from aeg.backends.llm.ledger import Ledger

Script = Callable[[Request], "str | Failure"]


@dataclass(frozen=True)
class Scripted(Backend):
    """Answers with what `script` returns, and keeps what it was asked."""

    script: Script = field(default=lambda request: "", compare=False, repr=False)
    asked: list[Request] = field(default_factory=list, compare=False, repr=False)

    @property
    def endpoint(self) -> str:
        return "scripted"

    def open(self) -> Session:
        return ScriptedSession(self)


class ScriptedSession(Session):
    def __init__(self, backend: Scripted) -> None:
        self.backend = backend

    def send(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        for at, request in enumerate(requests):
            self.backend.asked.append(request)
            said = self.backend.script(request)
            yield at, said if isinstance(said, Failure) else Reply(said, 10, 5, 0.01)


def asker(backend: Scripted, folder: Path | None = None, prompts: dict[str, str] | None = None) -> Asker:
    return Asker(backend, folder, Ledger(), reasks=2, prompts=prompts or {}, what="judge")


def tagged(request: Request, tag: str) -> str:
    """The text between the last `<tag>` and `</tag>` of a request."""
    said = "\n".join(message.content for message in request.messages if message.role == "user")
    return re.findall(rf"<{tag}>\n(.*?)\n?</{tag}>", said, re.DOTALL)[-1]


def listed(request: Request, tag: str) -> list[str]:
    """The texts of a numbered list between tags."""
    return [line.split("] ", 1)[1] for line in tagged(request, tag).splitlines() if line]


def literal_judge(request: Request) -> str:
    """A statement is a sentence, and is said where the other side has the very same one."""
    if request.task == "statements":
        return json.dumps({"statements": re.findall(r"[^.]+\.", tagged(request, "answer"))})
    ours, theirs = listed(request, "answer_statements"), listed(request, "reference_statements")
    return json.dumps(
        {
            "answer": [
                {"id": n, "reason": "", "verdict": "TP" if text in theirs else "FP"} for n, text in enumerate(ours, 1)
            ],
            "reference": [
                {"id": n, "reason": "", "verdict": "COVERED" if text in ours else "FN"}
                for n, text in enumerate(theirs, 1)
            ],
        }
    )

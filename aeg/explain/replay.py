"""Language models that are listened to: what stages ask is kept, and a run's replies are found again, unasked."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from aeg.backends.llm.ask import Answer, Ask
from aeg.backends.llm.asker import Asker
from aeg.backends.llm.base import Failure
from aeg.backends.llm.recorded import Recorded
from aeg.explain.records import Exchange
from aeg.pipeline.asking import Askers
from aeg.pipeline.stages import Pipeline

MISSING = "missing"


class Listener(Asker):
    """An asker that keeps what was asked through it, and what came of it.

    Attributes:
        exchanges: in the order of the answers.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Prepare as `Asker` does."""
        super().__init__(*args, **kwargs)
        self.exchanges: list[Exchange] = []

    def stream(self, asks: Sequence[Ask]) -> Generator[tuple[int, Answer]]:
        """Yield (position, answer)."""
        for place, answer in self._answers(asks):
            self.exchanges.append(_exchange(asks[place], answer, self.backend.model))
            yield place, answer

    def _answers(self, asks: Sequence[Ask]) -> Generator[tuple[int, Answer]]:
        yield from super().stream(asks)


class Replayer(Listener):
    """A listener that sends nothing: a reply is found in the cache of replies, or fails as `missing`."""

    def _answers(self, asks: Sequence[Ask]) -> Generator[tuple[int, Answer]]:
        if isinstance(self.backend, Recorded):  # a recording sends nothing either
            yield from super()._answers(asks)
            return
        for job in self._jobs(asks):
            found = self._cached(job)
            if found is None:
                self.ledger.count(job.first.task, "failed")
                found = Answer(None, Failure(MISSING, "the reply is not in the cache of replies"))
            yield from job.answered(found)


class ReplayPipeline(Pipeline):
    """A pipeline that writes nothing and asks nobody, but reads the replies of the run whose artifacts it shares."""

    @cached_property
    def askers(self) -> Askers:
        """The language models, as replayers."""
        return Askers(self.methods.models, self.config.llm, self.store.root / "llm", self.root, Replayer)


def exchanges(pipeline: Pipeline) -> tuple[Exchange, ...]:
    """Return what the pipeline's language models were asked, where they are listeners."""
    heard: dict[int, Listener] = {}
    for role in pipeline.methods.models:
        asker = pipeline.askers.role(role)
        if isinstance(asker, Listener):
            heard[id(asker)] = asker
    return tuple(exchange for listener in heard.values() for exchange in listener.exchanges)


def _exchange(ask: Ask, answer: Answer, model: str) -> Exchange:
    messages = tuple((message.role, message.content) for message in ask.request().messages)
    failure = "" if answer.failure is None else f"{answer.failure.kind}: {answer.failure.message}"
    value = answer.value
    reply = value.model_dump_json(indent=1) if isinstance(value, BaseModel) else value
    return Exchange(ask.prompt.name, model, messages, reply, failure, answer.cached)

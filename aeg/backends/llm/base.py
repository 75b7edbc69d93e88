"""What every language-model backend shares: requests in, a reply or a recorded failure for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Self

from aeg.config.ranges import Checked, param
from aeg.registry import Registry

FAILURES = (
    "context_length",  # the request is longer than the model's context
    "length",  # the reply was cut at its token limit
    "empty",  # nothing came back
    "invalid",  # the reply does not fit the schema, or breaks a rule of the stage
    "refused",  # the endpoint refused the request for good (4xx other than the ones below)
    "rate_limit",  # 429 until the attempts ran out
    "server",  # 5xx until the attempts ran out
    "timeout",  # no reply within the time limit
    "connection",  # the endpoint cannot be reached, or the stream was cut off
    "missing",  # recorded or batch replies hold none for this request
)


@dataclass(frozen=True)
class Message:
    """One turn of a chat: `role` is `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True)
class Request:
    """One call of a language model.

    Attributes:
        task: name of the prompt, for accounting and quarantine; not part of what is asked.
        subject: the passage or question that it is about, likewise.
        messages: the chat so far.
        schema: canonical JSON of the reply's JSON schema; empty for free text.
        max_tokens: completion tokens at most.
        sample: index of a repeated sampling of the same request; changes the seed that is sent.
    """

    task: str
    subject: str
    messages: tuple[Message, ...]
    schema: str = ""
    max_tokens: int = 1024
    sample: int = 0


@dataclass(frozen=True)
class Reply:
    """What a model answered.

    Attributes:
        text: the content, reasoning parts left out.
        prompt_tokens, completion_tokens: as the backend counted them (reasoning included).
        seconds: wall time of the call.
        finish: `stop`, or `length` where the reply was cut at its token limit.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    finish: str = "stop"


@dataclass(frozen=True)
class Failure:
    """A call without a usable reply.

    Attributes:
        kind: one of `FAILURES`.
        message: what happened, for a person.
        text: the reply, where there was one.
        prompt_tokens, completion_tokens: what was paid nevertheless.
    """

    kind: str
    message: str
    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Session(ABC):
    """An open backend: sends batches of requests. Use it as a context manager, or call `close`."""

    @abstractmethod
    def send(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """Yield (position in `requests`, outcome), each as soon as it is there, each position exactly once.

        Closing the iterator early cancels what is still under way.

        Raises:
            AegError: only for what concerns all requests (no key, batch results pending); whatever happens to
                one request is its `Failure`.
        """

    def close(self) -> None:  # noqa: B027
        """Release what the session holds; nothing by default."""

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session."""
        self.close()


@dataclass(frozen=True)
class Backend(Checked, ABC):
    """A way to reach a language model; its fields are its parameters.

    Attributes:
        model: the model's name, as the endpoint, the folder or the recording knows it.
        temperature: 0 is greedy.
        seed: seed of sampling; `Request.sample` is added to it.
        spends: whether sending costs anything; False for replies that are there already (counted as cache hits).
    """

    spends: ClassVar[bool] = True

    model: str = ""
    temperature: float = param(0.0, ge=0, le=2)
    seed: int = 0

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """Where replies come from, as part of the cache key (an address without credentials)."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything beside endpoint, model, messages and schema that decides a reply; part of the cache key."""
        return {"temperature": self.temperature, "seed": self.seed}

    @abstractmethod
    def open(self) -> Session:
        """Return an open session.

        Raises:
            AegError: if a key, a package or a file that the backend needs is missing.
        """


BACKENDS: Registry[Backend] = Registry("LLM backend")

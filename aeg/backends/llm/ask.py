"""What is asked of a language model, what came of it, and what is told where the reply was of no use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aeg.backends.llm.base import Failure, Message, Reply, Request
from aeg.backends.llm.prompt import Prompt
from aeg.backends.llm.reasoning import strip_reasoning
from aeg.backends.llm.structured import InvalidReply, Parsed, parse_reply, schema_of, valid_text

if TYPE_CHECKING:
    import pydantic

_ASKED_AGAIN = ("invalid", "empty", "length")
_TOLD = 2000  # characters of an unusable reply that the model is shown again


@dataclass(frozen=True)
class Ask:
    """One thing to ask.

    Attributes:
        prompt: the task's prompt.
        values: for its placeholders.
        subject: id of the passage or question that it is about, for quarantine and messages.
        reply: the form of the reply; None for free text.
        check: returns what is wrong with a parsed reply (then it is asked again), or None.
        max_tokens: completion tokens at most.
        sample: index of a repeat of the same question, which changes the seed.
    """

    prompt: Prompt
    values: Mapping[str, str]
    subject: str
    reply: type[pydantic.BaseModel] | None = None
    check: Callable[[Any], str | None] | None = None
    max_tokens: int = 1024
    sample: int = 0

    def request(self) -> Request:
        """Return what is sent first."""
        schema = "" if self.reply is None else schema_of(self.reply)
        messages = self.prompt.messages(**self.values)
        return Request(self.prompt.name, self.subject, messages, schema, self.max_tokens, self.sample)

    def parse(self, text: str) -> Parsed:
        """Return a reply's value.

        Raises:
            InvalidReply: if the text has not the form, or fails the check.
        """
        if self.reply is not None:
            return parse_reply(text, self.reply, self.check)
        parsed = Parsed(valid_text(strip_reasoning(text)))
        complaint = self.check(parsed.value) if self.check is not None else None
        if complaint:
            raise InvalidReply(complaint)
        return parsed


@dataclass(frozen=True)
class Answer:
    """What came of an `Ask`.

    Attributes:
        value: an instance of its `reply`, or a str; None where it failed.
        failure: why it failed.
        cached: whether no call was made for it.
        repaired: whether the tolerant parser was needed.
        partial: whether the reply broke off, and `value` holds its whole items only.
    """

    value: Any | None
    failure: Failure | None = None
    cached: bool = False
    repaired: bool = False
    partial: bool = False


@dataclass
class Job:
    """One distinct request on its way, for all asks that share it.

    Attributes:
        key: the cache key of its first request.
        ask: the first of those asks.
        first: its request.
        request: what is sent next.
        left: how often it may be asked again.
        places: of the asks among those given.
        failure: of the last attempt.
        longer: whether the token limit was raised.
    """

    key: str
    ask: Ask
    first: Request
    request: Request
    left: int
    places: list[int] = field(default_factory=list)
    failure: Failure | None = None
    longer: bool = False

    def answered(self, answer: Answer) -> Iterator[tuple[int, Answer]]:
        """Yield (position, answer) for each ask."""
        return ((place, answer) for place in self.places)

    def again(self, failure: Failure) -> bool:
        """Prepare the next attempt; False where there is none."""
        if failure.kind not in _ASKED_AGAIN or self.left == 0 or (failure.kind == "length" and self.longer):
            return False
        self.left -= 1
        self.failure = failure
        if failure.kind == "length":
            self.longer = True
            self.request = replace(self.request, max_tokens=2 * self.request.max_tokens)
        else:
            self.request = replace(self.request, messages=_told(self.request.messages, failure))
        return True


def failure_of(outcome: Reply | Failure) -> Failure | None:
    """Return why an outcome is of no use whatever was asked; None where there is a text to parse."""
    if isinstance(outcome, Failure):
        return outcome
    tokens = {"prompt_tokens": outcome.prompt_tokens, "completion_tokens": outcome.completion_tokens}
    if outcome.finish == "length":
        return Failure("length", f"cut after {outcome.completion_tokens} tokens", outcome.text, **tokens)
    if not strip_reasoning(outcome.text):
        return Failure("empty", "the reply has no text", outcome.text, **tokens)
    return None


def _told(messages: tuple[Message, ...], failure: Failure) -> tuple[Message, ...]:
    """The chat with the unusable reply and what is wrong with it; turns of user and assistant alternate."""
    reply = valid_text(failure.text).strip()
    error = f"Your reply cannot be used: {valid_text(failure.message)}. Answer again, in exactly the form asked for."
    if not reply:
        last = messages[-1]
        return (*messages[:-1], replace(last, content=f"{last.content}\n\n{error.replace('reply', 'last reply', 1)}"))
    if len(reply) > _TOLD:
        reply = reply[:_TOLD] + " ..."
    return (*messages, Message("assistant", reply), Message("user", error))

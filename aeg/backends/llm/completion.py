"""Chat completions in OpenAI's form: the body that is sent, and what a body that came back says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aeg.backends.llm.base import Failure, Reply, Request
from aeg.backends.llm.reasoning import strip_reasoning
from aeg.backends.llm.retry import Trouble, trouble_of_status

STRUCTURED = ("json_schema", "json_object", "none")
TOKEN_LIMITS = ("auto", "max_tokens", "max_completion_tokens")
CHARACTERS_A_TOKEN = 3
_PER_MESSAGE = 4  # tokens that a chat template puts around a message
_CUT = ("length", "max_tokens", "model_length")
_ABORTED = ("abort", "error")


def completion_body(
    request: Request,
    model: str,
    *,
    temperature: float | None,
    seed: int | None,
    structured: str,
    token_limit: str,
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the body of `POST /chat/completions` for a request.

    Args:
        request: what is asked.
        model: the model's name.
        temperature: None leaves it out.
        seed: None leaves it out; `request.sample` is added to it.
        structured: how a request's schema is sent, one of `STRUCTURED`.
        token_limit: the field for `request.max_tokens`: `max_tokens` or `max_completion_tokens`.
        extra: further fields.

    Example:
        >>> from aeg.backends.llm.base import Message
        >>> request = Request("ask", "q1", (Message("user", "Hi"),), max_tokens=8)
        >>> completion_body(request, "m", temperature=0.0, seed=None, structured="none", token_limit="max_tokens",
        ...     extra={})
        {'model': 'm', 'messages': [{'role': 'user', 'content': 'Hi'}], 'max_tokens': 8, 'temperature': 0.0}
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        token_limit: request.max_tokens,
    }
    if temperature is not None:
        body["temperature"] = temperature
    if seed is not None:
        body["seed"] = seed + request.sample
    if request.schema and structured == "json_schema":
        schema = {"name": "reply", "schema": json.loads(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif request.schema and structured == "json_object":
        body["response_format"] = {"type": "json_object"}
    return body | dict(extra)


def estimated_tokens(request: Request) -> int:
    """Return about how many tokens a request's prompt has: a third of its characters, and some for each message."""
    characters = sum(len(message.content) for message in request.messages) + len(request.schema)
    return characters // CHARACTERS_A_TOKEN + _PER_MESSAGE * len(request.messages)


def read_completion(body: Any, request: Request, seconds: float) -> Reply | Failure | Trouble:
    """Return what a parsed response body holds.

    The reasoning part is left out of the text. Where the endpoint counts no tokens, they are estimated.

    Args:
        body: the parsed JSON of a response with status 200.
        request: what was asked.
        seconds: how long it took.

    Returns:
        A `Reply`; a `Failure` where the reply is empty or refused; a `Trouble` where the body is no completion.

    Example:
        >>> request = Request("ask", "q1", ())
        >>> choice = {"message": {"content": "<think>hm</think>Yes."}, "finish_reason": "stop"}
        >>> usage = {"prompt_tokens": 7, "completion_tokens": 5}
        >>> read_completion({"choices": [choice], "usage": usage}, request, 0.5)
        Reply(text='Yes.', prompt_tokens=7, completion_tokens=5, seconds=0.5, finish='stop')
    """
    choice = _choice(body)
    if choice is None:
        return _no_completion(body)
    message: Mapping[str, Any] = choice["message"]
    finish = str(choice.get("finish_reason") or "stop")
    if finish in _ABORTED:
        return Trouble("server", f"the endpoint broke off its reply (finish_reason {finish!r})", again=True)
    whole = _content(message.get("content"))
    text = strip_reasoning(whole)
    prompt, completion = _usage(body, request, whole)
    refusal = message.get("refusal")
    if refusal or finish == "content_filter":
        why = f"the model refuses: {refusal}" if refusal else "the endpoint's content filter stopped the reply"
        return Failure("refused", why, text, prompt, completion)
    if finish in _CUT:
        return Reply(text, prompt, completion, seconds, finish="length")
    if not text:
        return Failure("empty", "the reply has no content", whole, prompt, completion)
    return Reply(text, prompt, completion, seconds)


def _choice(body: Any) -> dict[str, Any] | None:
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) and isinstance(choice.get("message"), dict) else None


def _no_completion(body: Any) -> Trouble:
    """What a body without a choice means: some servers and gateways send errors with status 200."""
    if isinstance(body, dict) and isinstance(body.get("error"), dict | str):
        code = body["error"].get("code") if isinstance(body["error"], dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        return trouble_of_status(status, body, {})
    return Trouble("server", "the endpoint's answer is no chat completion", again=True)


def _content(content: Any) -> str:
    """A message's text: a str, or parts of which those of type `text` count."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(str(part.get("text") or "") for part in parts)
    return content if isinstance(content, str) else ""


def _usage(body: Mapping[str, Any], request: Request, text: str) -> tuple[int, int]:
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return (
        prompt if isinstance(prompt, int) else estimated_tokens(request),
        completion if isinstance(completion, int) else -(-len(text) // CHARACTERS_A_TOKEN),
    )

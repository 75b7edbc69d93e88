"""What went wrong with a call, whether it is tried again, and after how long."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

_SHOWN = 400  # characters of an endpoint's message
_FATAL = {
    401: "the endpoint refuses the key",
    402: "the account's credit is used up",
    404: "the endpoint knows no such model or address",
}
_NO_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_AGAIN = (408, 409, 425)
_TOO_LONG = re.compile(
    r"context.?length.?exceeded|exceed_context_size|context_exceeded"  # codes of OpenAI and llama.cpp
    r"|maximum context length|context size has been exceeded"  # OpenAI, vLLM; llama.cpp
    r"|exceeds? (?:the )?(?:available |maximum )?(?:model'?s? )?(?:context|input (?:length|token))"
    r"|longer than the (?:maximum )?model'?s? (?:maximum )?(?:context )?len|too long to fit into the model"
    r"|exceeds? the model'?s? (?:maximum |max )?(?:context|len)|exceed context window"
    r"|(?:prompt|input|request)(?: is)? too (?:long|large)|input (?:length|token).{0,40}exceed"
    r"|max_new_tokens.{0,4}must be <=|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Trouble:
    """Why a call brought no reply.

    Attributes:
        kind: one of `aeg.backends.llm.base.FAILURES`.
        message: for a person.
        again: whether the same request may succeed later.
        wait: seconds that the endpoint asked to wait.
        fatal: whether every other request would fail as well (wrong key, unknown model).
    """

    kind: str
    message: str
    again: bool = False
    wait: float | None = None
    fatal: bool = False


def trouble_of(error: BaseException, timeout: float, now: float | None = None) -> Trouble:
    """Return what an exception of the client, of its transport or of `asyncio.timeout` means.

    Args:
        error: an `openai.APIError`, an error of the HTTP library, or a `TimeoutError`.
        timeout: the limit in seconds, for the message.
        now: seconds since the epoch, for a Retry-After that is a date; None for the present.

    Example:
        >>> trouble_of(TimeoutError(), 120)
        Trouble(kind='timeout', message='no reply within 120 s', again=True, wait=None, fatal=False)
    """
    status, response = getattr(error, "status_code", None), getattr(error, "response", None)
    if status is not None and response is not None:
        return trouble_of_status(status, _parsed(response.text), response.headers, now)
    if type(error) is TimeoutError:
        return Trouble("timeout", f"no reply within {timeout:g} s", again=True)
    cause = error.__cause__ or error.__context__ or error
    return Trouble("connection", _short(f"{type(cause).__name__}: {cause}"), again=True)


def trouble_of_status(status: int, body: Any, headers: Mapping[str, str], now: float | None = None) -> Trouble:
    """Return what an HTTP error means.

    Args:
        status: the HTTP status, or the code in the body of an error that came with status 200.
        body: the parsed body; a str where it is no JSON.
        headers: of the response.
        now: as in `trouble_of`.

    Example:
        >>> body = {"error": {"message": "Context size has been exceeded.", "code": 500}}
        >>> trouble_of_status(500, body, {}).kind
        'context_length'
        >>> trouble_of_status(429, {}, {"retry-after": "2"}).wait
        2.0
    """
    said, codes = _said(body)
    message = _short(f"HTTP {status}: {said}" if said else f"HTTP {status}")
    if _TOO_LONG.search(f"{' '.join(codes)} {said}") or status == 413:
        return Trouble("context_length", message)
    if any(code in _NO_QUOTA for code in codes):
        return Trouble("refused", f"{_FATAL[402]} ({message})", fatal=True)
    if status in _FATAL:
        return Trouble("refused", f"{_FATAL[status]} ({message})", fatal=True)
    wait = retry_after(headers, now)
    if status == 429:
        return Trouble("rate_limit", message, again=True, wait=wait)
    if status >= 500 or status in _AGAIN:
        return Trouble("server", message, again=True, wait=wait)
    return Trouble("refused", message)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds that a response asks to wait (`Retry-After`: seconds or an HTTP date), or None.

    Example:
        >>> retry_after({"retry-after": "1.5"}), retry_after({"retry-after-ms": "250"}), retry_after({})
        (1.5, 0.25, None)
        >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, now=40.0)
        60.0
    """
    lower = {name.lower(): value for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = lower.get(name, "").strip()
        if re.fullmatch(r"\d{1,12}(\.\d{1,12})?", value):
            return float(value) * unit
    try:
        due = parsedate_to_datetime(lower.get("retry-after", "")).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, due - (time.time() if now is None else now))


@dataclass
class Backoff:
    """Waits between attempts: what the endpoint asked for, or base · 2^(attempt - 1), both with jitter and a cap.

    Without a wish of the endpoint the wait is drawn from [w/2, w] with w = min(cap, base · 2^(attempt - 1)); with
    one it is min(wish, longest) and up to a tenth of it (a second at most) on top, so that requests that were
    turned away together do not come back together.

    Attributes:
        base: seconds before the second attempt.
        cap: seconds at most, where the endpoint asked for nothing.
        longest: seconds at most, where it did.
        seed: of the jitter.

    Example:
        >>> 2 <= Backoff(base=1, cap=8).wait(attempt=3) <= 4
        True
        >>> 20 <= Backoff(base=1, cap=8).wait(attempt=1, asked=20) <= 21
        True
    """

    base: float = 1.0
    cap: float = 60.0
    longest: float = 120.0
    seed: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def wait(self, attempt: int, asked: float | None = None) -> float:
        """Return the seconds to wait after the failure of attempt number `attempt` (from 1)."""
        share = self._random.random()
        if asked is not None:
            asked = min(asked, self.longest)
            return asked + share * min(1.0, asked / 10)
        full = min(self.cap, self.base * 2.0 ** min(attempt - 1, 60))
        return full * (1 + share) / 2


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _said(body: Any) -> tuple[str, list[str]]:
    """Return an error body's message, and its code and type."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return str(error or ""), []
    message = error.get("message") or error.get("detail") or error.get("msg") or ""
    return str(message), [str(error[key]) for key in ("code", "type") if error.get(key) is not None]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]} ..."

"""Any OpenAI-compatible endpoint (OpenAI, vLLM, llama.cpp, SGLang, a gateway), through the official client."""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from aeg.backends.llm.base import BACKENDS, Backend, Request, Session
from aeg.backends.llm.completion import STRUCTURED, TOKEN_LIMITS, completion_body
from aeg.config.ranges import param
from aeg.errors import ConfigError, DependencyError, LLMError

OFFICIAL = "https://api.openai.com/v1"
_OFFICIAL_HOST = "api.openai.com"
_NO_KEY = "none-needed"  # sent to servers that ask for no key: the client insists on one
_PATH = "/chat/completions"
_OWN = (
    "model", "messages", "stream", "n", "temperature", "seed", "max_tokens", "max_completion_tokens", "response_format"
)  # fmt: skip
_SECRET = re.compile(r"key|token|secret|password|signature|^sig$|credential", re.IGNORECASE)


@dataclass(frozen=True)
class Chat(Backend):
    """Base of backends that ask for chat completions in OpenAI's form, now or by an offline job.

    Attributes:
        base_url: the endpoint, up to and with `/v1`. No credentials in it.
        structured: how a schema is asked for: `json_schema` (OpenAI, vLLM, llama.cpp, SGLang), `json_object`, `none`.
        token_limit: the field for the longest reply; `auto` is `max_completion_tokens` for OpenAI, else `max_tokens`.
        send_seed: whether the seed is sent; some endpoints refuse it.
        send_temperature: likewise; some reasoning models refuse it.
        extra_body: further fields of every request, for example `{chat_template_kwargs: {enable_thinking: false}}`.
    """

    base_url: str | None = None
    structured: str = param("json_schema", choices=STRUCTURED)
    token_limit: str = param("auto", choices=TOKEN_LIMITS)
    send_seed: bool = True
    send_temperature: bool = True
    extra_body: dict[str, Any] = param({})


@BACKENDS.register("openai")
@dataclass(frozen=True)
class OpenAI(Chat):
    """Chat completions of an OpenAI-compatible endpoint, many requests at once.

    A request is tried again, after the time that the endpoint asks for or an exponential back-off, on HTTP 408,
    409, 425, 429 and 5xx, on time-outs and on broken connections. A refused key, an unknown model and used-up
    credit end the run; so do `give_up_after` requests in a row without a reply.

    Attributes:
        base_url: as in `Chat`, like whatever is not named here; None is OpenAI's own. A query is sent along.
        api_key_env: the environment variable that holds the key. An endpoint other than OpenAI's may need none.
            Whoever holds an OpenAI key in that variable and talks to another server should name another variable.
        max_concurrency: requests under way at once.
        requests_per_minute, tokens_per_minute: rate limits of the account; None for none.
        timeout: seconds for one attempt, from sending to the last byte.
        max_attempts: of one request.
        backoff_base, backoff_cap: seconds; see `aeg.backends.llm.retry.Backoff`.
        longest_wait: seconds that a Retry-After is honoured for at most.
        give_up_after: so many requests in a row that failed for want of a reply end the run.

    Raises:
        ConfigError: if a field is out of range, or a key stands in `base_url` or in `api_key_env`.

    Example:
        >>> backend = OpenAI(model="qwen3-8b", base_url="http://127.0.0.1:8000/v1/")
        >>> backend.endpoint, backend.limit_field
        ('http://127.0.0.1:8000/v1', 'max_tokens')
    """

    api_key_env: str = "OPENAI_API_KEY"
    max_concurrency: int = param(32, ge=1)
    requests_per_minute: float | None = param(None, gt=0)
    tokens_per_minute: float | None = param(None, gt=0)
    timeout: float = param(120.0, gt=0)
    max_attempts: int = param(6, ge=1)
    backoff_base: float = param(1.0, ge=0)
    backoff_cap: float = param(60.0, ge=0)
    longest_wait: float = param(120.0, ge=0)
    give_up_after: int = param(100, ge=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.api_key_env) or self.api_key_env.startswith("sk_"):
            raise ConfigError("api_key_env: expected the name of an environment variable, not a key (value not shown)")
        if self.base_url is not None:
            _check_url(self.base_url)
        for name in self.extra_body:
            if name in _OWN:
                raise ConfigError(f"extra_body.{name}: set by the backend itself; use its own parameters")

    @property
    def endpoint(self) -> str:
        """The base URL without a query."""
        parts = urlsplit(self.base_url or OFFICIAL)
        return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"

    @property
    def query(self) -> dict[str, str]:
        """The query of the base URL."""
        return dict(parse_qsl(urlsplit(self.base_url or OFFICIAL).query))

    @property
    def official(self) -> bool:
        """Whether the endpoint is OpenAI's own, regional ones included."""
        host = urlsplit(self.endpoint).hostname or ""
        return host == _OFFICIAL_HOST or host.endswith(f".{_OFFICIAL_HOST}")

    @property
    def limit_field(self) -> str:
        """The body's field for the longest reply."""
        if self.token_limit != "auto":
            return self.token_limit
        return "max_completion_tokens" if self.official else "max_tokens"

    @property
    def parameters(self) -> dict[str, Any]:
        """What decides a reply beside endpoint, model, messages and schema."""
        return {
            "temperature": self.temperature if self.send_temperature else None,
            "seed": self.seed if self.send_seed else None,
            "structured": self.structured,
            "extra_body": dict(self.extra_body),
        }

    @property
    def advice(self) -> str:
        """What to look at where the endpoint refuses everything."""
        return f"See the key in the environment variable {self.api_key_env}, 'model' and 'base_url'"

    def body(self, request: Request) -> dict[str, Any]:
        """Return the body that is sent for a request."""
        return completion_body(
            request,
            self.model,
            temperature=self.temperature if self.send_temperature else None,
            seed=self.seed if self.send_seed else None,
            structured=self.structured,
            token_limit=self.limit_field,
            extra=self.extra_body,
        )

    def open(self) -> Session:
        """Return a session; nothing is sent yet.

        Raises:
            ConfigError: if no model is named.
            LLMError: if the key is missing.
            DependencyError: if the package `openai` is missing.
        """
        from aeg.backends.llm.session import OpenAISession

        if not self.model:
            raise ConfigError("model: got '', expected the name that the endpoint knows the model by")
        if importlib.util.find_spec("openai") is None:
            raise DependencyError("LLM backend 'openai' needs the package 'openai': pip install 'openai>=3.57,<4'")
        return OpenAISession(self, self._key())

    def _key(self) -> str:
        key = os.environ.get(self.api_key_env, "").strip()
        if not key and self.official:
            raise LLMError(
                f"{self.endpoint} needs a key, and the environment variable {self.api_key_env} is not set: "
                f"export {self.api_key_env}=..., or name the variable that holds it in 'api_key_env'"
            )
        return key or _NO_KEY


def _check_url(url: str) -> None:
    """Refuse what is no HTTP address, and keys in it (they would be written to manifests)."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigError("base_url: expected an address such as http://127.0.0.1:8000/v1 (value not shown)")
    if parts.username or parts.password or any(_SECRET.search(name) for name, _ in parse_qsl(parts.query)):
        raise ConfigError(
            "base_url: holds a user name, a password or a key (value not shown); put the key into an environment "
            "variable and name that in 'api_key_env'"
        )
    if parts.path.rstrip("/").endswith(_PATH):
        raise ConfigError(f"base_url: got {url!r}, expected it without {_PATH!r}")

"""An open connection to an OpenAI-compatible endpoint: an event loop in a thread, results through a queue."""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from aeg.backends.llm.base import Failure, Reply, Request, Session
from aeg.backends.llm.completion import estimated_tokens, read_completion
from aeg.backends.llm.connection import make_client
from aeg.backends.llm.limiter import Limiter
from aeg.backends.llm.retry import Backoff, Trouble, trouble_of
from aeg.errors import LLMError

if TYPE_CHECKING:
    import openai

    from aeg.backends.llm.openai import OpenAI

_LOG = logging.getLogger(__name__)
_GOODBYE = 10.0  # seconds for what is under way to be cancelled
Outcome = tuple[int, Reply | Failure]


class OpenAISession(Session):
    """Sends requests to one endpoint, `max_concurrency` at once over all calls of `send`.

    Args:
        backend: endpoint, model and limits.
        key: sent as the bearer token; never shown.
    """

    def __init__(self, backend: OpenAI, key: str) -> None:
        self._backend = backend
        self._key = key
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def send(self, requests: Sequence[Request]) -> Iterator[Outcome]:
        """Yield (position, outcome) as the replies arrive; see `Session.send`.

        Raises:
            LLMError: if the endpoint refuses the key or knows no such model, or if `give_up_after` requests in a
                row brought no reply.
        """
        if not requests:
            return
        loop = self._running()
        results: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
        over = threading.Event()
        work = asyncio.run_coroutine_threadsafe(self._work(requests, results, over), loop)
        missing = len(requests)
        try:
            while (item := results.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                missing -= 1
                yield item
            if missing:
                raise LLMError(f"the session was closed while {missing} of {len(requests)} requests were under way")
        finally:
            work.cancel()
            over.wait(_GOODBYE)

    def close(self) -> None:
        """Cancel what is under way, close the connections and end the thread."""
        with self._starting:
            loop, self._loop = self._loop, None
        if loop is None:
            return
        asyncio.run_coroutine_threadsafe(self._stop(), loop).result(_GOODBYE)
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(_GOODBYE)
        loop.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._backend!r})"

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._prepare()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="llm-endpoint", daemon=True)
                self._thread.start()
            return self._loop

    def _prepare(self) -> None:
        made = self._backend
        self._client: openai.AsyncOpenAI = make_client(
            made.endpoint,
            self._key,
            made.query,
            connections=made.max_concurrency,
            timeout=made.timeout,
            official=made.official,
        )
        self._limiter = Limiter(made.requests_per_minute, made.tokens_per_minute)
        self._slots = asyncio.Semaphore(made.max_concurrency)
        self._backoff = Backoff(made.backoff_base, made.backoff_cap, made.longest_wait, made.seed)
        self._losses = 0  # requests in a row without a reply
        self._errors = _transport_errors()

    async def _stop(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._client.close()

    async def _work(self, requests: Sequence[Request], results: queue.SimpleQueue[Any], over: threading.Event) -> None:
        positions = iter(range(len(requests)))

        async def worker() -> None:
            for position in positions:
                async with self._slots:
                    outcome = await self._ask(requests[position])
                results.put((position, outcome))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(len(requests), self._backend.max_concurrency)):
                    group.create_task(worker())
        except BaseExceptionGroup as errors:
            results.put(errors.exceptions[0])
        finally:
            results.put(None)
            over.set()

    async def _ask(self, request: Request) -> Reply | Failure:
        body = json.dumps(self._backend.body(request), ensure_ascii=False).encode("utf-8", "replace")
        attempt, attempts = 1, self._backend.max_attempts
        while isinstance(outcome := await self._attempt(request, body), Trouble):
            if not outcome.again or attempt == attempts:
                return self._failed(outcome, attempt)
            pause = self._backoff.wait(attempt, outcome.wait)
            _LOG.info("attempt %d of %d: %s; next in %.1f s", attempt, attempts, self._clean(outcome.message), pause)
            await asyncio.sleep(pause)
            attempt += 1
        self._losses = 0
        return outcome

    async def _attempt(self, request: Request, body: bytes) -> Reply | Failure | Trouble:
        import httpx2

        estimate = estimated_tokens(request) + request.max_tokens
        await self._limiter.acquire(estimate)
        begun = time.perf_counter()
        try:
            async with asyncio.timeout(self._backend.timeout):
                response = await self._client.post("/chat/completions", content=body, cast_to=httpx2.Response)
        except self._errors as error:
            return trouble_of(error, self._backend.timeout)
        seconds = time.perf_counter() - begun
        try:
            parsed = json.loads(response.content)
        except ValueError:
            return Trouble("connection", "the endpoint's answer breaks off or is no JSON", again=True)
        outcome = read_completion(parsed, request, seconds)
        if not isinstance(outcome, Trouble):
            self._limiter.correct(estimate, outcome.prompt_tokens + outcome.completion_tokens)
        return outcome

    def _failed(self, trouble: Trouble, attempts: int) -> Failure:
        """Return the failure of one request; raise where it is everyone's."""
        message = self._clean(trouble.message)
        where = f"{self._backend.endpoint}, model {self._backend.model!r}"
        if trouble.fatal:
            raise LLMError(f"{where}: {message}. {self._backend.advice}")
        self._losses = 0 if trouble.kind == "context_length" else self._losses + 1
        if self._losses >= self._backend.give_up_after:
            raise LLMError(
                f"{where}: {self._losses} requests in a row brought no reply, the last: {message}. "
                f"Replies so far are kept; see that the endpoint answers, then run the same command again"
            )
        return Failure(trouble.kind, message if attempts == 1 else f"{message} ({attempts} attempts)")

    def _clean(self, text: str) -> str:
        return text.replace(self._key, "***")


def _transport_errors() -> tuple[type[BaseException], ...]:
    """What the client and its transports raise where a call fails; anything else is a mistake of ours."""
    import httpx2
    import openai

    errors: list[type[BaseException]] = [openai.APIError, httpx2.HTTPError, OSError]  # OSError: TimeoutError too
    try:
        import aiohttp
    except ImportError:
        return tuple(errors)
    return (*errors, aiohttp.ClientError)

"""A local HTTP server that speaks OpenAI's chat completions and misbehaves on demand.

    with ScriptedServer([too_many(0.1), say("hello")]) as server:
        backend = BACKENDS.make("openai", model="m", base_url=server.url)
        ...
        assert server.calls == 2 and server.received[0].prompt == "..."

The script is a list of behaviours (one a request, in the order of arrival; the last one repeats) or a callable
`(received) -> behaviour`. In place of a behaviour, a str is a reply's text and a dict or list is a reply as JSON.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Behaviour:
    """What the server does with one request."""

    text: str | None = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0
    finish: str = "stop"
    prompt_tokens: int = 10
    completion_tokens: int = 5
    message: tuple[tuple[str, Any], ...] = ()  # further fields of the reply's message
    error: dict[str, Any] | None = None  # body of an error
    body: bytes | None = None  # a raw body in place of the reply
    content_type: str = "application/json"
    hang: bool = False  # never answers
    cut: int | None = None  # closes after this many bytes of the body
    chunked: bool = False  # chunked transfer in place of Content-Length
    trickle: bool = False  # a blank every 10 ms, for ever


def say(text: str | None, **fields: Any) -> Behaviour:
    """A good reply with this content."""
    return Behaviour(text=text, **fields)


def say_json(value: Any, **fields: Any) -> Behaviour:
    """A good reply whose content is JSON."""
    return Behaviour(text=json.dumps(value, ensure_ascii=False), **fields)


def too_many(retry_after: float | str | None = None, **fields: Any) -> Behaviour:
    """429, with a Retry-After header (seconds or an HTTP date) where one is given."""
    headers = () if retry_after is None else (("Retry-After", str(retry_after)),)
    error = {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}
    return Behaviour(status=429, headers=headers, error=error, **fields)


def fails(
    status: int = 500, message: str = "the server had an error", code: str | None = None, **more: Any
) -> Behaviour:
    """An error status with a message."""
    return Behaviour(status=status, error={"message": message, "type": "error", "code": code}, **more)


def too_long(flavour: str = "openai", **fields: Any) -> Behaviour:
    """The error 400 for a request longer than the context, as OpenAI, vLLM or llama.cpp word it."""
    message, kind, code = {
        "openai": (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. "
            "Please reduce the length of the messages.",
            "invalid_request_error",
            "context_length_exceeded",
        ),
        "vllm": (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (3976 in the "
            "messages, 1024 in the completion). Please reduce the length of the messages or completion.",
            "BadRequestError",
            400,
        ),
        "llama_cpp": (
            "the request exceeds the available context size. try increasing the context size or enable context shift",
            "exceed_context_size_error",
            400,
        ),
    }[flavour]
    return Behaviour(status=400, error={"message": message, "type": kind, "param": "messages", "code": code}, **fields)


def hangs(**fields: Any) -> Behaviour:
    """No answer at all; the connection stays open."""
    return Behaviour(hang=True, **fields)


def trickles(**fields: Any) -> Behaviour:
    """A body of blanks that never ends."""
    return Behaviour(trickle=True, **fields)


def cuts(after: int = 20, chunked: bool = False, **fields: Any) -> Behaviour:
    """A body that breaks off after some bytes."""
    return Behaviour(text="a reply that is cut off", cut=after, chunked=chunked, **fields)


def garbage(body: bytes = b'{"choices": [{"mess', content_type: str = "application/json", **fields: Any) -> Behaviour:
    """A complete answer whose body is not a chat completion."""
    return Behaviour(body=body, content_type=content_type, **fields)


def empty(**fields: Any) -> Behaviour:
    """A reply without content."""
    return Behaviour(text="", completion_tokens=0, **fields)


def cut_at_length(text: str, **fields: Any) -> Behaviour:
    """A reply that ended at its token limit."""
    return Behaviour(text=text, finish="length", **fields)


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    number: int  # 0 for the first
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float  # time.monotonic()
    raw: bytes

    @property
    def prompt(self) -> str:
        """The last message's content."""
        return self.body["messages"][-1]["content"]


Script = Sequence[Any] | Callable[[Received], Any] | str


class ScriptedServer:
    """The server, in a thread of its own; use it as a context manager."""

    def __init__(self, script: Script = "ok", delay: float = 0.0) -> None:
        self.script = script
        self.delay = delay  # seconds before every answer
        self.received: list[Received] = []
        self.active = 0
        self.peak = 0  # most requests under way at once
        self.dropped = 0  # requests whose client went away before the answer
        self.connections = 0
        self.port = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.Transport] = set()
        self._thread = threading.Thread(target=self._run, daemon=True, name="scripted-server")

    @property
    def url(self) -> str:
        """The base URL to give to a client."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def calls(self) -> int:
        """How many chat completions were asked for."""
        return len(self.received)

    @property
    def prompts(self) -> list[str]:
        """The last message of every request, in the order of arrival."""
        return [received.prompt for received in self.received]

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=1024)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for transport in list(self._open):
            transport.abort()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, asyncio.sleep(0.01), return_exceptions=True))
        self._loop.close()

    def _behaviour(self, received: Received) -> Behaviour:
        if callable(self.script):
            found = self.script(received)
        elif isinstance(self.script, str):
            found = self.script
        else:
            found = self.script[min(received.number, len(self.script) - 1)]
        if isinstance(found, str):
            found = say(found)
        elif not isinstance(found, Behaviour):
            found = say_json(found)
        return replace(found, delay=found.delay + self.delay)


class _Connection(asyncio.Protocol):
    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.buffer = b""
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.server.connections += 1
        self.server._open.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server._open.discard(self.transport)
        if self.task is not None and not self.task.done():
            self.server.dropped += 1
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self.buffer = rest[length:]
        raw = rest[:length]
        received = Received(
            number=len(self.server.received),
            path=lines[0].split(" ")[1],
            headers=headers,
            body=json.loads(raw) if raw else {},
            at=time.monotonic(),
            raw=raw,
        )
        self.server.received.append(received)
        self.task = asyncio.get_running_loop().create_task(self._answer(received))

    async def _answer(self, received: Received) -> None:
        server = self.server
        server.active += 1
        server.peak = max(server.peak, server.active)
        try:
            behaviour = server._behaviour(received)
            if behaviour.delay:
                await asyncio.sleep(behaviour.delay)
            if behaviour.hang:
                await asyncio.sleep(3600)
            if behaviour.trickle:
                await self._trickle()
            self._write(behaviour, received)
        finally:
            server.active -= 1

    async def _trickle(self) -> None:
        self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n")
        while True:
            self.transport.write(b" ")
            await asyncio.sleep(0.01)

    def _write(self, behaviour: Behaviour, received: Received) -> None:
        body = behaviour.body if behaviour.body is not None else json.dumps(_payload(behaviour, received)).encode()
        head = [f"HTTP/1.1 {behaviour.status} Scripted", f"content-type: {behaviour.content_type}"]
        head += [f"{name}: {value}" for name, value in behaviour.headers]
        head.append("transfer-encoding: chunked" if behaviour.chunked else f"content-length: {len(body)}")
        start = "\r\n".join(head).encode() + b"\r\n\r\n"
        sent = body if behaviour.cut is None else body[: behaviour.cut]
        if behaviour.chunked:
            sent = f"{len(sent):x}\r\n".encode() + sent + b"\r\n" + (b"" if behaviour.cut is not None else b"0\r\n\r\n")
        self.transport.write(start + sent)
        if behaviour.cut is not None:
            self.transport.close()


def _payload(behaviour: Behaviour, received: Received) -> dict[str, Any]:
    if behaviour.error is not None:
        return {"error": behaviour.error}
    message = {"role": "assistant", "content": behaviour.text, **dict(behaviour.message)}
    return {
        "id": f"chatcmpl-{received.number}",
        "object": "chat.completion",
        "created": 1,
        "model": received.body.get("model", "m"),
        "choices": [{"index": 0, "message": message, "finish_reason": behaviour.finish}],
        "usage": {
            "prompt_tokens": behaviour.prompt_tokens,
            "completion_tokens": behaviour.completion_tokens,
            "total_tokens": behaviour.prompt_tokens + behaviour.completion_tokens,
        },
    }

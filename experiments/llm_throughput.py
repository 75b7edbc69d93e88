"""Requests a second of the `openai` backend against a local server that answers every request after 50 ms.

    python -m experiments.llm_throughput --concurrency 200 --requests 8000

The server runs in a process of its own, so that it takes no time from the client's interpreter. The ideal is
concurrency / latency, as if the client's own work took no time; processor time for one request says where a
client's limit lies: it keeps up with `concurrency` requests as long as replies take longer than that times
concurrency. Runs about ten seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time

from aeg.backends.llm.base import Message, Reply, Request
from aeg.backends.llm.openai import OpenAI

_REPLY = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok " * 50}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 500, "completion_tokens": 50, "total_tokens": 550},
}
_BODY = json.dumps(_REPLY).encode()
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_BODY) + _BODY


class _Slow(asyncio.Protocol):
    """Answers each request of a connection after a delay; the leanest thing that speaks HTTP."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        length = int(self.buffer[:head].lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self.buffer) >= head + 4 + length:
            self.buffer = b""
            asyncio.get_running_loop().call_later(self.latency, self.transport.write, _ANSWER)


async def _serve(latency: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Slow(latency), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def measure(port: int, count: int, concurrency: int, characters: int) -> tuple[float, float]:
    """Return wall-clock seconds and processor seconds for `count` requests, after a first round that connects."""
    backend = OpenAI(model="m", base_url=f"http://127.0.0.1:{port}/v1", max_concurrency=concurrency)
    message = Message("user", "x" * characters)
    requests = [Request("bench", str(index), (message,)) for index in range(count)]
    with backend.open() as session:
        list(session.send(requests[: 2 * concurrency]))
        wall, processor = time.perf_counter(), time.process_time()
        good = sum(isinstance(outcome, Reply) for _, outcome in session.send(requests))
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
    if good != count:
        raise SystemExit(f"{count - good} of {count} requests failed")
    return wall, processor


def main() -> None:
    """Start the server, measure, print one line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=8000)
    parser.add_argument("--concurrency", type=int, default=200)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds before the server answers")
    parser.add_argument("--characters", type=int, default=1500, help="length of a prompt")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(_serve(args.latency))
        return
    command = [sys.executable, "-m", "experiments.llm_throughput", "--serve", "--latency", str(args.latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            wall, processor = measure(int(server.stdout.readline()), args.requests, args.concurrency, args.characters)
        finally:
            server.terminate()
    rate, ideal = args.requests / wall, args.concurrency / args.latency
    cost = processor / args.requests
    print(
        f"{rate:.0f} requests/s of an ideal {ideal:.0f} ({100 * rate / ideal:.0f} %); {1e6 * cost:.0f} us of "
        f"processor time a request: {args.concurrency} at once are kept up where replies take "
        f"{args.concurrency * cost:.2f} s or longer"
    )


if __name__ == "__main__":
    main()

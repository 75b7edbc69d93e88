"""A small Weights & Biases server on this machine: what the client sends is kept; or it refuses, fails or hangs."""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "a1b2c3d4e5" * 4


@dataclass
class Run:
    """One run as the server knows it."""

    tells: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    begun: int = 0
    exit_codes: list[int] = field(default_factory=list)


@dataclass
class Wandb:
    """The server's state. `how`: `ok`, `401`, `500`, `hang`, or `refuse_history` (400 to the stream of values)."""

    how: str = "ok"
    url: str = ""
    runs: dict[str, Run] = field(default_factory=dict)
    operations: Counter[str] = field(default_factory=Counter)
    bodies: list[bytes] = field(default_factory=list)
    artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    uploads: dict[str, bytes] = field(default_factory=dict)
    requests: int = 0
    unknown: list[str] = field(default_factory=list)

    def answer(self, name: str, variables: dict[str, Any], query: str) -> dict[str, Any]:
        """Return the data of a GraphQL operation."""
        self.operations[name] += 1
        handler = getattr(self, f"_{name}", None)
        if handler is None:
            self.unknown.append(query)
        return handler(variables) if handler else {}

    def _Viewer(self, _: dict[str, Any]) -> dict[str, Any]:
        return {
            "viewer": {
                "id": "u1",
                "entity": "ann",
                "username": "ann",
                "email": "",
                "flags": "{}",
                "teams": {"edges": []},
            }
        }

    def _UpsertBucket(self, given: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.setdefault(given["name"], Run())
        run.tells |= {key: value for key, value in given.items() if value is not None}
        if given.get("config"):
            run.config = {key: of["value"] for key, of in json.loads(given["config"]).items()}
        entity = {"id": "e1", "name": "ann"}
        bucket = {
            "id": "b1", "name": given["name"], "displayName": given["name"], "description": "", "config": "{}",
            "sweepName": None, "historyLineCount": len(run.history),
            "project": {"id": "p1", "name": given.get("project") or "aeg", "entity": entity},
        }  # fmt: skip
        return {"upsertBucket": {"bucket": bucket, "inserted": True}}

    def _RunResumeStatus(self, given: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.get(given["name"])
        model = {"id": "p1", "name": given["project"], "entity": {"id": "e1", "name": "ann"}, "bucket": None}
        if run is not None:
            model["bucket"] = {
                "id": "b1", "name": given["name"], "summaryMetrics": json.dumps(run.summary), "displayName": "x",
                "logLineCount": 0, "historyLineCount": len(run.history), "eventsLineCount": 0,
                "historyTail": json.dumps([json.dumps(row) for row in run.history[-1:]]), "eventsTail": "[]",
                "config": json.dumps({key: {"value": of} for key, of in run.config.items()}), "tags": [],
                "wandbConfig": json.dumps({"t": run.config["_wandb"]["t"]}),  # tells the client that it was begun
            }  # fmt: skip
        return {"model": model}

    def _ArtifactType(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"artifact": None}}

    def _ServerFeaturesQuery(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"serverInfo": {"features": []}}

    def _CreateArtifact(self, given: dict[str, Any]) -> dict[str, Any]:
        told = given["input"]
        self.artifacts[told["artifactCollectionName"]] = told
        sequence = {"latestArtifact": {"id": "a1"}}  # known already: then no file of it is asked for
        return {"createArtifact": {"artifact": {"id": "a1", "state": "COMMITTED", "artifactSequence": sequence}}}

    def _CreateRunFiles(self, given: dict[str, Any]) -> dict[str, Any]:
        files = [{"name": name, "uploadUrl": f"{self.url}/upload/{name}"} for name in given["files"]]
        return {"createRunFiles": {"runID": "b1", "uploadHeaders": [], "files": files}}

    def stream(self, run: str, sent: dict[str, Any]) -> None:
        """Take what the stream of a run's values brings."""
        files, known = sent.get("files") or {}, self.runs.setdefault(run, Run())
        if "wandb-history.jsonl" in files:
            part = files["wandb-history.jsonl"]
            del known.history[part["offset"] :]  # the server keeps lines by their place
            known.history += [json.loads(line) for line in part["content"]]
        if "wandb-summary.json" in files:
            known.summary = json.loads(files["wandb-summary.json"]["content"][-1])
        if sent.get("complete"):
            known.exit_codes.append(sent.get("exitcode", 0))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def _handle(self) -> None:
        state: Wandb = self.server.state
        state.requests += 1
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        state.bodies.append(body)
        if state.how == "hang":
            time.sleep(60)
        if state.how in ("401", "500"):
            self._reply({"errors": [{"message": "refused" if state.how == "401" else "broken"}]}, int(state.how))
        elif self.path.startswith("/graphql"):
            query = json.loads(body)
            name = query.get("operationName") or re.findall(r"(?:query|mutation)\s+(\w+)", query["query"])[0]
            self._reply({"data": state.answer(name, query.get("variables") or {}, query["query"])})
        elif self.path.endswith("/file_stream"):
            if state.how == "refuse_history":
                self._reply({"error": "no"}, 400)
                return
            state.stream(self.path.split("/")[-2], json.loads(body))
            self._reply({})
        else:
            state.uploads[self.path.removeprefix("/upload/")] = body
            self._reply({})

    def _reply(self, value: Any, code: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = _handle

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that was killed is no matter."""


@contextmanager
def serving(how: str = "ok") -> Iterator[Wandb]:
    """Run the server for the block."""
    state = Wandb(how)
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.state = state  # type: ignore[attr-defined]
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield state
        server.shutdown()

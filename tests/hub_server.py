"""A small hub of models on this machine, as the hub's client asks for them; the client runs in a process of its own."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def _serve(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append(path)
        name, folder = self.server.name, self.server.folder
        files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
        if path.startswith(f"/api/models/{name}/tree/"):
            entries = [
                {"type": "file", "path": f, "size": (folder / f).stat().st_size, "oid": _oid(folder / f)} for f in files
            ]
            self._reply(json.dumps(entries).encode())
        elif path.startswith(f"/api/models/{name}"):
            told = {"id": name, "modelId": name, "sha": COMMIT, "siblings": [{"rfilename": file} for file in files]}
            self._reply(json.dumps({**told, "tags": [], "downloads": 0}).encode())
        elif path.startswith(f"/{name}/resolve/") and path.split("/", 5)[-1] in files:
            file = folder / path.split("/", 5)[-1]
            self._reply(file.read_bytes(), {"ETag": f'"{_oid(file)}"', "X-Repo-Commit": COMMIT})
        else:
            self._reply(b'{"error": "no such thing"}', {"X-Error-Code": "RepoNotFound"}, 404)

    def _reply(self, data: bytes, headers: dict[str, str] | None = None, code: int = 200) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_HEAD = _serve

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def hub(name: str, folder: Path) -> Iterator[ThreadingHTTPServer]:
    """Serve one model for the block; `asked` lists the paths that were asked for, `url` is the hub's address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        server.name, server.folder, server.asked = name, folder, []  # type: ignore[attr-defined]
        server.url = f"http://127.0.0.1:{server.server_address[1]}"  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def _oid(file: Path) -> str:
    return hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()

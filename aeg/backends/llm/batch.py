"""Backend `batch`: requests are written to files for an offline job, and results read when they are there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from aeg.backends.llm.base import BACKENDS, Failure, Reply, Request, Session
from aeg.backends.llm.batch_folder import BatchFolder, Result, result_name
from aeg.backends.llm.cache import digest
from aeg.backends.llm.completion import read_completion
from aeg.backends.llm.openai import Chat, OpenAI
from aeg.backends.llm.retry import Trouble, trouble_of_status
from aeg.config.ranges import param
from aeg.errors import ConfigError, PendingBatch

_SHOWN = 4  # files named in the message


@BACKENDS.register("batch")
@dataclass(frozen=True)
class Batch(Chat):
    """An offline job: OpenAI's Batch API, vLLM's `run-batch`, or what else reads their files.

    A run writes the requests that have no result yet to `folder`, and stops with exit code 75. Once the results
    are in the same folder, the same command goes on; what failed or is missing there is requested again, up to
    `max_attempts` times. Where `base_url` and the other parameters are those of an `openai` backend, both share
    their cached replies.

    Attributes:
        folder: of the files; one folder may serve many runs.
        base_url: as in `Chat`, like whatever is not named here: the endpoint that the job stands for; None: no
            particular one.
        max_attempts: of one request; then it has failed.

    Example:
        >>> backend = Batch(model="m", folder="night")
        >>> backend.endpoint, backend.parameters["structured"]
        ('batch', 'json_schema')
    """

    folder: str = ""
    max_attempts: int = param(3, ge=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.live()

    def live(self) -> OpenAI:
        """Return the endpoint that would be asked the same at once.

        Raises:
            ConfigError: if it would not take these parameters.
        """
        return OpenAI(**{field.name: getattr(self, field.name) for field in fields(Chat)})

    @property
    def endpoint(self) -> str:
        """The address that the job stands for, or `batch`."""
        return "batch" if self.base_url is None else self.live().endpoint

    @property
    def parameters(self) -> dict[str, Any]:
        """Those of the `openai` backend."""
        return self.live().parameters

    def open(self) -> Session:
        """Return the session; nothing is written yet.

        Raises:
            ConfigError: if no model or no folder is named.
        """
        for name, what in (("model", "the name that the job knows the model by"), ("folder", "where the files go")):
            if not getattr(self, name):
                raise ConfigError(f"batch.{name}: got '', expected {what}")
        return _BatchSession(self)


class _BatchSession(Session):
    """An open folder of requests and results."""

    def __init__(self, backend: Batch) -> None:
        self.backend = backend
        self.live = backend.live()
        self.folder = BatchFolder(Path(backend.folder).expanduser())

    def send(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """Yield what the files of results hold, then write and name what waits; see `Session.send`.

        Raises:
            PendingBatch: if anything waits; requests that an unanswered file holds already are not written again.
            DataError: if the folder cannot be read or written.
        """
        self.folder.refresh()
        results, requested = self.folder.results(), self.folder.requested()
        answered = {path for custom, path in requested.items() if custom in results}
        fresh: dict[str, dict[str, Any]] = {}
        waiting: dict[Path, int] = {}
        for place, request in enumerate(requests):
            body = self.live.body(request)
            state = self._state(digest([body, request.sample])[:40], request, results, requested, answered)
            if isinstance(state, Path):
                waiting[state] = waiting.get(state, 0) + 1
            elif isinstance(state, str):
                fresh[state] = body
            else:
                yield place, state
        if fresh or waiting:
            for path in self.folder.write(list(fresh.items())):
                waiting[path] = 0
            raise PendingBatch(self._notice(len(fresh) + sum(waiting.values()), sorted(waiting)))

    def _state(
        self,
        name: str,
        request: Request,
        results: dict[str, list[Result]],
        requested: dict[str, Path],
        answered: set[Path],
    ) -> Reply | Failure | str | Path:
        """What became of a request: an outcome, the custom id to request it by, or the file that it waits in."""
        last = Failure("missing", "the results do not hold it")
        for attempt in range(1, self.backend.max_attempts + 1):
            custom = f"{name}-{attempt}"
            if custom in results:
                outcome = _best([_outcome(result, request) for result in results[custom]])
                if not isinstance(outcome, Trouble):
                    return outcome
                last = Failure(outcome.kind, outcome.message)
                if not outcome.again and not outcome.fatal:
                    return last
            elif custom not in requested:
                return custom
            elif requested[custom] not in answered:
                return requested[custom]
            else:
                last = Failure("missing", f"the results of {requested[custom].name} do not hold it")
        advice = f"attempt {self.backend.max_attempts} of {self.backend.max_attempts}; raise max_attempts to go on"
        return Failure(last.kind, f"{last.message} ({advice})")

    def _notice(self, count: int, files: list[Path]) -> str:
        folder, first = self.folder.path, files[0]
        names = ", ".join(path.name for path in files[:_SHOWN])
        names += f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
        command = ["vllm", "run-batch", "-i", str(first), "-o", str(folder / result_name(first))]
        malformed = "".join(f" {name}: {n} lines were no results." for name, n in self.folder.malformed.items())
        return (
            f"{count} requests to {self.backend.model} wait for an offline job: {names} in {folder}. With vLLM: "
            f"{shlex.join([*command, '--model', self.backend.model])}. With OpenAI: upload each file with the purpose "
            "'batch', make a batch of it for /v1/chat/completions, and download its output and error files. Put "
            f"whole files of results into {folder} (e.g. {result_name(first)}; any *.jsonl that is not requests-*), "
            f"then run the same command again.{malformed}"
        )


def _outcome(result: Result, request: Request) -> Reply | Failure | Trouble:
    if result.status == 200:
        return read_completion(result.body, request, 0.0)
    return trouble_of_status(result.status, result.body, {})


def _best(outcomes: list[Reply | Failure | Trouble]) -> Reply | Failure | Trouble:
    """The first reply, else the first failure for good, else the first trouble."""
    for kind in (Reply, Failure):
        for outcome in outcomes:
            if isinstance(outcome, kind):
                return outcome
    return outcomes[0]

"""Backend `recorded`: answers from a folder of earlier replies; nothing is ever sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from aeg.backends.llm.base import BACKENDS, Backend, Failure, Reply, Request, Session
from aeg.backends.llm.cache import ReplyCache, digest, replay_key
from aeg.config.ranges import param
from aeg.errors import ConfigError, LLMError


@BACKENDS.register("recorded")
@dataclass(frozen=True)
class Recorded(Backend):
    """The replies of earlier runs, whichever backend made them.

    A recording is the `cache` folder that any run leaves behind. A request is looked up by model, temperature,
    seed, messages, schema, token limit and sample, not by endpoint: what a hosted API said is replayed offline.

    Attributes:
        folder: the recording.
        missing: what happens to a request that has no reply in it: `error`, or `failure`, which lets the run go on
            as it went when the request failed.
    """

    folder: str = ""
    missing: str = param("error", choices=("error", "failure"))
    spends: ClassVar[bool] = False

    @property
    def endpoint(self) -> str:
        """No address: `recorded`."""
        return "recorded"

    def open(self) -> Session:
        """Return the session.

        Raises:
            ConfigError: if `folder` is not set, no folder, or without a recording.
        """
        folder = Path(self.folder).expanduser()
        if not self.folder or not folder.is_dir() or next(folder.glob("*.jsonl"), None) is None:
            raise ConfigError(
                f"recorded.folder: {self.folder!r} holds no recording; expected the cache folder of an earlier run "
                "(files *.jsonl)"
            )
        return _Replay(self, ReplyCache(folder))


class _Replay(Session):
    """An open recording."""

    def __init__(self, backend: Recorded, cache: ReplyCache) -> None:
        self.backend = backend
        self.cache = cache

    def send(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """Yield the replies that there are, then raise for the first that is missing; see `Session.send`.

        Raises:
            LLMError: naming it, or a request with replies made with different parameters.
        """
        missing = []
        for place, request in enumerate(requests):
            reply = self._find(request)
            if reply is not None:
                yield place, reply
            elif self.backend.missing == "failure":
                yield place, Failure("missing", f"no reply in {self.backend.folder}")
            else:
                missing.append(request)
        if missing:
            raise LLMError(
                f"{self.backend.folder}: holds no reply to {_named(missing[0])}"
                f"{f', and {len(missing) - 1} more' if len(missing) > 1 else ''}, by model {self.backend.model!r} at "
                f"temperature {self.backend.temperature:g}, seed {self.backend.seed}, with this prompt; record it with "
                "another backend, or set missing: failure to go on without"
            )

    def _find(self, request: Request) -> Reply | None:
        backend = self.backend
        key = replay_key(backend.model, backend.temperature, backend.seed, request)
        found = list(self.cache.replay(key))
        if len({digest(s.parameters) for s in found}) > 1 and len({s.reply.text for s in found}) > 1:
            raise LLMError(
                f"{backend.folder}: holds different replies to {_named(request)}, made with different parameters; "
                "expected the recording of one configuration"
            )
        return found[0].reply if found else None


def _named(request: Request) -> str:
    return f"{request.task} of {request.subject!r}"

"""A chat model of transformers in the process itself, or in one process a GPU."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aeg.backends.group import group
from aeg.backends.llm.base import BACKENDS, Backend, Failure, Message, Reply, Request, Session
from aeg.backends.llm.hub_model import content_hash, context_limit, load_tokenizer, locate_chat_model
from aeg.backends.loading import one_line
from aeg.config.ranges import param
from aeg.errors import ConfigError, DeviceError

if TYPE_CHECKING:
    import numpy as np

    from aeg.backends.llm.chat_model import ChatModel, ModelSpec, Prepared
    from aeg.backends.llm.shares import Shares

logger = logging.getLogger(__name__)

_FORMAT = 1  # of what is made of a request: the schema's wording, the fall-back template, the seeds
_SCHEMA = "\n\nReply with one JSON value that fits this JSON schema, and with nothing else:\n{schema}"
FALLBACK_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'] | capitalize }}: {{ message['content'] }}"
    "\n\n{% endfor %}Assistant:"
)


@BACKENDS.register("transformers")
@dataclass(frozen=True)
class TransformersBackend(Backend):
    r"""A causal language model that transformers can load, placed by accelerate.

    A request's JSON schema is described at the end of the last user turn; decoding is not constrained by it, so
    that a reply may break it and is then asked for again. A tokenizer without a chat template gets a plain one:
    `Role: text` and an empty line for each turn, then `Assistant:`. A template that refuses a system turn gets
    the system's text at the start of the first user turn. Names of control tokens inside a text are encoded as
    ordinary text (transformers >= 5.24). Weights are read from safetensors only; code that comes with a model is
    never run.

    Requests are sorted by length and cut into fixed batches, so that the same list of requests gives the same
    replies whatever the number of processes, `processes` here or those of a group (`aeg.backends.group`). Sampling
    draws each request's tokens from its own random numbers, seeded by seed + sample and by the prompt.

    Attributes:
        model: a folder, or a hub name.
        dtype: of the weights; `auto` is the checkpoint's own.
        device: see `aeg.backends.device`.
        device_map: spreads one model over several GPUs by a rule of accelerate's; None keeps it on `device`.
        batch_size: most requests at a time; halved where the GPU's memory is short.
        processes: processes with a model each, on a GPU each (`device: cuda` or `auto`), or all on the CPU.
        top_p: sampling is from the likeliest tokens that make up this mass; unused at temperature 0.
        max_context: most tokens of prompt and reply together; None is the model's own limit.
        template_options: variables for the chat template, e.g. `{enable_thinking: false}`.
        revision: of a hub model; None is the one in the local cache, else the newest.
    """

    dtype: str = param("auto", choices=("auto", "float32", "bfloat16", "float16"))
    device: str = "auto"
    device_map: str | None = param(None, choices=("auto", "balanced", "balanced_low_0", "sequential"))
    batch_size: int = param(16, ge=1)
    processes: int = param(1, ge=1)
    top_p: float = param(1.0, gt=0, le=1)
    max_context: int | None = param(None, ge=1)
    template_options: dict[str, Any] = param({})
    revision: str | None = None

    @property
    def endpoint(self) -> str:
        """Where replies come from: this process."""
        return "transformers"

    @property
    def parameters(self) -> dict[str, Any]:
        """What decides a reply: the model's files by content, dtype, sampling and template options."""
        own = {"top_p": self.top_p, "dtype": self.dtype, "template_options": dict(self.template_options)}
        return {**super().parameters, **own, "files": self._files, "format": _FORMAT}

    @cached_property
    def _files(self) -> str:
        return content_hash(locate_chat_model(self.model, self.revision))

    def open(self) -> TransformersSession:
        """Return an open session; weights are read at the first request."""
        folder = locate_chat_model(self.model, self.revision)
        return TransformersSession(self, folder, self._places())

    def _places(self) -> list[str]:
        """Return a device (or accelerate's rule) for each process."""
        import torch

        from aeg.backends.device import resolve_device

        together = group().size
        if together > 1 and (self.processes > 1 or self.device_map is not None):
            raise ConfigError(
                f"processes: got {self.processes} with device_map {self.device_map!r} in a group of {together} "
                "processes, which hold a model each; set processes: 1 and device_map: null"
            )
        if self.device_map is not None:
            if self.processes > 1:
                raise ConfigError(
                    f"processes: got {self.processes} with device_map {self.device_map!r}; one process spreads a "
                    "model over all GPUs, several hold one each: set processes: 1 or device_map: null"
                )
            return [self.device_map]
        device = resolve_device(self.device)
        if self.processes == 1 or device.type != "cuda":
            return [str(device)] * self.processes
        if self.device not in ("auto", "cuda"):
            raise ConfigError(f"processes: got {self.processes} on {self.device!r} alone; set device: cuda")
        if self.processes > torch.cuda.device_count():
            raise DeviceError(
                f"processes: got {self.processes}, but torch sees {torch.cuda.device_count()} GPU(s); "
                "set processes to that or less"
            )
        return [f"cuda:{index}" for index in range(self.processes)]


class TransformersSession(Session):
    """An open transformers backend.

    Attributes:
        counts: `batches_halved` for want of memory, `system_turns_folded` into the user's.
    """

    def __init__(self, backend: TransformersBackend, folder: Path, places: Sequence[str]) -> None:
        self.counts: Counter[str] = Counter()
        self._backend, self._folder, self._places = backend, folder, list(places)

    def send(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """Yield (position, outcome), a batch at a time, the longest prompts first; see `Session.send`."""
        prepared = []
        for position, request in enumerate(requests):
            item = self._prepare(position, request)
            if isinstance(item, Failure):
                yield position, item
            else:
                prepared.append(item)
        prepared.sort(key=lambda item: -len(item.ids))
        size = self._backend.batch_size
        batches = [prepared[start : start + size] for start in range(0, len(prepared), size)]
        for number, outcomes in self._run(batches):
            for item, outcome in zip(batches[number], outcomes, strict=True):
                yield item.position, outcome

    def close(self) -> None:
        """End worker processes and let go of the model."""
        if "_shares" in self.__dict__:
            self._shares.close()
        self.__dict__.pop("_shares", None)
        self.__dict__.pop("_model", None)

    def _run(self, batches: list[list[Prepared]]) -> Iterator[tuple[int, list[Reply | Failure]]]:
        if not batches:
            return
        if len(self._places) > 1:
            yield from self._shares.run(batches)
            self.counts["batches_halved"] = self._shares.halved
            return
        if group().size > 1:
            from aeg.backends.llm.sharing import shared

            for number, (outcomes, halved) in enumerate(shared(self._model, batches)):
                self.counts["batches_halved"] += halved
                yield number, outcomes
            return
        for number, batch in enumerate(batches):
            outcomes = self._model.outcomes(batch)
            self.counts["batches_halved"] = self._model.counts["batches_halved"]
            yield number, outcomes

    def _prepare(self, position: int, request: Request) -> Prepared | Failure:
        """Return a request as the model takes it, or why it cannot be sent."""
        from aeg.backends.llm.chat_model import Prepared

        ids = self._encode(request)
        if isinstance(ids, Failure):
            return ids
        limit = self._backend.max_context or self._limit
        if limit is not None and len(ids) + request.max_tokens > limit:
            return Failure(
                "context_length",
                f"a prompt of {len(ids)} tokens and a reply of up to {request.max_tokens} are longer than the "
                f"context of {limit} tokens",
            )
        salt = f"{self._backend.seed + request.sample}:".encode() + ids.tobytes()
        seed = int.from_bytes(hashlib.sha256(salt).digest()[:8]) >> 1
        return Prepared(position, ids, request.max_tokens, seed)

    def _encode(self, request: Request) -> np.ndarray | Failure:
        """Return the prompt's tokens, int32, through the chat template."""
        from jinja2.exceptions import TemplateError

        messages = _with_schema(request)
        try:
            return self._tokens(messages)
        except TemplateError as error:
            refusal = one_line(error)
        folded = _without_system(messages)
        if folded is not messages:
            try:
                tokens = self._tokens(folded)
            except TemplateError as error:
                refusal = one_line(error)
            else:
                if not self.counts["system_turns_folded"]:
                    logger.info("the chat template refuses a system turn: its text starts the first user turn")
                self.counts["system_turns_folded"] += 1
                return tokens
        return Failure("refused", f"the chat template of {self._backend.model} refuses this chat: {refusal}")

    def _tokens(self, messages: Sequence[Message]) -> np.ndarray:
        import numpy as np

        encoded = self._tokenizer.apply_chat_template(
            [{"role": message.role, "content": message.content} for message in messages],
            chat_template=None if self._tokenizer.chat_template else FALLBACK_TEMPLATE,
            add_generation_prompt=True,
            return_dict=True,
            sanitize_control_tokens=True,
            **self._backend.template_options,
        )
        return np.asarray(encoded["input_ids"], dtype=np.int32)

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = load_tokenizer(self._folder)
        if not tokenizer.chat_template:
            logger.warning("model %s has no chat template: using 'Role: text' lines", self._backend.model)
        return tokenizer

    @cached_property
    def _limit(self) -> int | None:
        return context_limit(self._folder)

    @cached_property
    def _model(self) -> ChatModel:
        from aeg.backends.llm.chat_model import ChatModel

        return ChatModel(self._specs()[0])

    @cached_property
    def _shares(self) -> Shares:
        import torch

        from aeg.backends.llm.shares import Shares

        return Shares(self._specs(), max(1, torch.get_num_threads() // len(self._places)))

    def _specs(self) -> list[ModelSpec]:
        from aeg.backends.llm.chat_model import ModelSpec

        own = self._backend
        return [ModelSpec(self._folder, own.dtype, place, own.temperature, own.top_p) for place in self._places]


def _with_schema(request: Request) -> tuple[Message, ...]:
    """Return the chat with the schema's text at the end of the last user turn."""
    if not request.schema:
        return request.messages
    last = max(index for index, message in enumerate(request.messages) if message.role == "user")
    turn = Message("user", request.messages[last].content + _SCHEMA.format(schema=request.schema))
    return (*request.messages[:last], turn, *request.messages[last + 1 :])


def _without_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the chat with a leading system turn's text at the start of the user turn behind it."""
    if len(messages) < 2 or (messages[0].role, messages[1].role) != ("system", "user"):
        return messages
    return (Message("user", f"{messages[0].content}\n\n{messages[1].content}"), *messages[2:])

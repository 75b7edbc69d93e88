"""A causal language model of transformers on its device: replies for a batch of prompts."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aeg.backends.llm.base import Failure, Reply
from aeg.backends.llm.hub_model import load_tokenizer
from aeg.backends.llm.reasoning import strip_reasoning
from aeg.backends.loading import one_line, quiet
from aeg.backends.memory import require, weights_bytes
from aeg.errors import DataError, DependencyError, DeviceError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """One request as the model takes it.

    Attributes:
        position: in the list of requests.
        ids: the prompt's tokens, int32 [n].
        max_tokens: completion tokens at most.
        seed: of this request's sampling; unused where decoding is greedy.
    """

    position: int
    ids: np.ndarray
    max_tokens: int
    seed: int


@dataclass(frozen=True)
class ModelSpec:
    """What a process needs to load the model.

    Attributes:
        folder: the model's files.
        dtype: `auto` (the checkpoint's), `float32`, `bfloat16` or `float16`.
        device_map: a device, or a rule of accelerate's (`auto`, `balanced`, ...) that spreads the layers.
        temperature: 0 is greedy.
        top_p: mass of the likeliest tokens that are sampled from.
    """

    folder: Path
    dtype: str
    device_map: str
    temperature: float = 0.0
    top_p: float = 1.0


class ChatModel:
    """A loaded model; `counts` tells how often a batch was halved for want of memory."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.counts: Counter[str] = Counter()
        self._too_many: float = float("inf")  # tokens of the smallest batch that did not fit
        self._tokenizer = load_tokenizer(spec.folder)
        self._model = _load(spec)
        self._stops = self._stop_tokens()
        self._model.generation_config = self._settings()

    def replies(self, batch: Sequence[Prepared]) -> list[Reply | Failure]:
        """Return the outcome of each request, in order; halves the batch where memory is short."""
        if len(batch) == 1 or self._tokens(batch) < self._too_many:
            try:
                return self._generate(batch)
            except torch.OutOfMemoryError as error:
                self._too_many = min(self._too_many, self._tokens(batch))
                message = one_line(error)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            if len(batch) == 1:
                size = f"{len(batch[0].ids)} tokens and a reply of up to {batch[0].max_tokens}"
                return [Failure("server", f"out of memory with one prompt of {size}: {message}")]
            logger.warning("out of memory with %d prompts; halving batches of that size", len(batch))
        self.counts["batches_halved"] += 1
        middle = len(batch) // 2
        return self.replies(batch[:middle]) + self.replies(batch[middle:])

    def outcomes(self, batch: Sequence[Prepared]) -> list[Reply | Failure]:
        """Return the outcome of each request, in order; where the model fails on the batch, failures with the cause."""
        try:
            return self.replies(batch)
        except (RuntimeError, IndexError, ValueError) as error:
            cause = f"{type(error).__name__}: {one_line(error)}"
            logger.error("a batch of %d requests failed: %s", len(batch), cause)
            return [Failure("server", cause) for _ in batch]

    @staticmethod
    def _tokens(batch: Sequence[Prepared]) -> int:
        """Tokens held at most: each row is as long as the longest prompt and the longest reply."""
        return len(batch) * (max(len(item.ids) for item in batch) + max(item.max_tokens for item in batch))

    def _generate(self, batch: Sequence[Prepared]) -> list[Reply | Failure]:
        from transformers import LogitsProcessorList, StoppingCriteriaList

        started = time.perf_counter()
        width = max(len(item.ids) for item in batch)
        ids = torch.full((len(batch), width), self._pad)
        mask = torch.zeros((len(batch), width), dtype=torch.long)
        for row, item in enumerate(batch):
            ids[row, width - len(item.ids) :] = torch.from_numpy(item.ids.astype(np.int64))
            mask[row, width - len(item.ids) :] = 1
        device = self._model.get_input_embeddings().weight.device
        limits = torch.tensor([item.max_tokens for item in batch])
        sampler = [] if self.spec.temperature == 0 else [self._sampler(batch)]
        output = self._model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            max_new_tokens=int(limits.max()),
            logits_processor=LogitsProcessorList(sampler),
            stopping_criteria=StoppingCriteriaList([_at_limits(limits, width)]),
        )
        seconds = time.perf_counter() - started
        rows = output[:, width:].tolist()
        return [self._reply(item, row, seconds) for item, row in zip(batch, rows, strict=True)]

    def _reply(self, item: Prepared, row: list[int], seconds: float) -> Reply | Failure:
        tokens = row[: item.max_tokens]
        stop = next((index for index, token in enumerate(tokens) if token in self._stops), None)
        finish, paid = ("length", len(tokens)) if stop is None else ("stop", stop + 1)
        whole = self._tokenizer.decode(tokens[:stop], skip_special_tokens=True, clean_up_tokenization_spaces=False)
        text = strip_reasoning(whole)
        if stop is not None and not text:
            return Failure("empty", "the model ended its turn without an answer", whole, len(item.ids), paid)
        return Reply(text, len(item.ids), paid, seconds, finish)

    def _sampler(self, batch: Sequence[Prepared]) -> _Sampler:
        return _Sampler([item.seed for item in batch], self.spec.temperature, self.spec.top_p)

    @cached_property
    def _pad(self) -> int:
        own = self._tokenizer.pad_token_id
        return int(own) if own is not None else min(self._stops, default=0)

    def _stop_tokens(self) -> frozenset[int]:
        """The tokens that end a reply: those of the model's generation config and the tokenizer's."""
        declared = self._model.generation_config.eos_token_id
        listed = declared if isinstance(declared, list) else [declared]
        return frozenset(int(token) for token in (*listed, self._tokenizer.eos_token_id) if token is not None)

    def _settings(self) -> Any:
        """A generation config with nothing hidden in it: no sampling, no penalties, only where to stop."""
        from transformers import GenerationConfig

        stops = sorted(self._stops) or None
        return GenerationConfig(do_sample=False, num_beams=1, eos_token_id=stops, pad_token_id=self._pad)


class _Sampler:
    """Turns greedy decoding into sampling: the largest of log p + Gumbel noise is a draw from p.

    Each row has its own random numbers, so that what is drawn does not depend on the other rows.
    """

    def __init__(self, seeds: Sequence[int], temperature: float, top_p: float) -> None:
        self._seeds, self._temperature, self._top_p = seeds, temperature, top_p
        self._generators: list[torch.Generator] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if not self._generators:
            self._generators = [torch.Generator(scores.device).manual_seed(seed) for seed in self._seeds]
        logits = scores.float() / self._temperature
        if self._top_p < 1:
            ordered, index = logits.sort(dim=-1, descending=True, stable=True)
            mass = ordered.softmax(dim=-1)
            cut = mass.cumsum(dim=-1) - mass >= self._top_p  # what stands before a token already makes up top_p
            logits = logits.masked_fill(cut.scatter(-1, index, cut), -torch.inf)
        waits = torch.empty_like(logits)
        for row, generator in zip(waits, self._generators, strict=True):
            row.exponential_(generator=generator)
        return logits - waits.clamp_min(torch.finfo(torch.float32).tiny).log()


def _at_limits(limits: torch.Tensor, width: int) -> Any:
    """Return the criterion that stops each row at its own number of new tokens."""
    from transformers import StoppingCriteria

    class AtLimits(StoppingCriteria):
        def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
            return (input_ids.shape[1] - width >= limits).to(input_ids.device)

    return AtLimits()


def _load(spec: ModelSpec) -> Any:
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    if spec.device_map.partition(":")[0] in ("cpu", "cuda", "mps"):
        remedy = "set device_map: auto to spread it over all GPUs, or choose dtype: bfloat16 or a smaller model"
        require(spec.device_map, weights_bytes(spec.folder, spec.dtype), f"model {spec.folder}", remedy)
    load: Any = AutoModelForCausalLM.from_pretrained
    try:
        with quiet(bar=sys.stderr.isatty()):
            model, info = load(
                spec.folder,
                dtype=spec.dtype,
                device_map=spec.device_map,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except ImportError as error:
        raise DependencyError(f"{spec.folder}: the model needs a package: {one_line(error)}") from None
    except torch.OutOfMemoryError:
        raise DeviceError(
            f"{spec.folder}: the model does not fit into the memory of {spec.device_map!r}; set device_map: auto to "
            "spread it over all GPUs, or choose dtype: bfloat16 or a smaller model"
        ) from None
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise DataError(f"{spec.folder}: transformers cannot load its weights ({one_line(error)})") from None
    absent = sorted(info["missing_keys"])
    if absent:
        raise DataError(f"{spec.folder}: its files lack {len(absent)} weights, e.g. {absent[0]}; copy them again")
    places = {str(place) for place in getattr(model, "hf_device_map", {}).values()}
    if len(places) > 1 and places & {"cpu", "disk"}:
        logger.warning("device_map %s: part of the model lies on %s, which is slow", spec.device_map, sorted(places))
    return model.eval()

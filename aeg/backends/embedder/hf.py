"""Any Hugging Face encoder, by preset, hub name or folder, on any device."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from aeg.backends.embedder.base import EMBEDDERS, Embedder, Encoded, Encoder
from aeg.backends.embedder.presets import Preset, find_preset
from aeg.backends.embedder.sharing import Batch, shared
from aeg.backends.embedder.tokens import TokenTable, padded_length, plan_missing
from aeg.backends.embedder.weights import declared_pooling, file_hashes, locate_model, position_limit, read_json
from aeg.backends.group import group
from aeg.backends.loading import one_line, quiet
from aeg.backends.memory import require, weights_bytes
from aeg.backends.threads import map_threads
from aeg.config.ranges import param
from aeg.core.progress import progress_bar
from aeg.errors import ConfigError, DataError, DeviceError

logger = logging.getLogger(__name__)
T = TypeVar("T")

_FORMAT = 1
_FLUSH = 4096
_DEFAULT_LENGTH = 512


@EMBEDDERS.register("hf")
@dataclass(frozen=True)
class HuggingFaceEmbedder(Embedder):
    """An encoder that transformers can load.

    Attributes:
        model: a preset (`minilm`, `bge-large`, ...), a hub name or a folder.
        pooling: how token vectors become one: `mean`, `cls` (first token) or `last`. None: the preset's, else what
            the model's `1_Pooling` declares, else `mean`.
        query_instruction, passage_instruction: put in front of each text of that kind. None: the preset's, else "".
        max_length: most tokens a text, special tokens included; the rest is cut and counted. None: the preset's,
            else the model's own.
        dtype: precision of the model; vectors are always float32.
        batch_size, batch_tokens: most texts and most tokens in a batch. None: 2,048 tokens on the CPU, 32,768 else.
        revision: of a hub model; None is the one in the local cache, else the newest.
    """

    model: str = "minilm"
    pooling: str | None = param(None, choices=("mean", "cls", "last"))
    query_instruction: str | None = None
    passage_instruction: str | None = None
    max_length: int | None = param(None, ge=1)
    dtype: str = param("float32", choices=("float32", "bfloat16", "float16"))
    batch_size: int = param(1024, ge=1)
    batch_tokens: int | None = param(None, ge=1)
    revision: str | None = None

    def load(self, device: torch.device | str = "cpu", cache_dir: Path | None = None) -> HuggingFaceEncoder:
        """Return the encoder; its weights are read at the first text that is not cached."""
        from transformers import AutoConfig

        preset = find_preset(self.model)
        folder = locate_model(self.model, preset, self.revision)
        try:
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"{folder}: transformers cannot read its config.json ({one_line(error)})") from None
        known = preset or Preset(self.model, self.pooling or declared_pooling(folder) or self._mean(), max_length=None)
        query, passage = self.query_instruction, self.passage_instruction
        settings = {
            "model": self.model,
            "pooling": self.pooling or known.pooling,
            "query_instruction": known.query_instruction if query is None else query,
            "passage_instruction": known.passage_instruction if passage is None else passage,
            "max_length": self._length(folder, position_limit(folder, config), known.max_length),
            "dtype": self.dtype,
        }
        decisive = {key: value for key, value in settings.items() if key != "model"}
        content = json.dumps({"format": _FORMAT, "files": file_hashes(folder), **decisive}, sort_keys=True)
        fingerprint = hashlib.sha256(content.encode()).hexdigest()[:32]
        settings["revision"] = self.revision
        return HuggingFaceEncoder(fingerprint, folder, config, settings, self, torch.device(device), cache_dir)

    def _mean(self) -> str:
        logger.warning("model %r declares no pooling: using the mean of its token vectors; set pooling", self.model)
        return "mean"

    def _length(self, folder: Path, limit: int | None, preset: int | None) -> int:
        if self.max_length is not None:
            if limit is not None and self.max_length > limit:
                raise ConfigError(
                    f"max_length: got {self.max_length}, but model {self.model!r} takes at most {limit} tokens; "
                    f"set max_length to {limit} or less, or choose a model with more positions"
                )
            return self.max_length
        declared = preset or read_json(folder / "sentence_bert_config.json").get("max_seq_length")
        chosen = int(declared or limit or _DEFAULT_LENGTH)
        return min(chosen, limit) if limit is not None else chosen


class HuggingFaceEncoder(Encoder):
    """A loaded (or still to be loaded) transformers model; see `Encoder`."""

    def __init__(
        self,
        fingerprint: str,
        folder: Path,
        config: Any,
        settings: dict[str, Any],
        params: HuggingFaceEmbedder,
        device: torch.device,
        cache_dir: Path | None,
    ) -> None:
        super().__init__(fingerprint, int(config.hidden_size), int(settings["max_length"]), settings, cache_dir)
        self.device = device
        self._folder, self._config, self._params = folder, config, params
        self._tokens_per_batch = params.batch_tokens or (2048 if device.type == "cpu" else 32768)
        self._multiple = 1 if device.type == "cpu" else 8

    def token_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return the half-open character spans of each text's tokens: no special tokens, nothing cut."""
        tokenizer = self._tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [[(int(start), int(end)) for start, end in encoding.offsets] for encoding in encodings]

    def _encode_missing(self, texts: list[str], missing: np.ndarray) -> Iterator[Encoded]:
        table = TokenTable(self._tokenizer, texts, self.max_length, self._pad_id)
        lengths = padded_length(table.lengths, self._multiple)
        order = [hashlib.sha256(text.encode("utf-8")).digest() for text in texts]
        batches = plan_missing(lengths, order, missing, self._params.batch_size, self._tokens_per_batch)
        rows: list[np.ndarray] = []
        blocks: list[torch.Tensor] = []
        done_batches = self._run(table, batches)
        with closing(done_batches), progress_bar(int(missing.sum()), "encoding", "text") as bar:
            for index, (batch, block) in enumerate(zip(batches, done_batches, strict=True)):
                rows.append(batch)
                blocks.append(block)
                bar.update(len(batch))
                if index + 1 == len(batches) or sum(map(len, rows)) >= _FLUSH:
                    done = np.concatenate(rows)
                    yield done, torch.cat(blocks).cpu().numpy(), table.truncated[done]
                    rows, blocks = [], []

    def _run(self, table: TokenTable, batches: list[np.ndarray]) -> Generator[torch.Tensor, None, None]:
        """Yield each batch's vectors, in order."""
        _ = self._model  # loaded before threads ask for it
        padded = partial(self._padded, table)
        if group().size > 1 and len(batches) > 1:
            yield from shared(self, self._params, [partial(padded, rows) for rows in batches])
        else:
            yield from self.batches_encoded(batches, lambda rows: self.vectors(padded(rows)))

    def batches_encoded(
        self, batches: Sequence[T], encode: Callable[[T], torch.Tensor]
    ) -> Generator[torch.Tensor, None, None]:
        """Yield what `encode` makes of each batch, in order: on the CPU several batches at a time."""
        if self.device.type == "cpu":
            yield from map_threads(encode, batches)
        else:
            yield from map(encode, batches)

    def _padded(self, table: TokenTable, rows: np.ndarray) -> Batch:
        width = int(padded_length(table.lengths[rows], self._multiple).max())
        return table.padded(rows, width, self._pad_id)

    def vectors(self, batch: Batch) -> torch.Tensor:
        """Return the unit vectors of one batch, float32 [b, d] on the device; halved where memory is short.

        Args:
            batch: token ids and mask, [b, width].
        """
        ids, mask = batch
        try:
            return self._forward(*(torch.from_numpy(part).to(self.device) for part in batch))
        except torch.OutOfMemoryError:
            if len(ids) == 1:
                raise DeviceError(
                    f"{self.device}: out of memory with one text of {ids.shape[1]} tokens; set a smaller max_length or "
                    "dtype"
                ) from None
        logger.warning(
            "%s: out of memory with %d texts of %d tokens; halving the batch", self.device, len(ids), ids.shape[1]
        )
        self.counts["batches_halved"] += 1
        middle = len(ids) // 2
        return torch.cat([self.vectors((ids[:middle], mask[:middle])), self.vectors((ids[middle:], mask[middle:]))])

    @torch.inference_mode()
    def _forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        with torch.autocast(self.device.type, enabled=False):
            hidden = self._model(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()
        pooling = self.settings["pooling"]
        if pooling == "cls":
            pooled = hidden[:, 0]
        elif pooling == "last":
            pooled = hidden[torch.arange(len(ids), device=ids.device), mask.sum(dim=1) - 1]
        else:
            weights = mask.unsqueeze(-1).float()
            pooled = (hidden * weights).sum(dim=1) / weights.sum(dim=1)
        return torch.nn.functional.normalize(pooled, dim=1)

    @cached_property
    def _tokenizer(self) -> Any:
        return self._loaded_tokenizer.backend_tokenizer

    @cached_property
    def _pad_id(self) -> int:
        tokens = (self._loaded_tokenizer.pad_token_id, self._loaded_tokenizer.eos_token_id)
        return next((int(token) for token in tokens if token is not None), 0)

    @cached_property
    def _loaded_tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(self._folder, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"{self._folder}: transformers cannot load its tokenizer ({one_line(error)})") from None
        if not tokenizer.is_fast:
            raise ConfigError(f"model {self._params.model!r} has no fast tokenizer (tokenizer.json); choose another")
        return tokenizer

    @cached_property
    def _model(self) -> torch.nn.Module:
        from safetensors import SafetensorError
        from transformers import AutoModel

        dtype = getattr(torch, self._params.dtype)
        remedy = "set a smaller encoder, dtype: bfloat16, or another device"
        require(self.device, weights_bytes(self._folder, self._params.dtype), f"encoder {self._folder}", remedy)
        try:
            with quiet():
                model, info = AutoModel.from_pretrained(
                    self._folder, config=self._config, dtype=dtype, local_files_only=True, output_loading_info=True
                )
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise DataError(f"{self._folder}: transformers cannot load its weights ({one_line(error)})") from None
        absent = sorted(key for key in info["missing_keys"] if "pooler" not in key)
        if absent:
            raise DataError(
                f"{self._folder}: its files lack {len(absent)} weights, e.g. {absent[0]}; copy the model's files again"
            )
        encoder = model.get_encoder() if self._config.is_encoder_decoder else model
        return encoder.to(self.device).eval()

"""A sieve by a cross-encoder: any Hugging Face re-ranker reads question and candidate together."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from aeg.backends.embedder.tokens import plan_batches
from aeg.backends.embedder.weights import file_hashes, locate_model, position_limit
from aeg.backends.loading import one_line, quiet
from aeg.config.ranges import param
from aeg.core.progress import progress_bar
from aeg.core.records import Query
from aeg.errors import ConfigError, DataError, DependencyError, DeviceError
from aeg.sieve.base import SIEVES, Candidate, Sieve, Sieved, check_pairs

if TYPE_CHECKING:
    from aeg.backends.llm.asker import Asker

Pair = tuple[str, str]


@SIEVES.register("cross_encoder")
@dataclass(frozen=True)
class CrossEncoderSieve(Sieve):
    """Keeps the candidates that a re-ranker scores best against the original question.

    A score lies in [0, 1]: the sigmoid of a model's single output, or the probability of the second of two
    labels. Pairs of one length share a batch, so that nothing is padded and a score does not depend on what a pair
    is batched with.

    Attributes:
        model: a hub name or a folder with safetensors weights and one or two labels, e.g.
            `BAAI/bge-reranker-v2-m3`.
        top_n: most candidates kept; null sets no limit.
        min_score: least score of a kept candidate; null sets none.
        max_length: most tokens of a pair; the longer text is cut, which is counted.
        dtype: precision of the model.
        batch_size, batch_tokens: most pairs and most tokens in a batch.
        revision: of a hub model; null is the one in the local cache, else the newest.
    """

    model: str = "BAAI/bge-reranker-v2-m3"
    top_n: int | None = param(10, ge=1)
    min_score: float | None = param(None, ge=0, le=1)
    max_length: int = param(512, ge=8)
    dtype: str = param("float32", choices=("float32", "bfloat16", "float16"))
    batch_size: int = param(256, ge=1)
    batch_tokens: int = param(16384, ge=1)
    revision: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_n is None and self.min_score is None:
            raise ConfigError("sieve 'cross_encoder': top_n and min_score are both null; set one, or use sieve: none")

    def models(self) -> list[str]:
        """Return a hash of the model's files."""
        content = repr(sorted(file_hashes(self._folder()).items()))
        return [hashlib.sha256(content.encode("utf-8")).hexdigest()]

    def sieve(
        self,
        questions: Sequence[Query],
        candidates: Sequence[Sequence[Candidate]],
        llm: Asker | None = None,
        encoder: Any | None = None,
        device: torch.device | str = "cpu",
    ) -> list[Sieved]:
        """Return what is kept of each question's candidates; see `Sieve.sieve`.

        Raises:
            DependencyError: if the model is not in the local hub cache and cannot be downloaded.
            DataError: if its files are missing or damaged, or hold no safetensors weights or no re-ranker.
            ConfigError: if it has more than two labels, or takes fewer tokens than `max_length`.
        """
        check_pairs(questions, candidates)
        asked = [[(query.question, c.text) for c in found] for query, found in zip(questions, candidates, strict=True)]
        rows: dict[Pair, int] = {}
        for pairs in asked:
            for pair in pairs:
                rows.setdefault(pair, len(rows))
        if not rows:
            return [Sieved(()) for _ in questions]
        ranker = _Ranker(self, self._folder(), torch.device(device))
        scores, cut = ranker.scores(list(rows))
        return [
            self._one(found, [scores[rows[pair]] for pair in pairs], sum(bool(cut[rows[pair]]) for pair in pairs))
            for found, pairs in zip(candidates, asked, strict=True)
        ]

    def _one(self, found: Sequence[Candidate], scores: list[float], truncated: int) -> Sieved:
        good = [at for at, score in enumerate(scores) if self.min_score is None or score >= self.min_score]
        best = sorted(good, key=lambda at: (-scores[at], at))[: self.top_n]
        counts = Counter(below_score=len(found) - len(good), below_rank=len(good) - len(best), truncated=truncated)
        return Sieved(tuple(found[at].row for at in sorted(best)), counts={k: n for k, n in counts.items() if n})

    def _folder(self) -> Path:
        try:
            return locate_model(self.model, None, self.revision)
        except DependencyError:
            raise DependencyError(
                f"sieve 'cross_encoder': the re-ranker {self.model!r} is no folder, is not in the local hub cache, and "
                f"cannot be downloaded; run `hf download {self.model}` where there is a network, or give a folder"
            ) from None


class _Ranker:
    """A loaded re-ranker with its tokenizer."""

    def __init__(self, params: CrossEncoderSieve, folder: Path, device: torch.device) -> None:
        self.params, self.folder, self.device = params, folder, device
        self.model = self._load().to(device)
        self.tokenizer, self.inputs = self._load_tokenizer()

    def scores(self, pairs: list[Pair]) -> tuple[list[float], np.ndarray]:
        """Return the score of each distinct pair, and whether it was cut."""
        ids: list[np.ndarray] = []
        types: list[np.ndarray] = []
        cut = np.zeros(len(pairs), dtype=bool)
        for row, encoding in enumerate(self.tokenizer.encode_batch(pairs)):
            ids.append(np.asarray(encoding.ids, dtype=np.int64))
            types.append(np.asarray(encoding.type_ids, dtype=np.int64))
            cut[row] = bool(encoding.overflowing)
        lengths = np.array([len(row) for row in ids], dtype=np.int64)
        batches = plan_batches(lengths, pairs, self.params.batch_size, self.params.batch_tokens)
        out = np.zeros(len(pairs), dtype=np.float64)
        with progress_bar(len(pairs), "cross-encoder", "pair") as bar:
            for rows in batches:
                out[rows] = self._scores(ids, types, rows).cpu().numpy()
                bar.update(len(rows))
        if not np.isfinite(out).all():
            raise DataError(
                f"{self.folder}: the re-ranker gave {int((~np.isfinite(out)).sum())} scores that are not finite; use "
                f"dtype: float32, or check the model's files"
            )
        return out.tolist(), cut

    def _scores(self, ids: list[np.ndarray], types: list[np.ndarray], rows: np.ndarray) -> Tensor:
        """Return the scores of one batch, float64 [b]; halved where memory is short."""
        try:
            return self._forward(np.stack([ids[row] for row in rows]), np.stack([types[row] for row in rows]))
        except torch.OutOfMemoryError:
            if len(rows) == 1:
                raise DeviceError(
                    f"{self.device}: out of memory with one pair of {len(ids[rows[0]])} tokens; set a smaller "
                    f"max_length or dtype"
                ) from None
        middle = len(rows) // 2
        return torch.cat([self._scores(ids, types, rows[:middle]), self._scores(ids, types, rows[middle:])])

    @torch.inference_mode()
    def _forward(self, ids: np.ndarray, types: np.ndarray) -> Tensor:
        tokens = torch.from_numpy(ids).to(self.device)
        inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        if "token_type_ids" in self.inputs:
            inputs["token_type_ids"] = torch.from_numpy(types).to(self.device)
        with torch.autocast(self.device.type, enabled=False):
            logits = self.model(**inputs).logits.double()
        return logits[:, 0].sigmoid() if logits.shape[1] == 1 else logits.softmax(dim=1)[:, 1]

    def _load(self) -> Any:
        from safetensors import SafetensorError
        from transformers import AutoConfig, AutoModelForSequenceClassification

        try:
            config = AutoConfig.from_pretrained(self.folder, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"{self.folder}: transformers cannot read its config.json ({one_line(error)})") from None
        if config.num_labels not in (1, 2):
            raise ConfigError(
                f"sieve 'cross_encoder': {self.params.model!r} has {config.num_labels} labels, expected 1 or 2; choose "
                f"a re-ranker"
            )
        limit = position_limit(self.folder, config)
        if limit is not None and self.params.max_length > limit:
            raise ConfigError(
                f"max_length: got {self.params.max_length}, but {self.params.model!r} takes at most {limit} tokens; "
                f"set sieve.max_length to {limit} or less"
            )
        try:
            with quiet():
                model, info = AutoModelForSequenceClassification.from_pretrained(
                    self.folder,
                    config=config,
                    dtype=getattr(torch, self.params.dtype),
                    local_files_only=True,
                    use_safetensors=True,
                    output_loading_info=True,
                )
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise DataError(
                f"{self.folder}: transformers cannot load its weights ({one_line(error)}); expected *.safetensors of a "
                f"model for sequence classification"
            ) from None
        absent = sorted(info["missing_keys"])
        if absent:
            raise DataError(
                f"{self.folder}: its files lack {len(absent)} weights, e.g. {absent[0]}: not a re-ranker, or files are "
                f"missing; choose a model for sequence classification, or copy its files again"
            )
        return model.eval()

    def _load_tokenizer(self) -> tuple[Any, list[str]]:
        from transformers import AutoTokenizer

        try:
            loaded = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"{self.folder}: transformers cannot load its tokenizer ({one_line(error)})") from None
        if not loaded.is_fast:
            raise ConfigError(f"re-ranker {self.params.model!r} has no fast tokenizer (tokenizer.json)")
        tokenizer = loaded.backend_tokenizer
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.params.max_length, strategy="longest_first")
        return tokenizer, list(loaded.model_input_names)

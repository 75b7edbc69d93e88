"""The protocol of encoders: duplicates once, cached vectors first, everything counted."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from aeg.backends.embedder.cache import VectorCache
from aeg.config.ranges import Checked
from aeg.errors import DataError
from aeg.registry import Registry

Kind = Literal["passage", "query"]
Encoded = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows in the list of texts int64 [b], unit vectors float32 [b, d], whether each text was cut bool [b]."""


class Encoder(ABC):
    """Turns texts into unit vectors.

    Attributes:
        fingerprint: hash of all that decides a vector: weights, tokenizer, pooling, instructions, maximum
            length, dtype. Device and batch size are no part of it.
        dim: length d of a vector.
        max_length: most tokens of a text, special tokens included; the rest of a longer text is cut.
        settings: the parameters in force, presets resolved, for the run's manifest.
        counts: `encoded`, `from_cache`, `duplicates`, `truncated` (distinct texts that were cut, cached ones
            included), `corrupt_shards`, `batches_halved`; added up over all calls.
    """

    def __init__(
        self, fingerprint: str, dim: int, max_length: int, settings: Mapping[str, Any], cache_dir: Path | None
    ) -> None:
        self.fingerprint = fingerprint
        self.dim = dim
        self.max_length = max_length
        self.settings = dict(settings)
        self.counts: Counter[str] = Counter()
        folder = None if cache_dir is None else Path(cache_dir) / "embeddings" / fingerprint
        self._cache = None if folder is None else VectorCache(folder, dim)

    def encode(self, texts: Sequence[str], kind: Kind = "passage") -> torch.Tensor:
        """Return one unit vector a text.

        Args:
            texts: any texts, empty ones and duplicates included.
            kind: whether the texts are passages (atoms, entities) or queries; decides the instruction put in
                front of each.

        Returns:
            float32 [n, d] on the CPU, rows of length 1.

        Raises:
            DataError: if a text is not valid Unicode, or the model gives a vector that is not finite or is zero.
        """
        instruction = self.instruction(kind)
        inverse, distinct = _distinct([instruction + text for text in texts])
        keys = _hashes(distinct)
        vectors = np.empty((len(distinct), self.dim), dtype=np.float32)
        missing = self._from_cache(keys, vectors)
        self.counts["duplicates"] += len(texts) - len(distinct)
        if missing.any():
            for rows, block, cut in self._encode_missing(distinct, missing):
                self._store(distinct, keys, rows, block, cut)
                vectors[rows] = block
        return torch.from_numpy(vectors[inverse])

    def instruction(self, kind: Kind) -> str:
        """Return what is put in front of a text of this kind."""
        if kind not in ("passage", "query"):
            raise ValueError(f"kind: got {kind!r}, expected 'passage' or 'query'")
        return str(self.settings.get(f"{kind}_instruction") or "")

    @abstractmethod
    def token_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return the half-open character spans of each text's tokens: no special tokens, nothing cut."""

    @abstractmethod
    def _encode_missing(self, texts: list[str], missing: np.ndarray) -> Iterator[Encoded]:
        """Yield the vectors of the distinct `texts` where `missing`, a few thousand texts at a time."""

    def _from_cache(self, keys: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        if self._cache is None:
            return np.ones(len(keys), dtype=bool)
        found, cut = self._cache.lookup(keys, vectors)
        self.counts["from_cache"] += int(found.sum())
        self.counts["truncated"] += int(cut.sum())
        self.counts["corrupt_shards"] = len(self._cache.corrupt)
        return ~found

    def _store(self, texts: list[str], keys: np.ndarray, rows: np.ndarray, block: np.ndarray, cut: np.ndarray) -> None:
        bad = ~np.isfinite(block).all(axis=1) | (np.abs(np.linalg.norm(block, axis=1) - 1.0) > 1e-3)
        good = ~bad
        if self._cache is not None and good.any():
            self._cache.append(keys[rows[good]], block[good], cut[good])
        self.counts["encoded"] += int(good.sum())
        self.counts["truncated"] += int(cut[good].sum())
        if bad.any():
            text = texts[int(rows[bad].min())]
            raise DataError(
                f"the encoder {self.settings.get('model')!r} gave a vector that is not finite or is zero for the text "
                f"{text[:80]!r} ({int(bad.sum())} such); use dtype: float32, or check the model's files"
            )


@dataclass(frozen=True)
class Embedder(Checked, ABC):
    """The parameters of an encoder; `load` gives the encoder itself."""

    @abstractmethod
    def load(self, device: torch.device | str = "cpu", cache_dir: Path | None = None) -> Encoder:
        """Return the encoder.

        Args:
            device: where the model runs.
            cache_dir: vectors are kept in `{cache_dir}/embeddings/{fingerprint}/`; None keeps none.

        Raises:
            ConfigError: if a parameter does not fit the model.
            DependencyError: if a package or the model itself is not installed.
            DataError: if the model's files are missing or damaged.
        """


EMBEDDERS: Registry[Embedder] = Registry("embedder")


def _distinct(texts: list[str]) -> tuple[np.ndarray, list[str]]:
    """Return each text's row among the distinct texts, and the distinct texts in order of appearance."""
    rows: dict[str, int] = {}
    inverse = np.fromiter((rows.setdefault(text, len(rows)) for text in texts), dtype=np.int64, count=len(texts))
    return inverse, list(rows)


def _hashes(texts: list[str]) -> np.ndarray:
    """Return the SHA-256 of each text's UTF-8 bytes, uint8 [n, 32]."""
    keys = np.empty((len(texts), 32), dtype=np.uint8)
    for row, text in enumerate(texts):
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(f"text {text[:80]!r} is not valid Unicode ({error.reason}); repair its source") from None
        keys[row] = np.frombuffer(hashlib.sha256(data).digest(), dtype=np.uint8)
    return keys

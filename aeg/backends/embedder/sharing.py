"""Batches of an encoder, shared by a group of processes that have loaded it each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from aeg.backends.device import resolve_device
from aeg.backends.group import group
from aeg.errors import DataError

if TYPE_CHECKING:
    from aeg.backends.embedder.hf import HuggingFaceEmbedder, HuggingFaceEncoder

Batch = tuple[np.ndarray, np.ndarray]
"""Token ids and attention mask of texts of one padded length, [b, width]."""

_ROUND = 32  # batches of each process between two exchanges


@dataclass(frozen=True)
class Encoding:
    """Batches to be encoded, dealt out to the processes in turn.

    Attributes:
        params: the encoder's.
        fingerprint: of the encoder that the first process has loaded.
        device: its device's type.
        batches: of all processes.
    """

    params: HuggingFaceEmbedder
    fingerprint: str
    device: str
    batches: Sequence[Batch]

    def share(self, rank: int, size: int, kept: dict[Any, Any]) -> tuple[list[np.ndarray], int]:
        """Encode this process's batches; see `Task`.

        Raises:
            DataError: if the model's files here are others than those of the first process.
        """
        encoder = kept.get(self.fingerprint)
        if encoder is None:
            encoder = kept[self.fingerprint] = self.params.load(resolve_device(self.device))
        if encoder.fingerprint != self.fingerprint:
            raise DataError(
                f"encoder {self.params.model!r}: its files on this machine are not those of the first process's; give "
                "all machines the same folder"
            )
        return encoded(encoder, self.batches[rank::size])


def encoded(encoder: HuggingFaceEncoder, batches: Sequence[Batch]) -> tuple[list[np.ndarray], int]:
    """Return the vectors of each batch, and how many batches were halved for want of memory."""
    before = encoder.counts["batches_halved"]
    found = [vectors.cpu().numpy() for vectors in encoder.batches_encoded(batches, encoder.vectors)]
    return found, encoder.counts["batches_halved"] - before


def shared(
    encoder: HuggingFaceEncoder, params: HuggingFaceEmbedder, batches: Sequence[Callable[[], Batch]]
) -> Iterator[torch.Tensor]:
    """Yield each batch's vectors, in order, encoded by all processes of the group."""
    team = group()
    width = _ROUND * team.size
    for start in range(0, len(batches), width):
        made = [batch() for batch in batches[start : start + width]]
        task = Encoding(params, encoder.fingerprint, encoder.device.type, made)
        results = team.run(task, partial(encoded, encoder, made[:: team.size]))
        encoder.counts["batches_halved"] += sum(halved for _, halved in results[1:])
        for at in range(len(made)):
            yield torch.from_numpy(results[at % team.size][0][at // team.size])

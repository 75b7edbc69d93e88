"""Exact search in torch, in bounded memory, on any device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from aeg.backends.nearest.base import INDEXES, Index, IndexMethod

_CPU_BLOCK = (256, 8192)
_GPU_BLOCK = (1024, 65536)


class TorchIndex(Index):
    """Blocks of queries times blocks of rows, with a running top k: never [queries, rows] at once."""

    engine = "torch"

    def _candidates(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        height, width = _CPU_BLOCK if self.vectors.device.type == "cpu" else _GPU_BLOCK
        parts = [self._best(queries[at : at + height], count, width) for at in range(0, len(queries), height)]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    def _best(self, queries: torch.Tensor, count: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        scores = queries.new_empty(len(queries), 0)
        rows = torch.empty(len(queries), 0, dtype=torch.int64, device=queries.device)
        for start in range(0, len(self.vectors), width):
            block = self.vectors[start : start + width]
            found, places = (queries @ block.T).topk(min(count, len(block)), dim=1)
            scores, rows = torch.cat([scores, found], dim=1), torch.cat([rows, places + start], dim=1)
            if scores.shape[1] > count:
                scores, best = scores.topk(count, dim=1)
                rows = rows.gather(1, best)
        return scores, rows


@INDEXES.register("torch")
@dataclass(frozen=True)
class Torch(IndexMethod):
    """Exact search in torch."""

    def build(self, vectors: torch.Tensor, device: torch.device | str = "cpu") -> TorchIndex:
        """Return an exact index on the device."""
        return TorchIndex(vectors, device)

"""Exact search in torch, in bounded memory, on any device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from aeg.backends.nearest.base import INDEXES, Index, IndexMethod

_CPU_BLOCK = (512, 8192)
_GPU_BLOCK = (1024, 65536)
_GROUPS = 4  # groups of columns for each of the largest entries wanted


class TorchIndex(Index):
    """Blocks of queries times blocks of rows, with a running top k: never [queries, rows] at once."""

    engine = "torch"

    def _candidates(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        height, width = _CPU_BLOCK if self.vectors.device.type == "cpu" else _GPU_BLOCK
        blocks = queries.tensor_split(max(1, -(-len(queries) // height)))  # equal ones: narrow products are slower
        parts = [self._best(block, count, width) for block in blocks]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    def _best(self, queries: torch.Tensor, count: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        scores = queries.new_empty(len(queries), 0)
        rows = torch.empty(len(queries), 0, dtype=torch.int64, device=queries.device)
        for start in range(0, len(self.vectors), width):
            block = self.vectors[start : start + width]
            found, places = _largest(queries @ block.T, min(count, len(block)))
            scores, rows = torch.cat([scores, found], dim=1), torch.cat([rows, places + start], dim=1)
            if scores.shape[1] > count:
                scores, best = scores.topk(count, dim=1)
                rows = rows.gather(1, best)
        return scores, rows


def _largest(table: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the `count` largest entries of each row and their columns, descending, as `torch.topk` does.

    On the CPU it is several times faster where they are few: all that is not below the count-th largest of the maxima
    of groups of columns holds them, and is little more.
    """
    rows, columns = table.shape
    size = columns // (_GROUPS * count)
    if table.device.type != "cpu" or size < 2 or not rows:
        return table.topk(count, dim=1)
    values = table.numpy()
    groups = columns // size
    maxima = values[:, : groups * size].reshape(rows, size, groups).max(axis=1)
    least = np.sort(maxima, axis=1)[:, groups - count]
    flat = np.flatnonzero(values >= least[:, None])
    row, column = np.divmod(flat, columns)
    sizes = np.bincount(row, minlength=rows)
    if sizes.min() < count:  # not a number somewhere
        return table.topk(count, dim=1)
    place = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = np.full((rows, int(sizes.max())), -np.inf, dtype=np.float32)
    where = np.zeros(found.shape, dtype=np.int64)
    found[row, place], where[row, place] = values.ravel()[flat], column
    largest, at = torch.from_numpy(found).topk(count, dim=1)
    return largest, torch.from_numpy(where).gather(1, at)


@INDEXES.register("torch")
@dataclass(frozen=True)
class Torch(IndexMethod):
    """Exact search in torch."""

    def build(self, vectors: torch.Tensor, device: torch.device | str = "cpu") -> TorchIndex:
        """Return an exact index on the device."""
        return TorchIndex(vectors, device)

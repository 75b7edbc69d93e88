"""Seeds: the personalisation of each query, sparse where it can be, dense only a tile at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from aeg.core.tensors import is_on
from aeg.errors import DataError


@dataclass(frozen=True, eq=False)
class DenseSeeds:
    """Seeds on all atoms, held as an affine function of similarity: max(0, scale · ⟨atom, query⟩ + offset).

    Attributes:
        atoms: float32 [atoms, d], unit rows; atom i is node i.
        queries: float32 [queries, d], unit rows.
        scale, offset: float32 [queries].
        clipped: whether the affine function may fall below 0 by more than rounding, and is cut off there; scores are
            then no linear map of the query. Min-max scaled similarities never do.
        similarity: float32 [queries, atoms], where it is known already and small enough to keep; rows of queries with
            scale 0 may hold anything finite.
    """

    atoms: Tensor
    queries: Tensor
    scale: Tensor
    offset: Tensor
    clipped: bool = True
    similarity: Tensor | None = None

    def tile(self, start: int, stop: int) -> Tensor:
        """Return the part of queries `start` to `stop`, [atoms, stop − start]."""
        if self.similarity is not None:
            scale, offset = self.scale[start:stop].unsqueeze(1), self.offset[start:stop].unsqueeze(1)
            return torch.addcmul(offset, self.similarity[start:stop], scale).clamp_(min=0).T
        similarity = self.atoms @ self.queries[start:stop].T
        return (similarity * self.scale[start:stop] + self.offset[start:stop]).clamp_(min=0)


@dataclass(frozen=True, eq=False)
class Seeds:
    """Unnormalised personalisation of many queries (paper, eq. 5): a sparse part and an optional dense one.

    `[nodes, queries]` is never held whole: `tile` materialises some columns at a time. Normalisation to sum 1
    (eq. 6) is done by the propagation method.

    Attributes:
        num_nodes: n.
        ptr: int64 [queries + 1]; query q owns entries `ptr[q]:ptr[q + 1]`.
        nodes: int64 [entries], nodes in [0, n).
        weights: float32 [entries], not negative.
        dense: seeds on all atoms, or None.
        keys: int64 [queries], a stable number of each query for counter-based random numbers, or None.
        flags: named bool [queries], e.g. `fallback` where no entity was linked.

    Example:
        >>> import torch
        >>> seeds = Seeds.from_lists(4, [[(0, 0.5), (3, 0.5)], []])
        >>> seeds.tile(0, 2).T.tolist()
        [[0.5, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 0.0]]
    """

    num_nodes: int
    ptr: Tensor
    nodes: Tensor
    weights: Tensor
    dense: DenseSeeds | None = None
    keys: Tensor | None = None
    flags: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def from_lists(cls, num_nodes: int, lists: list[list[tuple[int, float]]]) -> Seeds:
        """Return sparse seeds from (node, weight) pairs for each query; equal nodes add.

        Raises:
            DataError: if a node lies outside [0, num_nodes).
        """
        sizes = torch.tensor([0] + [len(pairs) for pairs in lists], dtype=torch.int64)
        flat = [pair for pairs in lists for pair in pairs]
        nodes = torch.tensor([node for node, _ in flat], dtype=torch.int64)
        if len(flat) and not (int(nodes.min()) >= 0 and int(nodes.max()) < num_nodes):
            raise DataError(f"seeds: got nodes {int(nodes.min())} to {int(nodes.max())}, expected 0 to {num_nodes - 1}")
        weights = torch.tensor([weight for _, weight in flat], dtype=torch.float32)
        return cls(num_nodes, torch.cumsum(sizes, 0), nodes, weights)

    @property
    def num_queries(self) -> int:
        """The number of queries (columns)."""
        return len(self.ptr) - 1

    @property
    def device(self) -> torch.device:
        """The device that holds the sparse part."""
        return self.weights.device

    def tile(self, start: int, stop: int) -> Tensor:
        """Return columns `start` to `stop` as a dense float32 tensor [nodes, stop − start], row-major."""
        out = torch.zeros(self.num_nodes, stop - start, device=self.device)
        if self.dense is not None:
            out[: self.dense.atoms.shape[0]] = self.dense.tile(start, stop)
        column, nodes, weights = self.entries(start, stop)
        out.index_put_((nodes, column), weights, accumulate=True)
        return out

    def entries(self, start: int, stop: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return column (0 for query `start`), node and weight of each sparse seed of queries `start` to `stop`."""
        low, high = int(self.ptr[start]), int(self.ptr[stop])
        sizes = (self.ptr[start + 1 : stop + 1] - self.ptr[start:stop]).to(self.device)
        column = torch.repeat_interleave(torch.arange(stop - start, device=self.device), sizes, output_size=high - low)
        return column, self.nodes[low:high], self.weights[low:high]

    def part(self, start: int, stop: int) -> Seeds:
        """Return the seeds of queries `start` to `stop`.

        Example:
            >>> seeds = Seeds.from_lists(4, [[(0, 0.5)], [(3, 0.25)], [(1, 1.0)]])
            >>> seeds.part(1, 2).tile(0, 1).T.tolist()
            [[0.0, 0.0, 0.0, 0.25]]
        """
        low, high = int(self.ptr[start]), int(self.ptr[stop])
        some = slice(start, stop)
        dense = self.dense and replace(
            self.dense,
            queries=self.dense.queries[some],
            scale=self.dense.scale[some],
            offset=self.dense.offset[some],
            similarity=None if self.dense.similarity is None else self.dense.similarity[some],
        )
        keys = None if self.keys is None else self.keys[some]
        flags = {name: flag[some] for name, flag in self.flags.items()}
        ptr = self.ptr[start : stop + 1] - low
        return Seeds(self.num_nodes, ptr, self.nodes[low:high], self.weights[low:high], dense, keys, flags)

    def to(self, device: torch.device | str) -> Seeds:
        """Return the seeds on `device`; `ptr` stays on the CPU, where tiles are cut."""
        if is_on(self.device, device):
            return self
        dense = self.dense and replace(
            self.dense,
            atoms=self.dense.atoms.to(device),
            queries=self.dense.queries.to(device),
            scale=self.dense.scale.to(device),
            offset=self.dense.offset.to(device),
            similarity=None if self.dense.similarity is None else self.dense.similarity.to(device),
        )
        keys = None if self.keys is None else self.keys.to(device)
        return Seeds(self.num_nodes, self.ptr, self.nodes.to(device), self.weights.to(device), dense, keys, self.flags)

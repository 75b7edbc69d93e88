"""r_atom of eq. 5: min-max scaled cosines of queries and atoms, over the nearest atoms or over all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from aeg.backends.nearest import build_index
from aeg.core.ranking import TIE

_BLOCK = 1 << 22  # similarities computed at once
_GROUP = 16  # rows summed in float32
_KEPT = 1 << 24  # similarities that are kept where there are no more: 64 MiB


@dataclass(frozen=True, eq=False)
class AtomWeights:
    """Unscaled r_atom of many queries: sparse entries, and an affine part where all atoms are seeded.

    Attributes:
        column, row, weight: int64, int64 and float64 [entries]: query, atom and weight above 0.
        scale, offset: float64 [queries]; the weight on every atom is max(0, scale · cosine + offset).
        total: float64 [queries], the sum of a query's weights.
        count: int64 [queries], the number of sparse weights above 0.
        vectors, queries: the embeddings of the affine part, None where there is none.
        similarity: float32 [queries, atoms], their cosines, where there are few enough to keep.
    """

    column: Tensor
    row: Tensor
    weight: Tensor
    scale: Tensor
    offset: Tensor
    total: Tensor
    count: Tensor
    vectors: Tensor | None = None
    queries: Tensor | None = None
    similarity: Tensor | None = None

    @classmethod
    def none(cls, queries: int, device: torch.device) -> AtomWeights:
        """Return no weights for any query."""
        empty = torch.zeros(0, dtype=torch.int64, device=device)
        zero = torch.zeros(queries, dtype=torch.float64, device=device)
        return cls(empty, empty, empty.double(), zero, zero, zero, torch.zeros_like(zero, dtype=torch.int64))

    def with_nearest(self, which: Tensor, found: tuple[Tensor, Tensor]) -> AtomWeights:
        """Return these weights with those of the queries `which` (bool) set from `nearest_atoms`."""
        rows, weights = found
        at = which.nonzero().squeeze(1)
        positive = weights > 0
        column = at.unsqueeze(1).expand_as(rows)[positive]
        return replace(
            self,
            column=torch.cat([self.column, column]),
            row=torch.cat([self.row, rows[positive]]),
            weight=torch.cat([self.weight, weights[positive]]),
            total=self.total.index_add(0, at, weights.sum(1)),
            count=self.count.index_add(0, at, positive.sum(1)),
        )

    def with_words(self, which: Tensor, found: tuple[Tensor, Tensor], share: float) -> AtomWeights:
        """Return these weights, each query's scaled to sum 1, with `share` of them moved to other atoms.

        Args:
            which: bool [queries], whose weights are touched.
            found: rows [queries, k] and weights in [0, 1] of the other atoms.
            share: in (0, 1]; a query that has atoms of one kind only keeps them alone.
        """
        rows, weights = found
        weights = torch.where(which.unsqueeze(1), weights, torch.zeros_like(weights))
        other = weights.sum(1)
        here = torch.where(which & (self.total > 0), torch.where(other > 0, 1 - share, 1.0), 0.0)
        there = torch.where(other > 0, torch.where(self.total > 0, share, 1.0), 0.0)
        factor = torch.where(which, here / torch.where(self.total > 0, self.total, 1), 1.0)
        weights = weights * (there / torch.where(other > 0, other, 1)).unsqueeze(1)
        positive = weights > 0
        column = torch.arange(len(which), device=rows.device).unsqueeze(1).expand_as(rows)[positive]
        pairs = torch.cat([self.column, column]) * (1 << 32) + torch.cat([self.row, rows[positive]])
        both = torch.cat([self.weight * factor[self.column], weights[positive]])
        pairs, at = torch.unique(pairs, return_inverse=True)
        weight = torch.zeros(len(pairs), dtype=torch.float64, device=both.device).index_add_(0, at, both)
        column, row = pairs >> 32, pairs & ((1 << 32) - 1)
        return replace(
            self,
            column=column,
            row=row,
            weight=weight,
            total=torch.where(which, here + there, self.total),
            count=torch.bincount(column[weight > 0], minlength=len(which)),
        )

    def with_all(
        self, which: Tensor, spread: tuple[Tensor, Tensor, Tensor, Tensor | None], vectors: Tensor, queries: Tensor
    ) -> AtomWeights:
        """Return these weights with those of the queries `which` (bool) set from `spread_over_all`.

        Other queries get an affine part of zero; their embeddings are set to zero in it, so that one that is
        not finite does no harm.
        """
        at = which.nonzero().squeeze(1)
        scale, offset, total, cosines = spread
        similarity = None
        if cosines is not None:
            similarity = cosines.new_zeros(len(which), len(vectors)).index_copy_(0, at, cosines)
        return replace(
            self,
            scale=self.scale.index_add(0, at, scale),
            offset=self.offset.index_add(0, at, offset),
            total=self.total.index_add(0, at, total),
            vectors=vectors,
            queries=torch.where(which.unsqueeze(1), queries, torch.zeros_like(queries)),
            similarity=similarity,
        )

    def counts(self) -> Tensor:
        """Return the number of each query's weights above 0, int64 [queries]; this computes similarities again."""
        if self.vectors is None or self.queries is None:
            return self.count
        parts = []
        for block in _blocks(self.queries, self.vectors):
            cosines = block @ self.vectors.T
            parts.append((cosines > cosines.amin(1, keepdim=True)).sum(1))
        everything = torch.where(self.offset > 0, len(self.vectors), 0)
        return self.count + torch.where(self.scale > 0, torch.cat(parts), everything)


def nearest_atoms(vectors: Tensor, queries: Tensor, k: int, index: Any | None = None) -> tuple[Tensor, Tensor]:
    """Return the rows and min-max scaled cosines of each query's k nearest atoms.

    Args:
        vectors: [atoms, d], unit rows, at least one.
        queries: [queries, d], unit rows.
        k: at least 1; all atoms where there are fewer.
        index: `search(queries, k) -> (scores, rows)`, rows −1 where it found fewer; exact search where None.

    Returns:
        rows, int64 [queries, k'], and weights, float64 [queries, k'], in [0, 1] (0 where the row is −1).

    Example:
        >>> vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> rows, weights = nearest_atoms(vectors, torch.tensor([[1.0, 0.0]]), 3)
        >>> rows.tolist(), [round(w, 6) for w in weights[0].tolist()]
        ([[0, 1, 2]], [1.0, 0.6, 0.0])
    """
    k = min(k, len(vectors))
    index = index or build_index(vectors, kind="torch", device=vectors.device)
    scores, rows = (part.to(queries.device) for part in index.search(queries, k))
    return rows, min_max(scores, rows >= 0)


def min_max(scores: Tensor, there: Tensor) -> Tensor:
    """Return each row's scores scaled so that the least of those `there` (bool) weighs 0, the most 1, float64.

    All are 1 where they are equal; what is not there is 0.
    """
    scores = scores.double()
    low = scores.masked_fill(~there, torch.inf).amin(1)
    high = scores.masked_fill(~there, -torch.inf).amax(1)
    scale, offset = _min_max(low, high)
    weights = (scores * scale.unsqueeze(1) + offset.unsqueeze(1)).clamp(0, 1)
    return torch.where(there, weights, torch.zeros_like(weights))


def spread_over_all(vectors: Tensor, queries: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return scale and offset of the min-max scaled cosines over all atoms, the sum of the scaled ones, the cosines.

    Args:
        vectors: [atoms, d], unit rows, at least one.
        queries: [queries, d], unit rows.

    Returns:
        scale, offset and sum, float64 [queries]; the cosines, [queries, atoms], None where they are too many to keep.
    """
    bounds, kept = [], []
    few = len(queries) * len(vectors) <= _KEPT
    for block in _blocks(queries, vectors):
        cosines = block @ vectors.T
        bounds.append(torch.stack([cosines.amin(1), cosines.amax(1)]))
        kept += [cosines] if few else []
    low, high = torch.cat(bounds, dim=1).double()
    scale, offset = _min_max(low, high)
    total = queries.double() @ _sum(vectors)
    return scale, offset, total * scale + len(vectors) * offset, torch.cat(kept) if few else None


def _sum(vectors: Tensor) -> Tensor:
    """Return the sum of the rows, float64 [d]; float32 within groups of rows, which is much faster."""
    whole = len(vectors) // _GROUP * _GROUP
    grouped = vectors[:whole].view(_GROUP, -1, vectors.shape[1]).sum(0)
    return grouped.sum(0, dtype=torch.float64) + vectors[whole:].sum(0, dtype=torch.float64)


def _min_max(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Return scale and offset of min-max scaling; 0 and 1 where the bounds are equal by the tie rule."""
    span = high - low
    equal = ~(span > TIE * torch.maximum(low.abs(), high.abs()))
    scale = torch.where(equal, torch.zeros_like(span), 1.0 / torch.where(equal, torch.ones_like(span), span))
    return scale, torch.where(equal, torch.ones_like(span), -low * scale)


def _blocks(queries: Tensor, vectors: Tensor) -> tuple[Tensor, ...]:
    """Return the queries in equal parts, as wide as the memory allowed: narrow products are slower."""
    return queries.tensor_split(max(1, -(-len(queries) * len(vectors) // _BLOCK)))

"""Links from effective queries to entities, held as arrays for all queries at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import torch
from torch import Tensor

from aeg.core.tensors import row_pointers
from aeg.errors import DataError


@dataclass(frozen=True)
class Link:
    """A mention tied to an entity: the entity's row, its seed weight, and the words that led to it."""

    entity: int
    weight: float
    mention: str


@dataclass(frozen=True, eq=False)
class Links(Sequence[tuple[Link, ...]]):
    """The links of many effective queries; as a sequence, item i holds the `Link` records of query i.

    Query i owns links `ptr[i]:ptr[i + 1]`, strongest first, equal weights in row order, each entity at most once.

    Attributes:
        ptr: int64 [queries + 1].
        entities: int64 [links], rows of the graph's entities.
        weights: float64 [links], at least 0.
        mention: int64 [links], rows of `mentions`.
        mentions: the words that led to an entity.

    Example:
        >>> links = Links.from_lists([[Link(2, 0.5, "Ann"), Link(7, 1.0, "Bix")], []])
        >>> links.ptr.tolist(), links.entities.tolist()
        ([0, 2, 2], [7, 2])
        >>> [link.mention for link in links[0]], links[1]
        (['Bix', 'Ann'], ())
    """

    ptr: Tensor
    entities: Tensor
    weights: Tensor
    mention: Tensor
    mentions: Sequence[str]

    @classmethod
    def from_lists(cls, lists: Iterable[Iterable[Link]]) -> Links:
        """Return the links of each query, the strongest of each entity, strongest first."""
        held = [tuple(found) for found in lists]
        flat = [(query, link) for query, found in enumerate(held) for link in found]
        query = torch.tensor([query for query, _ in flat], dtype=torch.int64)
        entities = torch.tensor([link.entity for _, link in flat], dtype=torch.int64)
        weights = torch.tensor([link.weight for _, link in flat], dtype=torch.float64)
        mentions = [link.mention for _, link in flat]
        return cls.strongest(len(held), query, entities, weights, torch.arange(len(flat)), mentions)

    @classmethod
    def strongest(
        cls,
        queries: int,
        query: Tensor,
        entities: Tensor,
        weights: Tensor,
        mention: Tensor,
        mentions: Sequence[str],
        top_k: int | None = None,
    ) -> Links:
        """Return the strongest links of candidates in any number.

        Where a query has an entity more than once, the largest weight counts, among equals the first.

        Args:
            queries: the number of queries.
            query: int64 [candidates].
            entities: int64 [candidates], rows of the graph's entities.
            weights: [candidates].
            mention: int64 [candidates], rows of `mentions`.
            mentions: the words that led to an entity.
            top_k: links kept of each query; None keeps all.

        Example:
            >>> ones = torch.ones(3, dtype=torch.int64)
            >>> found = Links.strongest(2, ones, torch.tensor([4, 3, 4]), torch.tensor([0.5, 0.25, 0.75]),
            ...                         torch.arange(3), ("a", "b", "c"))
            >>> found[1]
            (Link(entity=4, weight=0.75, mention='c'), Link(entity=3, weight=0.25, mention='b'))
        """
        weights = weights.to(torch.float64)
        width = int(entities.max()) + 1 if len(entities) else 1
        pair = query * width + entities
        order = weights.argsort(descending=True, stable=True)
        order = order[pair[order].argsort(stable=True)]
        new = torch.ones_like(order, dtype=torch.bool)
        new[1:] = pair[order[1:]] != pair[order[:-1]]
        order = order[new]
        order = order[weights[order].argsort(descending=True, stable=True)]
        order = order[query[order].argsort(stable=True)]
        ptr = row_pointers(query[order], queries)
        if top_k is not None:
            order = order[torch.arange(len(order)) - ptr[query[order]] < top_k]
            ptr = row_pointers(query[order], queries)
        return cls(ptr, entities[order], weights[order], mention[order], mentions)

    @property
    def sizes(self) -> Tensor:
        """The number of links of each query, int64 [queries]."""
        return self.ptr[1:] - self.ptr[:-1]

    @property
    def queries(self) -> Tensor:
        """The query of each link, int64 [links], ascending."""
        return torch.repeat_interleave(torch.arange(len(self)), self.sizes)

    def united(self, which: Tensor, others: Links) -> Links:
        """Return these links and `others`, whose query i is query `which[i]` of these; the larger weight counts."""
        return Links.strongest(
            len(self),
            torch.cat([self.queries, which[others.queries]]),
            torch.cat([self.entities, others.entities]),
            torch.cat([self.weights, others.weights]),
            torch.cat([self.mention, others.mention + len(self.mentions)]),
            (*self.mentions, *others.mentions),
        )

    def check(self, entities: int) -> None:
        """Raise DataError if a link leads outside the graph's entities, or weighs what no seed can weigh."""
        if len(self.entities) and not 0 <= int(self.entities.min()) <= int(self.entities.max()) < entities:
            low, high = int(self.entities.min()), int(self.entities.max())
            raise DataError(f"links: got links to entities {low} to {high}, expected 0 to {entities - 1}")
        if not bool((torch.isfinite(self.weights) & (self.weights >= 0)).all()):
            raise DataError(f"links: got a link of weight {float(self.weights.min())}, expected finite weights >= 0")

    def digest(self) -> str:
        """Return a SHA-256 of the links and the words that led to them.

        Example:
            >>> one, other = (Links.from_lists([[Link(0, 1.0, name)]]) for name in ("Ann", "Bix"))
            >>> one.digest() == other.digest()
            False
        """
        found = hashlib.sha256()
        for part in (self.ptr, self.entities, self.weights):
            found.update(part.numpy().tobytes())
        for at in self.mention.tolist():
            words = self.mentions[at].encode()
            found.update(len(words).to_bytes(8, "little") + words)
        return found.hexdigest()

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __iter__(self) -> Iterator[tuple[Link, ...]]:
        rows, weights, mention = self.entities.tolist(), self.weights.tolist(), self.mention.tolist()
        flat = [Link(row, weight, self.mentions[at]) for row, weight, at in zip(rows, weights, mention, strict=True)]
        ptr = self.ptr.tolist()
        for low, high in pairwise(ptr):
            yield tuple(flat[low:high])

    @overload
    def __getitem__(self, at: int) -> tuple[Link, ...]: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[tuple[Link, ...]]: ...

    def __getitem__(self, at: int | slice) -> tuple[Link, ...] | Sequence[tuple[Link, ...]]:
        if isinstance(at, slice):
            return [self[row] for row in range(*at.indices(len(self)))]
        row = range(len(self))[at]
        part = slice(int(self.ptr[row]), int(self.ptr[row + 1]))
        columns = (self.entities[part].tolist(), self.weights[part].tolist(), self.mention[part].tolist())
        return tuple(Link(entity, weight, self.mentions[words]) for entity, weight, words in zip(*columns, strict=True))

"""The protocol of nearest-neighbour indexes, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch

from aeg.backends.nearest.ranking import exact_scores, order, slack
from aeg.config.ranges import Checked
from aeg.registry import Registry

_MARGIN = 16
_QUERIES = 1024


class Index(ABC):
    """Vectors that can be searched by inner product.

    Attributes:
        engine: what searches, e.g. `faiss-flat` or `torch`.
        notes: what a reader of the results should know, e.g. why another engine than asked for is used.
        exact: whether the true nearest rows are always found.
        vectors: float32 [n, d] on the device that searches.
    """

    engine: str = ""
    exact: bool = True

    def __init__(self, vectors: torch.Tensor, device: torch.device | str = "cpu", notes: tuple[str, ...] = ()) -> None:
        if vectors.ndim != 2:
            raise ValueError(f"vectors: got shape {tuple(vectors.shape)}, expected [n, d]")
        self.vectors = vectors.detach().to(device=device, dtype=torch.float32).contiguous()
        self.notes = notes

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the k rows with the largest inner product for each query.

        Scores are computed in float64 and rounded, so every exact engine gives the same result.

        Args:
            queries: [q, d]; a query that is not finite finds nothing.
            k: at least 1.

        Returns:
            Scores float32 [q, k], descending, and rows int64 [q, k], both on the queries' device; ties (closer than
            1e-7) by row ascending and with one score. Where there are fewer than k rows: row -1, score -inf.

        Raises:
            ValueError: if the shapes do not fit or k is less than 1.
        """
        if queries.ndim != 2 or queries.shape[1] != self.vectors.shape[1]:
            raise ValueError(f"queries: got shape {tuple(queries.shape)}, expected [q, {self.vectors.shape[1]}]")
        if k < 1:
            raise ValueError(f"k: got {k}, expected at least 1")
        device = self.vectors.device
        wanted = queries.detach().to(device=device, dtype=torch.float32)
        finite = torch.isfinite(wanted).all(dim=1)
        wanted = torch.where(finite[:, None], wanted, 0.0)
        scores = torch.full((len(queries), k), -torch.inf, device=device)
        rows = torch.full((len(queries), k), -1, dtype=torch.int64, device=device)
        take = min(k, len(self))
        for start in range(0, len(queries) if take else 0, _QUERIES):
            block = slice(start, start + _QUERIES)
            scores[block, :take], rows[block, :take] = self._top(wanted[block], take, take + _MARGIN)
        scores.masked_fill_(~finite[:, None], -torch.inf)
        rows.masked_fill_(~finite[:, None], -1)
        return scores.to(queries.device), rows.to(queries.device)

    def _top(self, queries: torch.Tensor, k: int, wanted: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the best k of `wanted` candidates, asking for more where the last ones may tie with the k-th."""
        wanted = min(wanted, len(self))
        found, candidates = self._candidates(queries, wanted)
        near = found >= found[:, k - 1 : k] - 2 * slack()  # others cannot be among the best k
        candidates = candidates[:, : int(near.sum(1).max())] if len(near) else candidates[:, :k]
        scores, rows = order(exact_scores(queries, self.vectors, candidates), candidates, k)
        if self.exact and wanted < len(self):
            unsure = (found[:, -1] >= found[:, k - 1] - slack()).nonzero().squeeze(1)
            if len(unsure):
                scores[unsure], rows[unsure] = self._top(queries[unsure], k, 4 * wanted)
        return scores, rows

    @abstractmethod
    def _candidates(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the engine's scores, descending, and rows [q, count] on the vectors' device; -1 for none."""


@dataclass(frozen=True)
class IndexMethod(Checked, ABC):
    """The parameters of a kind of index."""

    @abstractmethod
    def build(self, vectors: torch.Tensor, device: torch.device | str = "cpu") -> Index:
        """Return an index over unit vectors [n, d].

        Raises:
            DependencyError: if the kind needs a package that is not installed.
        """


INDEXES: Registry[IndexMethod] = Registry("index")


def build_index(vectors: torch.Tensor, kind: str = "flat", device: torch.device | str = "cpu", **params: Any) -> Index:
    """Return an index over unit vectors.

    Args:
        vectors: [n, d], rows of length 1.
        kind: `flat` (exact; faiss where it works, else torch), `torch` (exact), `hnsw` or `ivf` (approximate).
        device: where to search.
        params: parameters of that kind, e.g. `nprobe=32`.

    Raises:
        ConfigError: if the kind or a parameter is unknown or out of range.
        DependencyError: if the kind needs a package that is not installed.

    Example:
        >>> index = build_index(torch.eye(3), kind="torch")
        >>> index.search(torch.tensor([[0.0, 0.8, 0.6]]), k=2)
        (tensor([[0.8000, 0.6000]]), tensor([[1, 2]]))
    """
    return INDEXES.make(kind, **params).build(vectors, device)

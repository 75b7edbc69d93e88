"""Indexes that faiss searches: flat (exact), HNSW and inverted lists (approximate)."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from aeg.backends.nearest.base import INDEXES, Index, IndexMethod
from aeg.backends.nearest.exact import TorchIndex
from aeg.backends.nearest.probe import cpu_fault, gpu_fault, gpu_index
from aeg.config.ranges import param
from aeg.errors import DependencyError

logger = logging.getLogger(__name__)

_GPU_MOST = 2048
_POINTS_PER_LIST = 39


class FaissIndex(Index):
    """A faiss index beside the vectors, which are kept for rescoring."""

    def __init__(
        self,
        vectors: torch.Tensor,
        device: torch.device | str,
        engine: str,
        index: Any,
        exact: bool,
        search: Any = None,
        most: int | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        """Wrap `index`; `search(count)` gives its search parameters, `most` the most neighbours it can return."""
        super().__init__(vectors, device, notes)
        self.engine, self.exact = engine, exact
        self._index, self._parameters, self._most = index, search, most

    def _candidates(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        if self._most is not None and count > self._most:
            return TorchIndex(self.vectors, self.vectors.device)._candidates(queries, count)
        options = {} if self._parameters is None else {"params": self._parameters(count)}
        scores, rows = self._index.search(queries.cpu().contiguous().numpy(), count, **options)
        device = self.vectors.device
        return torch.from_numpy(scores).to(device), torch.from_numpy(rows).to(device)


@INDEXES.register("flat")
@dataclass(frozen=True)
class Flat(IndexMethod):
    """Exact search: by torch on the CPU, by faiss on a GPU where it works there, else by torch, as the notes say."""

    def build(self, vectors: torch.Tensor, device: torch.device | str = "cpu") -> Index:
        """Return an exact index."""
        device = torch.device(device)
        if device.type == "cpu":
            return TorchIndex(vectors, device)
        fault = gpu_fault(device.index or 0) if device.type == "cuda" else f"faiss has no {device.type} support"
        if fault:
            logger.info("index flat: exact search in torch (%s)", fault)
            return TorchIndex(vectors, device, notes=(f"flat: searched by torch ({fault})",))
        import faiss

        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(_host(vectors))
        moved = gpu_index(index, device.index or 0)
        return FaissIndex(vectors, device, "faiss-gpu-flat", moved, exact=True, most=_GPU_MOST)


@INDEXES.register("hnsw")
@dataclass(frozen=True)
class Hnsw(IndexMethod):
    """Approximate search in a hierarchical small-world graph, on the CPU; built by one thread, so reproducible.

    Attributes:
        m: neighbours kept a row.
        ef_construction: candidates looked at for each row while building.
        ef_search: candidates looked at for each query; at least the number asked for.
    """

    m: int = param(32, ge=2)
    ef_construction: int = param(200, ge=1)
    ef_search: int = param(128, ge=1)

    def build(self, vectors: torch.Tensor, device: torch.device | str = "cpu") -> Index:
        """Return an approximate index."""
        faiss = _faiss("hnsw")
        index = faiss.IndexHNSWFlat(vectors.shape[1], self.m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.ef_construction
        with _one_thread(faiss):
            index.add(_host(vectors))

        def parameters(count: int) -> Any:
            return faiss.SearchParametersHNSW(efSearch=max(self.ef_search, count))

        return FaissIndex(vectors, device, "faiss-hnsw", index, False, parameters, notes=_notes("hnsw", device))


@INDEXES.register("ivf")
@dataclass(frozen=True)
class Ivf(IndexMethod):
    """Approximate search in the inverted lists of the nearest centroids, on the CPU.

    Attributes:
        nlist: number of lists; None is 4 times the root of the number of rows, at least 39 rows a list.
        nprobe: lists looked at for each query.
        seed: of the k-means that finds the centroids.
    """

    nlist: int | None = param(None, ge=1)
    nprobe: int = param(16, ge=1)
    seed: int = param(0, ge=0)

    def build(self, vectors: torch.Tensor, device: torch.device | str = "cpu") -> Index:
        """Return an approximate index."""
        faiss = _faiss("ivf")
        size, dim = vectors.shape
        lists = self.nlist or min(int(4 * math.sqrt(size)), size // _POINTS_PER_LIST)
        lists = max(1, min(lists, size))
        quantizer = faiss.IndexFlatIP(dim)
        index = faiss.IndexIVFFlat(quantizer, dim, lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = self.seed
        index.cp.min_points_per_centroid = 1  # fewer is the caller's choice of nlist; faiss would only print a warning
        with _one_thread(faiss):
            if size:
                index.train(_host(vectors))
                index.add(_host(vectors))

        def parameters(count: int) -> Any:
            return faiss.SearchParametersIVF(nprobe=min(self.nprobe, lists))

        return FaissIndex(vectors, device, "faiss-ivf", index, False, parameters, notes=_notes("ivf", device))


def _faiss(kind: str) -> Any:
    fault = cpu_fault()
    if fault:
        raise DependencyError(
            f"index {kind!r} needs faiss: {fault}; pip install faiss-cpu (or faiss-gpu, never both), or use kind: flat"
        )
    import faiss

    return faiss


def _notes(kind: str, device: torch.device | str) -> tuple[str, ...]:
    if torch.device(device).type == "cpu":
        return ()
    logger.info("index %s: candidates are found on the CPU, scores computed on %s", kind, device)
    return (f"{kind}: candidates found on the CPU",)


def _host(vectors: torch.Tensor) -> Any:
    return vectors.detach().to(device="cpu", dtype=torch.float32).contiguous().numpy()


@contextmanager
def _one_thread(faiss: Any) -> Iterator[None]:
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)

"""Nearest neighbours of unit vectors by inner product: exact, approximate, and all pairs above a threshold."""

from aeg.backends.nearest.base import INDEXES, Index, IndexMethod, build_index
from aeg.backends.nearest.exact import Torch, TorchIndex
from aeg.backends.nearest.faiss_index import Flat, Hnsw, Ivf
from aeg.backends.nearest.pairs import Pairs, neighbours_above

__all__ = [
    "INDEXES",
    "Flat",
    "Hnsw",
    "Index",
    "IndexMethod",
    "Ivf",
    "Pairs",
    "Torch",
    "TorchIndex",
    "build_index",
    "neighbours_above",
]

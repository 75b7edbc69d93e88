"""Encoders: texts to unit vectors, cached on disk by content."""

from aeg.backends.embedder.base import EMBEDDERS, Embedder, Encoder
from aeg.backends.embedder.hf import HuggingFaceEmbedder

__all__ = ["EMBEDDERS", "Embedder", "Encoder", "HuggingFaceEmbedder"]

"""Checks that what a stage is about to load fits the memory, before it is loaded."""

from __future__ import annotations

from pathlib import Path

import torch

from aeg.backends.memory import embedding_bytes, operator_bytes, require
from aeg.graph import AtomEntityGraph
from aeg.graph.graph import EDGE_TYPES

_TEXT = 6  # main memory that a byte of compressed records takes as Python's strings


def check_stored(folder: Path) -> None:
    """Check that a stored graph fits the main memory.

    Raises:
        DeviceError: if it does not.
    """
    tensors = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    records = sum(path.stat().st_size for path in folder.glob("*.parquet"))
    require("cpu", tensors + _TEXT * records, f"the graph in {folder}", "run it where there is more memory")


def check_graph(graph: AtomEntityGraph, device: torch.device) -> None:
    """Check that a graph's operator and its atoms' embeddings fit a device.

    Raises:
        DeviceError: if they do not.
    """
    edges = sum(graph.data[kind].edge_index.shape[1] for kind in EDGE_TYPES.values())
    needed = operator_bytes(graph.num_nodes, edges)
    if graph.atoms.embeddings is not None:
        needed += embedding_bytes(*graph.atoms.embeddings.shape)
    what = f"the graph ({graph.num_nodes:,} nodes, {edges:,} edges) with its atoms' embeddings"
    other = "set device: cpu, or " if device.type != "cpu" else ""
    require(device, needed, what, f"{other}take a device with more memory")

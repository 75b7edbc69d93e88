"""How queries are cut into tiles, and what a tile looks like to a method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from aeg.core.kernels.threads import all_threads
from aeg.core.kernels.tiles import PANEL, Tile, load, room, scattered
from aeg.core.operator import Operator
from aeg.core.seeds import Seeds
from aeg.errors import DataError


@dataclass(frozen=True, eq=False)
class Layout:
    """How a method wants its tiles.

    Attributes:
        op: the operator that `propagate` gets.
        position: int64 [nodes], the row of each node in a tile; None: as it is.
        weights: float32 [nodes], what the rows of a tile are multiplied by, in the order of the rows; None: nothing.
    """

    op: Operator
    position: Tensor | None = None
    weights: Tensor | None = None


def walk_layout(op: Operator) -> Layout:
    """Return the layout of walks that are followed as z = D⁻¹ r: nodes in an order that suits the caches, rows over D.

    An isolated node's degree counts as 1.
    """
    if "walk layout" not in op.memo:
        inside = op.arranged.op
        weights = (1 / inside.walk_degree).to(torch.float32)
        op.memo["walk layout"] = Layout(inside, op.arranged.position, weights)
    found: Layout = op.memo["walk layout"]
    return found


def loaded(
    seeds: Tensor | Seeds, width: int, layout: Layout, fast: bool, first: int
) -> Iterator[tuple[int, Tile, Tensor | None]]:
    """Yield (first query, tile, keys [width] where the seeds have any), from query `first` on."""
    if isinstance(seeds, Seeds):
        into = room(seeds.weights, seeds.num_nodes, width, 1)
        for start in range(first, seeds.num_queries, width):
            stop = min(start + width, seeds.num_queries)
            keys = None if seeds.keys is None else seeds.keys[start:stop]
            keys = None if keys is None else torch.nn.functional.pad(keys, (0, width - len(keys)))
            if seeds.dense is None:
                entries = seeds.entries(start, stop)
                yield start, scattered(*entries, layout.position, layout.weights, into[0]), keys
                continue
            with all_threads():
                part = seeds.tile(start, stop)
            for tile in load(part, layout.position, layout.weights, fast, into):
                yield start, tile, keys
        return
    tiles = min(PANEL if fast else 1, -(-seeds.shape[1] // width))
    into = room(seeds, len(seeds), width, tiles)
    for start in range(first, seeds.shape[1], max(tiles, 1) * width):
        panel = seeds[:, start : start + tiles * width].to(torch.float32)
        for at, tile in enumerate(load(panel, layout.position, layout.weights, fast, into)):
            yield start + at * width, tile, None


def check_shape(op: Operator, seeds: Tensor | Seeds) -> None:
    """Raise `DataError` unless the seeds have one row a node."""
    rows = seeds.num_nodes if isinstance(seeds, Seeds) else seeds.shape[0] if seeds.ndim == 2 else None
    if rows != op.num_nodes:
        shape = f"Seeds over {rows} nodes" if isinstance(seeds, Seeds) else f"a tensor of shape {tuple(seeds.shape)}"
        raise DataError(f"seeds: got {shape}, expected [nodes, queries] with {op.num_nodes} nodes")

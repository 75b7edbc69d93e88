"""How many queries are propagated at once: as many as the memory of the device holds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from aeg.backends.memory import free_memory
from aeg.core.operator import Operator
from aeg.errors import DeviceError

if TYPE_CHECKING:
    from aeg.propagation.base import Info

Part = tuple[int, Tensor, "Info"]
Run = Callable[[int, int], Iterator[Part]]

logger = logging.getLogger(__name__)

CPU_TILE = 32
CUDA_TILE = 128
BYTES = 64  # that a node of one query takes: 16 float32 arrays, of which some live for a moment only
SHARE = 0.8  # of the free memory that a tile may take


def tile_width(op: Operator, count: int) -> int:
    """Return the columns of a tile: what fills a cache line on the CPU, or rows of 512 bytes on a GPU.

    There are fewer where there are not so many queries (on a GPU with the Triton kernel only, as torch's product adds
    in another order at another width), or where the memory does not hold them, which is logged.
    """
    if op.device.type == "cuda":
        narrow = op.kernel.name == "triton"
        return fitting_width(op, 8 if narrow and count <= 8 else 32 if narrow and count <= 32 else CUDA_TILE)
    return fitting_width(op, 1 if count == 1 else 8 if count <= 8 else CPU_TILE)


def fitting_width(op: Operator, widest: int) -> int:
    """Return the largest power of two, at most `widest`, whose tile should fit the free memory of the device.

    An operator that is split over processes takes `widest`: every process must have the same tiles.
    """
    if op.sharding is not None:
        return widest
    free, bound = free_memory(op.device)
    width = widest_within(op.num_nodes, widest, int(SHARE * free))
    if width < widest:
        logger.warning(
            "%s: %d queries at once and not %d, as %s leaves %d MiB of memory",
            op.device,
            width,
            widest,
            bound,
            free >> 20,
        )
    return width


def widest_within(nodes: int, widest: int, memory: int) -> int:
    """Return the largest power of two, at least 1 and at most `widest`, whose tile takes at most so many bytes.

    Example:
        >>> widest_within(1_000_000, 128, 64 * 10**9), widest_within(1_000_000, 128, 10**9), widest_within(10, 128, 0)
        (128, 8, 1)
    """
    columns = min(memory // (BYTES * max(nodes, 1)), widest)
    return 1 << max(columns, 1).bit_length() - 1


def fitted(run: Run, width: int, op: Operator) -> Iterator[Part]:
    """Yield what `run` yields; where the device's memory is too small, halve the tile and go on from that query.

    Queries of tiles that were halved have the flag `tile_halved`.

    Args:
        run: takes the first query and the tile's width, and yields (first query, scores [nodes, columns], info) tile
            by tile to the last query.
        width: of a tile, to begin with.
        op: the operator; where it is split over processes nothing is halved, as all must have the same tiles.

    Raises:
        DeviceError: if the memory is too small for a tile that cannot be halved.
    """
    first, asked = 0, width
    tiles = run(first, width)
    while True:
        try:
            found = next(tiles, None)
        except torch.OutOfMemoryError as error:
            _explain(error, width, op)
        else:
            if found is None:
                return
            start, scores, info = found
            first = start + scores.shape[1]
            halved = torch.full_like(info.converged, width < asked)
            yield start, scores, replace(info, flags={**info.flags, "tile_halved": halved})
            del found, scores, info
            continue
        # Only here, as the error is gone, nothing refers to the tensors of the failed tile any more.
        torch.cuda.empty_cache()
        width //= 2
        tiles = run(first, width)


def _explain(error: torch.OutOfMemoryError, width: int, op: Operator) -> None:
    """Say that the tile is halved, or raise where it cannot be."""
    if width == 1 or op.sharding is not None:
        remedy = "set a smaller `tile`" if width > 1 else "take `device: cpu`, or split the graph (aeg.core.shard)"
        raise DeviceError(
            f"propagation: {op.device} is out of memory with {width} queries at once on {op.num_nodes:,} nodes; "
            f"{remedy}, or free memory that others hold ({error})"
        ) from error
    logger.warning("%s: out of memory with %d queries at once; going on with %d", op.device, width, width // 2)

"""Operators whose matrix is split by rows over processes, for graphs that exceed one device."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aeg.core.kernels import Matrix, choose
from aeg.core.kernels.sharded import ShardedKernel
from aeg.core.kernels.threads import bounds
from aeg.core.operator import Operator
from aeg.errors import DataError


def sharded(source: Operator | Path, device: torch.device | str = "cpu", group: Any = None) -> Operator:
    """Return an operator whose products are shared by the processes of a torch.distributed group.

    Every process calls this, and later every method, with the same arguments; each gets all scores, equal to those
    of one process up to rounding. A process keeps about 1 / processes of the matrix (rows cut so that each has as
    many entries); vectors and degrees are whole everywhere. From a file, which is mapped into memory, only the
    process's own rows are read. Methods that look at single edges (`rwr`) need the whole operator.

    Args:
        source: an operator on the CPU, or a file that `Operator.save` wrote.
        device: where this process computes (with NCCL: its own GPU).
        group: the process group; None is the default group.

    Raises:
        DataError: if torch.distributed is not initialised (run by `torchrun`, then `init_process_group`).

    Example:
        >>> sharded(Operator.from_edges(2, torch.tensor([[0], [1]])))
        Traceback (most recent call last):
        ...
        aeg.errors.DataError: sharded: torch.distributed is not initialised; start by torchrun, call init_process_group
    """
    from torch import distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        raise DataError("sharded: torch.distributed is not initialised; start by torchrun, call init_process_group")
    whole = Operator.load(source) if isinstance(source, Path) else source
    count, rank = dist.get_world_size(group), dist.get_rank(group)
    at = bounds(whole.crow.to(torch.int64) + torch.arange(whole.num_nodes + 1), count)
    blocks = tuple(slice(low, high) for low, high in pairwise(at))
    crow, col, weight = (part.to(device) for part in _rows(whole, blocks[rank]))
    inner = choose(Matrix(crow, col, weight, whole.num_nodes, blocks[rank].start), whole.kernel_name)
    degree, isolated = whole.degree.to(device), whole.isolated.to(device)
    return Operator(
        whole.num_nodes, crow, col, weight, degree, isolated, whole.counts, sharding=ShardedKernel(inner, blocks, group)
    )


def _rows(op: Operator, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
    """The CSR arrays of some rows, as copies."""
    low, high = int(op.crow[rows.start]), int(op.crow[rows.stop])
    return op.crow[rows.start : rows.stop + 1] - low, op.col[low:high].clone(), op.weight[low:high].clone()

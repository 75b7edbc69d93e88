"""Which engine of a linear method should cost least for some seeds on some graph."""

from __future__ import annotations

import torch
from torch import Tensor

from aeg.core.operator import Operator
from aeg.core.seeds import Seeds
from aeg.errors import DataError
from aeg.propagation.push import suits

PUSH_QUERIES = 16  # more queries than that share the cost of a walk over the whole graph
PUSH_NONZEROS = 5_000_000  # a smaller graph is walked over whole in a few milliseconds
FOLDED_BYTES = 2 << 30
_PRODUCT, _DENSE = 8.0, 1.0  # cost of a column's step for a non-zero, and of a multiply-add of a dense product


def choose_engine(
    engine: str, op: Operator, seeds: Tensor | Seeds, rows: int | None, steps: float, push: bool = False
) -> str:
    """Return the engine that runs: the one asked for, or for `auto` the one that should cost least.

    Args:
        engine: what the config says.
        op: the operator.
        seeds: the seeds of all queries.
        rows: rows whose scores are wanted; None for all.
        steps: products that the iteration needs for a column.
        push: whether `auto` may choose to push.

    Raises:
        DataError: if the engine that was asked for does not take such seeds.
    """
    if engine == "iterate":
        return engine
    if not isinstance(seeds, Seeds):
        if engine == "auto":
            return "iterate"
        raise DataError(f"engine {engine!r}: got a dense tensor of seeds, expected `Seeds`; or take engine 'iterate'")
    if engine == "auto":
        return _cheapest(op, seeds, op.num_nodes if rows is None else rows, steps, push)
    if engine == "folded" and seeds.dense is not None and seeds.dense.clipped:
        raise DataError("engine 'folded': got dense seeds that are cut off at 0, which is not linear; take 'iterate'")
    if engine == "push" and op.sharding:
        raise DataError("engine 'push': got an operator that is split over processes; take 'iterate' or 'folded'")
    if engine == "push" and not suits(seeds):
        raise DataError("engine 'push': got seeds on all atoms or on thousands of nodes; take 'iterate' or 'folded'")
    return engine


def _cheapest(op: Operator, seeds: Seeds, rows: int, steps: float, push: bool) -> str:
    queries, nonzeros = seeds.num_queries, len(op.col)
    if seeds.dense is None:
        few = queries <= PUSH_QUERIES and nonzeros >= PUSH_NONZEROS
        return "push" if push and few and op.kernel.name == "numba" and suits(seeds) else "iterate"
    if seeds.dense.clipped:
        return "iterate"
    basis, distinct = seeds.dense.atoms.shape[1] + 1, len(torch.unique(seeds.nodes))
    iterated = queries * steps * nonzeros * _PRODUCT
    folded = (basis + distinct) * steps * nonzeros * _PRODUCT + queries * rows * basis * _DENSE
    fits = rows * 4 * (basis + 3 * distinct) <= FOLDED_BYTES
    return "folded" if fits and folded < iterated else "iterate"

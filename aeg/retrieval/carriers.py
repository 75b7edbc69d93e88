"""Which entities carried the score of an atom."""

from __future__ import annotations

import torch
from torch import Tensor

from aeg.core.operator import Operator


def carriers(op: Operator, scores: Tensor, atom: int, num_atoms: int, k: int = 3) -> list[tuple[int, float]]:
    """Return the entities (row, share) through which one more step of the walk brings most mass to an atom.

    The mass that entity e passes to atom a is w(a, e) / degree(e) · score(e); shares are of their sum.

    Args:
        op: the operator, atoms first.
        scores: [nodes], of one query.
        atom: the atom's row.
        num_atoms: rows below this are atoms, the others entities.
        k: at most so many entities.

    Example:
        >>> op = Operator.from_edges(3, torch.tensor([[0, 0], [1, 2]]))
        >>> carriers(op, torch.tensor([0.2, 0.6, 0.2]), 0, num_atoms=1)
        [(0, 0.75), (1, 0.25)]
    """
    low, high = int(op.crow[atom]), int(op.crow[atom + 1])
    nodes = op.col[low:high].to(torch.int64)
    passed = op.weight[low:high].double() / op.degree[nodes] * scores[nodes].double()
    passed = passed.masked_fill(nodes < num_atoms, 0.0)
    total = float(passed.sum())
    if total <= 0:
        return []
    best = torch.argsort(passed, descending=True, stable=True)[:k]
    return [(int(nodes[at]) - num_atoms, round(float(passed[at]) / total, 6)) for at in best if passed[at] > 0]

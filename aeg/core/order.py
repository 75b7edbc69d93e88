"""An order of the nodes in which neighbours lie close together in memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SMALL = 8192  # a tile of 16 float32 columns over so many nodes lies in a core's second-level cache anyway

LARGE = 50_000_000  # non-zeros above which finding an order takes minutes, and gigabytes


def locality_order(crow: Tensor, col: Tensor) -> Tensor | None:
    """Return the nodes in reverse Cuthill-McKee order, int64 [n], or None where no order helps.

    The order puts the nodes of a cluster (synonyms, the entities of one topic) next to each other, so that a
    product finds most rows of x in the cache. It is the same for the same graph.

    Args:
        crow: CSR row pointers [n + 1] of a symmetric matrix, on any device.
        col: its column indices.

    Source:
        Cuthill and McKee, Reducing the bandwidth of sparse symmetric matrices, ACM 1969; George 1971.
    """
    count = len(crow) - 1
    if count <= SMALL or not 0 < len(col) <= LARGE:
        return None
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    pattern = np.ones(len(col), dtype=np.int8)
    matrix = csr_matrix((pattern, col.cpu().numpy(), crow.cpu().numpy()), shape=(count, count))
    return torch.from_numpy(reverse_cuthill_mckee(matrix, symmetric_mode=True).astype(np.int64))


def reordered(crow: Tensor, col: Tensor, weight: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return a CSR matrix with rows and columns in another order, and the place of each node in it.

    A row keeps the order of its entries, so a product gives the same bits as before.

    Args:
        crow: row pointers of the matrix.
        col: its columns.
        weight: its entries.
        order: int64 [n]; row i of the result is row `order[i]`.

    Returns:
        crow, col, weight, and position, int64 [n]: row v became row `position[v]`.

    Example:
        >>> crow, col = torch.tensor([0, 1, 3, 4]), torch.tensor([1, 0, 2, 1])
        >>> [t.tolist() for t in reordered(crow, col, torch.ones(4), torch.tensor([1, 0, 2]))[:2]]
        [[0, 2, 3, 4], [1, 2, 0, 0]]
    """
    position = torch.empty_like(order)
    position[order] = torch.arange(len(order), device=order.device)
    sizes = (crow[1:] - crow[:-1])[order].to(torch.int64)
    rows = torch.zeros(len(crow), dtype=torch.int64, device=crow.device)
    torch.cumsum(sizes, 0, out=rows[1:])
    entry = torch.repeat_interleave(crow[:-1][order].to(torch.int64) - rows[:-1], sizes)
    entry += torch.arange(len(entry), device=entry.device)
    return rows.to(crow.dtype), position[col.to(torch.int64)[entry]].to(col.dtype), weight[entry], position

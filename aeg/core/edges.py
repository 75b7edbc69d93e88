"""From a list of undirected edges to a symmetric sparse matrix."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from aeg.errors import DataError

_MAX_INT32 = 2**31 - 1


def symmetric_csr(
    num_nodes: int, edge_index: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, dict[str, int]]:
    """Return the CSR matrix of an undirected graph: both directions of each edge, parallel ones added in float64.

    Entries are placed by counting, not by sorting all edges, with 32-bit indices throughout: 100 million edges take
    8 GiB beside the list of edges itself.

    Args:
        num_nodes: n.
        edge_index: integers [2, m], each undirected edge once.
        weight: [m]; 1 where left out.

    Returns:
        crow, int32 [n + 1]; col, int32 [nnz], ascending within a row; weight, float32 [nnz]; and how many
        `self_loops` and `zero_weights` were dropped.

    Raises:
        DataError: if an index lies outside [0, n), a weight is negative, not finite, or overflows or vanishes in
            float32, or there are 2^31 entries or more.
    """
    from scipy.sparse import coo_array

    index, values = _checked_edges(num_nodes, edge_index, weight)
    loops, zeros = index[0] == index[1], values == 0
    counts = {"self_loops": int(loops.sum()), "zero_weights": int((zeros & ~loops).sum())}
    if any(counts.values()):
        keep = ~(loops | zeros)
        index, values = index[:, keep], values[keep]
    if 2 * index.shape[1] > _MAX_INT32:
        raise DataError(f"operator: got {2 * index.shape[1]:,} non-zeros, expected fewer than 2^31 (int32 indices)")
    if not num_nodes:
        return torch.zeros(1, dtype=torch.int32), index[0].to(torch.int32), values.to(torch.float32), counts
    upper = index.to(torch.int32).numpy()
    row, col = np.concatenate([upper[0], upper[1]]), np.concatenate([upper[1], upper[0]])
    data = np.concatenate([values.numpy(), values.numpy()])
    matrix = coo_array((data, (row, col)), shape=(num_nodes, num_nodes)).tocsr()
    del row, col, data
    matrix.sum_duplicates()
    crow, entries = torch.from_numpy(matrix.indptr), torch.from_numpy(matrix.indices)
    single = torch.from_numpy(matrix.data).to(torch.float32)
    if not bool(torch.isfinite(single).all()) or bool((single == 0).any()):
        raise DataError("operator: a weight overflows or vanishes in float32; scale the weights to about 1")
    return crow.to(torch.int32), entries.to(torch.int32), single, counts


def _checked_edges(num_nodes: int, edge_index: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
        raise DataError(
            f"operator: got edge_index of shape {tuple(edge_index.shape)} and type {edge_index.dtype}, "
            "expected integers of shape [2, edges]"
        )
    index = edge_index.to("cpu", torch.int64)
    values = torch.ones(index.shape[1], dtype=torch.float64) if weight is None else weight.to("cpu", torch.float64)
    if values.shape != index.shape[1:]:
        raise DataError(f"operator: got {tuple(values.shape)} weights for {index.shape[1]} edges; give one an edge")
    if index.numel() and not (int(index.min()) >= 0 and int(index.max()) < num_nodes):
        bad = index.max() if int(index.max()) >= num_nodes else index.min()
        raise DataError(f"operator: got node {int(bad)} in an edge, expected 0 <= node < {num_nodes} (num_nodes)")
    wrong = ~torch.isfinite(values) | (values < 0)
    if bool(wrong.any()):
        at = int(wrong.nonzero()[0])
        raise DataError(f"operator: got weight {float(values[at])} on edge {at}, expected a finite number >= 0")
    return index, values

"""The propagation operator: one symmetric sparse matrix, and products with it and its normalisations."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from aeg.core.tensors import csr_matrix, row_pointers
from aeg.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Operator:
    """A symmetric, non-negative matrix W without diagonal, in CSR form, with its degrees.

    All products are diagonal scalings of one sparse-times-dense product. With D = diag(degree):
    `w` is W x, `pt` is Pᵀ x = W D⁻¹ x (one step of a random walk), `s` is S x = D^{-1/2} W D^{-1/2} x.
    Rows of isolated nodes are zero in all three.

    Attributes:
        num_nodes: n.
        crow: int32 [n + 1], row pointers.
        col: int32 [nnz], column indices, ascending within a row.
        weight: float32 [nnz], positive and finite.
        degree: float64 [n], the sum of each row.
        isolated: bool [n], true where the degree is zero.
        counts: what was dropped on construction (`self_loops`, `zero_weights`).

    Example:
        >>> import torch
        >>> op = Operator.from_edges(3, torch.tensor([[0, 1], [1, 2]]))
        >>> op.degree.tolist()
        [1.0, 2.0, 1.0]
        >>> op.pt(torch.tensor([[1.0], [0.0], [0.0]])).squeeze().tolist()
        [0.0, 1.0, 0.0]
    """

    num_nodes: int
    crow: Tensor
    col: Tensor
    weight: Tensor
    degree: Tensor
    isolated: Tensor
    counts: dict[str, int] = field(default_factory=dict)
    _matrices: dict[torch.dtype, Tensor] = field(default_factory=dict, repr=False)
    _inverse_degrees: dict[torch.dtype, Tensor] = field(default_factory=dict, repr=False)

    @classmethod
    def from_edges(cls, num_nodes: int, edge_index: Tensor, weight: Tensor | None = None) -> Operator:
        """Return the operator of an undirected graph.

        Self-loops and zero weights are dropped and counted; parallel edges add.

        Args:
            num_nodes: n; nodes without an edge are isolated.
            edge_index: integers [2, m], each undirected edge once (an edge given in both directions counts twice).
            weight: [m], finite and not negative; 1 where left out.

        Raises:
            DataError: if an index lies outside [0, n) or a weight is negative or not finite.
        """
        index, values = _checked_edges(num_nodes, edge_index, weight)
        loops = index[0] == index[1]
        zeros = values == 0
        keep = ~(loops | zeros)
        index, values = index[:, keep], values[keep]
        counts = {"self_loops": int(loops.sum()), "zero_weights": int((zeros & ~loops).sum())}
        row = torch.cat([index[0], index[1]])
        col = torch.cat([index[1], index[0]])
        key, order = torch.sort(row * num_nodes + col, stable=True)
        unique, inverse = torch.unique_consecutive(key, return_inverse=True)
        total = torch.zeros(len(unique), dtype=torch.float64)
        total.index_add_(0, inverse, torch.cat([values, values])[order])
        return cls._from_coalesced(num_nodes, unique // max(num_nodes, 1), unique % max(num_nodes, 1), total, counts)

    @classmethod
    def _from_coalesced(
        cls, num_nodes: int, row: Tensor, col: Tensor, weight: Tensor, counts: dict[str, int]
    ) -> Operator:
        if len(col) > _MAX_INT32:
            raise DataError(f"operator: got {len(col):,} non-zeros, expected fewer than 2^31 (int32 indices)")
        single = weight.to(torch.float32)
        if not bool(torch.isfinite(single).all()) or bool((single == 0).any()):
            raise DataError("operator: a weight overflows or vanishes in float32; scale the weights to about 1")
        crow = row_pointers(row, num_nodes)
        degree = torch.zeros(num_nodes, dtype=torch.float64)
        degree.index_add_(0, row, single.to(torch.float64))
        return cls(num_nodes, crow.to(torch.int32), col.to(torch.int32), single, degree, degree == 0, counts)

    @classmethod
    def from_scipy(cls, matrix: Any) -> Operator:
        """Return the operator of a symmetric SciPy sparse matrix or array; its diagonal is dropped.

        Raises:
            DataError: if the matrix is not square or not symmetric.

        Example:
            >>> from scipy.sparse import csr_array
            >>> Operator.from_scipy(csr_array([[0.0, 2.0], [2.0, 0.0]])).degree.tolist()
            [2.0, 2.0]
        """
        coo = matrix.tocoo()
        if coo.shape[0] != coo.shape[1]:
            raise DataError(f"operator: got a matrix of shape {coo.shape}, expected a square one")
        difference = abs(matrix - matrix.T)
        if difference.nnz and float(difference.max()) > 1e-6 * float(abs(matrix).max()):
            raise DataError("operator: got a matrix that is not symmetric; pass (A + A.T) / 2 if that is meant")
        upper = coo.row <= coo.col
        index = torch.from_numpy(np.stack([coo.row[upper], coo.col[upper]]).astype(np.int64))
        return cls.from_edges(coo.shape[0], index, torch.from_numpy(coo.data[upper].astype(np.float64)))

    @classmethod
    def from_networkx(cls, graph: Any, weight: str = "weight") -> Operator:
        """Return the operator of an undirected NetworkX graph, rows in the order of `graph.nodes`.

        Args:
            graph: a `Graph` or `MultiGraph`.
            weight: the edge attribute with the weight; edges without it weigh 1.

        Raises:
            DataError: if the graph is directed.
        """
        if graph.is_directed():
            raise DataError("operator: got a directed graph, expected an undirected one; use graph.to_undirected()")
        rows = {node: row for row, node in enumerate(graph.nodes)}
        edges = [(rows[u], rows[v], w) for u, v, w in graph.edges(data=weight, default=1.0)]
        return cls._from_triples(len(rows), edges)

    @classmethod
    def from_igraph(cls, graph: Any, weight: str = "weight") -> Operator:
        """Return the operator of an undirected igraph graph; edges weigh 1 where it has no such attribute.

        Raises:
            DataError: if the graph is directed.
        """
        if graph.is_directed():
            raise DataError("operator: got a directed graph, expected an undirected one; use graph.as_undirected()")
        weights = graph.es[weight] if weight in graph.es.attributes() else [1.0] * graph.ecount()
        edges = [(u, v, w) for (u, v), w in zip(graph.get_edgelist(), weights, strict=True)]
        return cls._from_triples(graph.vcount(), edges)

    @classmethod
    def from_pyg(cls, data: Any) -> Operator:
        """Return the operator of a homogeneous PyG `Data` whose `edge_index` holds both directions of each edge.

        The weight is `edge_weight` where the data has one, else 1.

        Raises:
            DataError: if an edge lacks its reverse (use `torch_geometric.transforms.ToUndirected`).
        """
        weight = data.get("edge_weight")
        if not data.is_undirected():
            raise DataError("operator: got a directed PyG graph; apply torch_geometric.transforms.ToUndirected()")
        upper = data.edge_index[0] <= data.edge_index[1]
        return cls.from_edges(int(data.num_nodes), data.edge_index[:, upper], None if weight is None else weight[upper])

    @classmethod
    def _from_triples(cls, num_nodes: int, edges: list[tuple[int, int, float]]) -> Operator:
        index = torch.tensor([(u, v) for u, v, _ in edges], dtype=torch.int64).reshape(-1, 2).T
        return cls.from_edges(num_nodes, index, torch.tensor([w for *_, w in edges], dtype=torch.float64))

    @property
    def device(self) -> torch.device:
        """The device that holds the matrix."""
        return self.weight.device

    def to(self, device: torch.device | str) -> Operator:
        """Return the operator on `device` (itself where it is there already)."""
        if torch.device(device) == self.device:
            return self
        names = ("crow", "col", "weight", "degree", "isolated")
        moved = {name: getattr(self, name).to(device) for name in names}
        return Operator(num_nodes=self.num_nodes, **moved, counts=self.counts)

    def w(self, x: Tensor) -> Tensor:
        """Return W x for a dense `x` [n, columns], in the dtype of `x`."""
        if not len(self.col):
            return torch.zeros_like(x)
        return self._matrix(x.dtype) @ x

    def pt(self, x: Tensor) -> Tensor:
        """Return Pᵀ x = W D⁻¹ x for a dense `x` [n, columns]: each column's mass moved one step."""
        return self.w(x * self._inverse_degree(x.dtype))

    def s(self, x: Tensor) -> Tensor:
        """Return S x = D^{-1/2} W D^{-1/2} x for a dense `x` [n, columns]."""
        root = self._inverse_degree(x.dtype).sqrt()
        return self.w(x * root) * root

    def scipy(self) -> csr_array:
        """Return W as a float64 SciPy CSR array on the CPU, for references and statistics."""
        from scipy.sparse import csr_array

        data = self.weight.cpu().to(torch.float64).numpy()
        return csr_array((data, self.col.cpu().numpy(), self.crow.cpu().numpy()), shape=(self.num_nodes,) * 2)

    @cached_property
    def lambda_max(self) -> float:
        """The largest eigenvalue of W (its spectral radius), by Lanczos in float64; 0 for a graph without edges."""
        if not len(self.col):
            return 0.0
        if self.num_nodes < 32:
            return float(np.linalg.eigvalsh(self.scipy().toarray())[-1])
        from scipy.sparse.linalg import eigsh

        start = self.degree.cpu().sqrt().numpy()
        return float(eigsh(self.scipy(), k=1, which="LA", v0=start, return_eigenvectors=False, tol=1e-12)[0])

    def _matrix(self, dtype: torch.dtype) -> Tensor:
        if dtype not in self._matrices:
            shape = (self.num_nodes, self.num_nodes)
            self._matrices[dtype] = csr_matrix(self.crow, self.col, self.weight.to(dtype), shape)
        return self._matrices[dtype]

    def _inverse_degree(self, dtype: torch.dtype) -> Tensor:
        if dtype not in self._inverse_degrees:
            inverse = torch.where(self.isolated, 0.0, 1.0 / self.degree)
            self._inverse_degrees[dtype] = inverse.to(dtype).unsqueeze(1)
        return self._inverse_degrees[dtype]


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

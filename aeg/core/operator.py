"""The propagation operator: one symmetric sparse matrix, and products with it and its normalisations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from aeg.core.edges import symmetric_csr
from aeg.core.kernels import Kernel, Matrix, choose
from aeg.core.order import locality_order, reordered
from aeg.core.tensors import is_on, load_tensors, save_tensors
from aeg.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_array


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
        kernel_name: the kernel that multiplies (see `aeg.core.kernels.choose`).
        sharding: the kernel that joins the processes, where each holds some rows of the matrix only
            (`aeg.core.shard`); None where this operator holds all.
        memo: what methods compute once for an operator and keep with it, by keys of their own.

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
    kernel_name: str = "auto"
    sharding: Kernel | None = None
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)
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
        crow, col, values, counts = symmetric_csr(num_nodes, edge_index, weight)
        return cls.from_csr(crow, col, values, counts)

    @classmethod
    def from_csr(cls, crow: Tensor, col: Tensor, weight: Tensor, counts: dict[str, int] | None = None) -> Operator:
        """Return the operator of a symmetric CSR matrix without diagonal, taken as it is (nothing is checked).

        Args:
            crow: int32 [n + 1], row pointers.
            col: int32 [nnz], columns, ascending within a row.
            weight: float32 [nnz], positive and finite.
            counts: what was dropped before.
        """
        nodes = len(crow) - 1
        sums = torch.segment_reduce(weight.to(torch.float64), "sum", offsets=crow.to(torch.int64), initial=0)
        degree = sums if nodes else torch.zeros(0, dtype=torch.float64)
        return cls(nodes, crow, col, weight, degree, degree == 0, counts or {})

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

    @cached_property
    def walk_degree(self) -> Tensor:
        """The degree of each node, 1 for an isolated one, float64 [n]: what a walk's mass is divided by."""
        return torch.where(self.isolated, 1.0, self.degree)

    @property
    def device(self) -> torch.device:
        """The device that holds the matrix."""
        return self.weight.device

    def to(self, device: torch.device | str) -> Operator:
        """Return the operator on `device` (itself where it is there already)."""
        if is_on(self.device, device):
            return self
        names = ("crow", "col", "weight", "degree", "isolated")
        crow, col, weight, degree, isolated = (getattr(self, name).to(device) for name in names)
        return Operator(self.num_nodes, crow, col, weight, degree, isolated, self.counts, self.kernel_name)

    def save(self, path: Path) -> None:
        """Write the matrix to a safetensors file; `load` maps it into memory."""
        save_tensors({"crow": self.crow, "col": self.col, "weight": self.weight, "degree": self.degree}, path)

    @classmethod
    def load(cls, path: Path) -> Operator:
        """Return a saved operator, its arrays mapped into memory: they are read as they are used.

        Raises:
            DataError: if the file is missing or damaged.
        """
        found = load_tensors(path, "operator", "save it again")
        degree = found["degree"]
        return cls(len(degree), found["crow"], found["col"], found["weight"], degree, degree == 0)

    def using(self, kernel_name: str) -> Operator:
        """Return the operator with another kernel.

        Raises:
            ConfigError: if there is no such kernel, or it does not run on the operator's device.
            DependencyError: if the kernel's package is missing.
        """
        found = replace(self, kernel_name=kernel_name, memo={}, _inverse_degrees={})
        _ = found.kernel
        return found

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel of W, prepared on first use."""
        return self.sharding or choose(Matrix(self.crow, self.col, self.weight, self.num_nodes), self.kernel_name)

    @cached_property
    def arranged(self) -> Arranged:
        """The operator with its nodes in an order that suits the caches, prepared on first use."""
        order = None if self.sharding else locality_order(self.crow, self.col)
        if order is None:
            return Arranged(self, None)
        order = order.to(self.device)
        crow, col, weight, position = reordered(self.crow, self.col, self.weight, order)
        degree, isolated = self.degree[order], self.isolated[order]
        moved = Operator(self.num_nodes, crow, col, weight, degree, isolated, self.counts, self.kernel_name)
        return Arranged(moved, position)

    def w(self, x: Tensor) -> Tensor:
        """Return W x for a dense `x` [n, columns], in the dtype of `x`."""
        return self.kernel.product(x.contiguous())

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
        if self.num_nodes < 32 and not self.sharding:
            return float(np.linalg.eigvalsh(self.scipy().toarray())[-1])
        from scipy.sparse.linalg import eigsh

        start = self.degree.cpu().sqrt().numpy()
        matrix = self._product_only() if self.sharding else self.scipy()
        return float(eigsh(matrix, k=1, which="LA", v0=start, return_eigenvectors=False, tol=1e-12)[0])

    def _product_only(self) -> Any:
        """W as a SciPy linear operator, for an operator that holds some rows only."""
        from scipy.sparse.linalg import LinearOperator

        def product(x: np.ndarray) -> np.ndarray:
            return self.w(torch.from_numpy(x.reshape(-1, 1)).to(self.device)).squeeze(1).cpu().numpy()

        return LinearOperator((self.num_nodes, self.num_nodes), matvec=product, dtype=np.float64)

    def _inverse_degree(self, dtype: torch.dtype) -> Tensor:
        if dtype not in self._inverse_degrees:
            inverse = torch.where(self.isolated, 0.0, 1.0 / self.degree)
            self._inverse_degrees[dtype] = inverse.to(dtype).unsqueeze(1)
        return self._inverse_degrees[dtype]


@dataclass(frozen=True, eq=False)
class Arranged:
    """An operator in another order of the nodes.

    Attributes:
        op: the operator.
        position: int64 [n], the row in `op` of each node; None where the order is the same.
    """

    op: Operator
    position: Tensor | None

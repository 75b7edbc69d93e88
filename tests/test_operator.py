"""The operator: construction from edges and other libraries, products, and what it refuses."""

from __future__ import annotations

import igraph
import networkx as nx
import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, random_array
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from aeg import Operator
from aeg.errors import DataError

INDEX = torch.tensor([[0, 1, 0, 3, 1], [1, 2, 1, 3, 0]])
WEIGHT = torch.tensor([1.0, 2.0, 3.0, 9.0, 0.5])
DENSE = np.array([[0, 4.5, 0, 0, 0], [4.5, 0, 2, 0, 0], [0, 2, 0, 0, 0], [0] * 5, [0] * 5])


def test_parallel_edges_add_self_loops_go_and_are_counted():
    op = Operator.from_edges(5, INDEX, WEIGHT)
    assert np.array_equal(op.scipy().toarray(), DENSE)
    assert op.counts == {"self_loops": 1, "zero_weights": 0}
    assert op.isolated.tolist() == [False, False, False, True, True]
    assert op.degree.tolist() == [4.5, 6.5, 2.0, 0.0, 0.0]
    assert op.degree.dtype == torch.float64
    assert op.col.dtype == torch.int32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products(dtype):
    op = Operator.from_edges(5, INDEX, WEIGHT)
    x = torch.rand(5, 3, dtype=dtype)
    inverse = np.array([1 / d if d else 0 for d in DENSE.sum(0)])
    for got, expected in [
        (op.w(x), DENSE @ x.numpy()),
        (op.pt(x), (DENSE * inverse) @ x.numpy()),
        (op.s(x), (np.sqrt(inverse)[:, None] * DENSE * np.sqrt(inverse)) @ x.numpy()),
    ]:
        assert got.dtype == dtype
        assert np.allclose(got.numpy(), expected, atol=1e-6)


def test_zero_weights_are_dropped_and_counted():
    op = Operator.from_edges(3, torch.tensor([[0, 1], [1, 2]]), torch.tensor([0.0, 1.0]))
    assert op.counts["zero_weights"] == 1
    assert op.isolated.tolist() == [True, False, False]


def test_other_libraries_give_the_same_operator():
    matrix = random_array((12, 12), density=0.2, rng=np.random.default_rng(0), format="csr")
    matrix = csr_array(matrix + matrix.T)
    expected = Operator.from_scipy(matrix)
    graph = nx.from_scipy_sparse_array(matrix)
    coo = csr_array(matrix).tocoo()
    upper = coo.row <= coo.col
    ig = igraph.Graph(12, list(zip(coo.row[upper], coo.col[upper], strict=True)))
    ig.es["weight"] = coo.data[upper].tolist()
    index, weight = to_undirected(
        torch.from_numpy(np.stack([coo.row[upper], coo.col[upper]])).long(),
        torch.from_numpy(coo.data[upper]),
        reduce="max",
    )
    data = Data(edge_index=index, edge_weight=weight, num_nodes=12)
    for op in (Operator.from_networkx(graph), Operator.from_igraph(ig), Operator.from_pyg(data)):
        assert torch.equal(op.crow, expected.crow)
        assert torch.equal(op.col, expected.col)
        assert torch.allclose(op.weight, expected.weight)
    without = matrix.toarray()
    np.fill_diagonal(without, 0)
    assert np.allclose(expected.scipy().toarray(), without)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Operator.from_edges(3, torch.tensor([[0], [3]])), "node 3 in an edge, expected 0 <= node < 3"),
        (lambda: Operator.from_edges(3, torch.tensor([[-1], [1]])), "node -1"),
        (lambda: Operator.from_edges(3, torch.tensor([[0], [1]]), torch.tensor([-2.0])), "weight -2.0 on edge 0"),
        (lambda: Operator.from_edges(3, torch.tensor([[0], [1]]), torch.tensor([float("nan")])), "weight nan"),
        (lambda: Operator.from_edges(3, torch.tensor([[0], [1]]), torch.ones(2)), "weights for 1 edges"),
        (lambda: Operator.from_edges(3, torch.tensor([0, 1])), r"shape \(2,\)"),
        (lambda: Operator.from_edges(3, torch.rand(2, 1)), "expected integers"),
        (
            lambda: Operator.from_edges(2, torch.tensor([[0], [1]]), torch.tensor([1e60], dtype=torch.float64)),
            "overflows",
        ),
        (lambda: Operator.from_scipy(csr_array([[0.0, 1.0], [0.0, 0.0]])), "not symmetric"),
        (lambda: Operator.from_scipy(csr_array(np.ones((2, 3)))), "square"),
        (lambda: Operator.from_networkx(nx.DiGraph([(0, 1)])), "directed"),
        (lambda: Operator.from_igraph(igraph.Graph([(0, 1)], directed=True)), "directed"),
        (lambda: Operator.from_pyg(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)), "ToUndirected"),
    ],
)
def test_bad_input_is_told(build, message):
    with pytest.raises(DataError, match=message):
        build()


def test_empty_graphs():
    for nodes in (0, 4):
        op = Operator.from_edges(nodes, torch.zeros(2, 0, dtype=torch.int64))
        assert op.lambda_max == 0
        assert op.pt(torch.ones(nodes, 2)).abs().sum() == 0

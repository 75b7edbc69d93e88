"""Propagation against independent implementations: igraph's PRPACK, NetworkX, scikit-network, dense solves."""

from __future__ import annotations

import igraph
import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.sparse import csr_matrix

from aeg import Operator, Seeds
from aeg.propagation import make, search
from aeg.propagation.base import Context
from aeg.propagation.contract import sample_graph, sample_seeds


def random_graph(seed: int, nodes: int, density: float, components: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges with parallels and self-loops, isolated nodes, several components, weights over six orders."""
    rng = np.random.default_rng(seed)
    count = int(density * nodes)
    group = rng.integers(0, components, nodes)
    group[rng.random(nodes) < 0.15] = -1  # isolated
    live = np.flatnonzero(group >= 0)
    if not len(live):
        return np.zeros((2, 0), dtype=np.int64), np.zeros(0)
    left = rng.choice(live, count)
    right = np.array([rng.choice(live[group[live] == group[node]]) for node in left])
    index = np.stack([left, right])
    weight = (10.0 ** rng.uniform(-3, 3, count)).astype(np.float32).astype(np.float64)
    parallel = rng.integers(0, count, count // 5)
    return np.concatenate([index, index[:, parallel]], axis=1), np.concatenate([weight, weight[parallel]])


graphs = st.builds(
    random_graph,
    seed=st.integers(0, 10_000),
    nodes=st.integers(2, 60),
    density=st.floats(0.5, 4.0),
    components=st.integers(1, 4),
)


def seeds_with_isolated(op: Operator, seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    seeds = np.zeros((op.num_nodes, 3), dtype=np.float32)
    for column in range(3):
        chosen = rng.integers(0, op.num_nodes, 3)
        seeds[chosen, column] = rng.random(3) + 0.1
    isolated = op.isolated.nonzero()
    if len(isolated):
        seeds[int(isolated[0]), 0] += 0.5
    return torch.from_numpy(seeds / seeds.sum(0))


def operator_of(graph: tuple[np.ndarray, np.ndarray], nodes: int) -> Operator:
    index, weight = graph
    return Operator.from_edges(nodes, torch.from_numpy(index), torch.from_numpy(weight))


def prpack(op: Operator, seeds: torch.Tensor, restart: float) -> np.ndarray:
    coo = op.scipy().tocoo()
    upper = coo.row < coo.col
    graph = igraph.Graph(op.num_nodes, list(zip(coo.row[upper], coo.col[upper], strict=True)))
    columns = [
        graph.personalized_pagerank(
            damping=1 - restart,
            reset=seeds[:, i].double().tolist(),
            weights=coo.data[upper].tolist(),
            implementation="prpack",
            directed=False,
        )
        for i in range(seeds.shape[1])
    ]
    return np.array(columns).T


def l1(got: torch.Tensor, expected: np.ndarray) -> float:
    return float(np.abs(got.double().numpy() - expected).sum(0).max())


@settings(max_examples=40, deadline=None)
@given(graph=graphs, seed=st.integers(0, 100), restart=st.sampled_from([0.05, 0.1, 0.3, 0.7]))
def test_ppr_agrees_with_prpack_and_a_dense_solve(graph, seed, restart):
    nodes = int(graph[0].max(initial=1)) + 3
    op = operator_of(graph, nodes)
    seeds = seeds_with_isolated(op, seed)
    method = make("ppr", restart=restart, tol=1e-7)
    scores, info = method(op, seeds)
    assert bool(info.converged.all())
    assert l1(scores, method.reference(op.scipy().toarray(), seeds.double().numpy())) <= 1e-6
    assert l1(scores, prpack(op, seeds, restart)) <= 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_ppr_agrees_with_networkx(seed):
    graph = random_graph(seed, 30, 2.0, 2)
    op = operator_of(graph, 33)
    seeds = seeds_with_isolated(op, seed)
    scores, _ = make("ppr", restart=0.3, tol=1e-7)(op, seeds)
    other = nx.from_scipy_sparse_array(op.scipy())
    for column in range(seeds.shape[1]):
        reset = dict(enumerate(seeds[:, column].double().tolist()))
        expected = nx.pagerank(other, alpha=0.7, personalization=reset, tol=1e-14, max_iter=10_000, dangling=reset)
        assert l1(scores[:, [column]], np.array([[expected[node]] for node in range(op.num_nodes)])) <= 1e-6


def test_ppr_agrees_with_scikit_network_on_a_connected_graph():
    from sknetwork.ranking import PageRank

    rng = np.random.default_rng(0)
    ring = np.stack([np.arange(40), (np.arange(40) + 1) % 40])
    index = np.concatenate([ring, rng.integers(0, 40, (2, 60))], axis=1)
    op = Operator.from_edges(40, torch.from_numpy(index), torch.from_numpy(rng.random(100) + 0.1))
    scores, _ = make("ppr", restart=0.2, tol=1e-8)(op, torch.eye(40)[:, :3])
    for node in range(3):
        ranker = PageRank(damping_factor=0.8, solver="piteration", n_iter=500, tol=1e-14)
        expected = ranker.fit_predict(csr_matrix(op.scipy()), weights={node: 1.0})
        assert l1(scores[:, [node]], expected[:, None]) <= 1e-6


def test_isolated_seeds_scenario_5():
    op = Operator.from_edges(4, torch.tensor([[0, 1], [1, 2]]))
    scores, _ = make("ppr", restart=0.5, tol=1e-7)(op, torch.tensor([[0.5], [0.0], [0.0], [0.5]]))
    assert scores.squeeze().tolist() == pytest.approx([7 / 18, 2 / 9, 1 / 18, 1 / 3], abs=1e-6)


def test_ppr_core_is_linear_in_signed_columns():
    op = sample_graph()
    method = make("ppr", tol=1e-8)
    seeds = sample_seeds(op, 2)
    core, _ = method.core(op, seeds)
    difference, _ = method.core(op, seeds[:, :1] - 2 * seeds[:, 1:])
    assert torch.allclose(difference, core[:, :1] - 2 * core[:, 1:], atol=1e-6)


def test_ppr_reports_a_column_that_does_not_converge():
    scores, info = make("ppr", restart=0.01, tol=1e-9, max_iter=8)(sample_graph(), sample_seeds(sample_graph()))
    assert not bool(info.converged.any())
    assert bool((info.residual > 1e-9).all())
    assert info.iterations.tolist() == [8] * 8
    assert bool(torch.isfinite(scores).all())


def test_chebyshev_needs_fewer_steps_than_power_iteration():
    op, seeds = sample_graph(), sample_seeds(sample_graph())
    quick = make("ppr", restart=0.1, tol=1e-6)(op, seeds)[1].iterations.max()
    slow = make("power_iteration", restart=0.1, tol=1e-6, num_iter=1000)(op, seeds)[1].iterations.max()
    assert 2 * int(quick) < int(slow)


def test_katz_closed_form():
    op, seeds = sample_graph(), sample_seeds(sample_graph())
    weights = op.scipy().toarray()
    top = np.linalg.eigvalsh(weights)[-1]
    assert op.lambda_max == pytest.approx(top, rel=1e-9)
    attenuated = 0.8 / top * weights
    inverse = np.linalg.inv(np.eye(len(weights)) - attenuated)
    expected = (inverse - np.eye(len(weights))) @ seeds.double().numpy()
    scores, _ = make("katz", attenuation=0.8, tol=1e-8)(op, seeds)
    assert l1(scores, expected) <= 1e-6


def test_label_propagation_dense_solve():
    op, seeds = sample_graph(), sample_seeds(sample_graph())
    weights = op.scipy().toarray()
    degree = weights.sum(0)
    root = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    symmetric = root[:, None] * weights * root
    expected = 0.3 * np.linalg.inv(np.eye(len(weights)) - 0.7 * symmetric) @ seeds.double().numpy()
    scores, _ = make("label_propagation", gamma=0.7, tol=1e-8)(op, seeds)
    assert l1(scores, expected) <= 1e-6


@pytest.mark.parametrize("t", [0.5, 3.0, 40.0])
def test_heat_kernel_matrix_exponential(t):
    op, seeds = sample_graph(), sample_seeds(sample_graph())
    weights = op.scipy().toarray()
    degree = weights.sum(0)
    transition = np.divide(weights, degree, out=np.diag((degree == 0).astype(float)), where=degree > 0)
    expected = expm(-t * (np.eye(len(weights)) - transition)) @ seeds.double().numpy()
    scores, _ = make("heat_kernel", t=t)(op, seeds)
    assert l1(scores, expected) <= 5e-6


def test_rwr_expectation_within_four_standard_errors():
    op, seeds = sample_graph(), sample_seeds(sample_graph())
    method = make("rwr", restart=0.3, num_walks=1000, walk_length=10)
    expected = method.reference(op.scipy().toarray(), seeds.double().numpy())
    runs = np.stack([method(op, seeds, Context(seed=i))[0].double().numpy() for i in range(50)])
    error = np.abs(runs.mean(0) - expected)
    assert (error <= 4 * runs.std(0, ddof=1) / np.sqrt(50) + 1e-5).all()


def test_rwr_draws_from_the_query_s_key_not_from_its_place():
    op = sample_graph()
    seeds = Seeds.from_lists(op.num_nodes, [[(0, 1.0)], [(0, 1.0)], [(1, 1.0)]])
    keyed = Seeds(seeds.num_nodes, seeds.ptr, seeds.nodes, seeds.weights, keys=torch.tensor([5, 6, 5]))
    scores, _ = make("rwr")(op, keyed)
    assert not torch.equal(scores[:, 0], scores[:, 1])
    alone = Seeds(seeds.num_nodes, torch.tensor([0, 1]), seeds.nodes[:1], seeds.weights[:1], keys=torch.tensor([6]))
    assert torch.equal(make("rwr")(op, alone)[0][:, 0], scores[:, 1])


@given(graphs, st.integers(0, 1000))
@settings(max_examples=30)
def test_rwr_walks_the_same_compiled_and_vectorised(graph, seed):
    nodes = 60
    op = Operator.from_edges(nodes, torch.from_numpy(graph[0]), torch.from_numpy(graph[1]))
    generator = torch.Generator().manual_seed(seed)
    seeds = torch.rand(nodes, 7, generator=generator)
    seeds[torch.rand(nodes, 7, generator=generator) < 0.7] = 0
    seeds[:, 3] = 0
    method = make("rwr", num_walks=50)
    one, other = (method(op.using(kernel), seeds, Context(seed=seed))[0] for kernel in ("numba", "torch"))
    assert torch.equal(one, other)
    assert (one[:, 3] == 0).all()


def test_weighted_bfs_reaches_no_further_than_its_hops():
    path = Operator.from_edges(6, torch.stack([torch.arange(5), torch.arange(1, 6)]))
    scores, _ = make("weighted_bfs", hops=3, decay=0.5)(path, torch.eye(6)[:, :1])
    assert (scores.squeeze() > 0).tolist() == [True] * 4 + [False] * 2


def test_search_equals_sorting_the_scores():
    op, seeds = sample_graph(), sample_seeds(sample_graph(), 40)
    rows, values, info = search(make("ppr"), op, seeds, k=5, num_candidates=20)
    scores, _ = make("ppr")(op, seeds)
    best = scores[:20].T.sort(1, descending=True)
    assert torch.equal(values[values > 0], best.values[:, :5][values > 0])
    assert rows.shape == (40, 5)
    assert len(info.converged) == 40


def test_seeds_of_the_wrong_size_are_an_error():
    from aeg.errors import DataError

    with pytest.raises(DataError, match=r"shape \(3, 1\), expected \[nodes, queries\] with 60 nodes"):
        make("ppr")(sample_graph(), torch.ones(3, 1))
    with pytest.raises(DataError, match="60 nodes"):
        make("ppr")(sample_graph(), torch.ones(60))


def test_no_queries_give_no_scores():
    scores, info = make("ppr")(sample_graph(), torch.zeros(60, 0))
    assert scores.shape == (60, 0)
    assert len(info.converged) == 0
    rows, _, _ = search(make("ppr"), sample_graph(), torch.zeros(60, 0), k=3)
    assert rows.shape == (0, 3)

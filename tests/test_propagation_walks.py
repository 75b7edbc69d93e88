"""Random walks and weighted BFS query by query: the compiled ways against torch's, whatever the seeds and the tile."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from aeg import Operator, Seeds
from aeg.propagation import make, weighted_bfs
from aeg.propagation.base import Context

NODES = 9000  # enough for another order of the nodes inside


def graph(nodes: int = NODES, edges: int = 20_000, hub: int = 0) -> Operator:
    """Isolated nodes, weights over six orders, and node 7 with `hub` neighbours."""
    rng = np.random.default_rng(1)
    index = rng.integers(0, nodes - nodes // 10, (2, edges))
    index[0, :hub], index[1, :hub] = 7, rng.permutation(nodes - nodes // 10)[:hub]
    weight = 10.0 ** rng.uniform(-3, 3, edges)
    return Operator.from_edges(nodes, torch.from_numpy(index), torch.from_numpy(weight))


def columns(nodes: int, counts: list[int]) -> Tensor:
    """Seeds of sum 1 on so many nodes a query, [nodes, queries]."""
    rng = np.random.default_rng(2)
    seeds = np.zeros((nodes, len(counts)), dtype=np.float32)
    for query, count in enumerate(counts):
        seeds[rng.choice(nodes, count, replace=False), query] = rng.random(count) + 0.1
    return torch.from_numpy(seeds / np.maximum(seeds.sum(0), 1e-9))


def sparse(seeds: Tensor, keys: bool = True) -> Seeds:
    """The same as `Seeds`, each seed in two halves."""
    query, node = seeds.T.nonzero(as_tuple=True)
    ptr = torch.zeros(seeds.shape[1] + 1, dtype=torch.int64)
    ptr[1:] = 2 * (seeds > 0).sum(0).cumsum(0)
    halves = (seeds[node, query] / 2).repeat_interleave(2)
    made = torch.arange(seeds.shape[1]) if keys else None
    return Seeds(len(seeds), ptr, node.repeat_interleave(2), halves, keys=made)


MIXED = [1, 3, 40, 400, 8999, 9000, 0, 5, 2000, 60]


@pytest.mark.parametrize("few", [0, 50, NODES])
@pytest.mark.parametrize("hops", [1, 3, 60])
def test_bfs_gives_what_products_give(monkeypatch, few, hops):
    monkeypatch.setattr(weighted_bfs, "FEW", few)
    op, seeds, method = graph(), columns(NODES, MIXED), make("weighted_bfs", hops=hops)
    expected, _ = method(op.using("torch"), seeds)
    for given in (seeds, sparse(seeds)):
        scores, info = method(op, given)
        assert torch.equal(scores > 0, expected > 0)
        assert float((scores - expected).abs().sum(0).max()) < 1e-6
        assert info.flags["zero_seeds"].tolist() == [count == 0 for count in MIXED]


@pytest.mark.parametrize("width", [1, 3, 8, 32, 100, 300])
def test_bfs_over_a_tile_of_any_width(monkeypatch, width):
    monkeypatch.setattr(weighted_bfs, "FEW", 0)
    op, seeds, method = graph(500, 900), columns(500, [1, 3, 40, 400, 500, 0, 5]), make("weighted_bfs", hops=5)
    expected, _ = method(op.using("torch"), seeds)
    scores, _ = method(op, seeds, Context(tile=width))
    assert torch.equal(scores > 0, expected > 0)
    assert float((scores - expected).abs().sum(0).max()) < 1e-6


@pytest.mark.parametrize("few", [0, 50])
def test_bfs_of_a_query_is_the_same_whatever_stands_beside_it(monkeypatch, few):
    monkeypatch.setattr(weighted_bfs, "FEW", few)
    op, seeds, method = graph(), columns(NODES, MIXED), make("weighted_bfs", hops=4)
    together, _ = method(op, seeds, Context(tile=16))
    for query in range(len(MIXED)):
        assert torch.equal(method(op, seeds[:, [query]], Context(tile=16))[0][:, 0], together[:, query])


def test_bfs_does_not_depend_on_which_rows_are_looked_at(monkeypatch):
    op, seeds, method = graph(), columns(NODES, [300, 900, 3000, 8000]), make("weighted_bfs")
    found = []
    for near in (0, 4, 10**9):  # always marked, chosen, never
        monkeypatch.setattr(weighted_bfs, "_NEAR", near)
        found.append(method(op, seeds)[0])
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("name", ["weighted_bfs", "rwr"])
def test_threads_change_nothing(name):
    op, seeds = graph(), columns(NODES, MIXED)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found += [make(name)(op, given)[0] for given in (seeds, sparse(seeds))]
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[0], found[4])
    assert torch.equal(found[1], found[3])
    assert torch.equal(found[1], found[5])


@pytest.mark.parametrize("hub", [0, 5000])
@pytest.mark.parametrize("keyed", [True, False])
def test_walks_are_the_same_compiled_and_vectorised(hub, keyed):
    op, seeds = graph(hub=hub), columns(NODES, MIXED)
    seeds[7] += 0.05  # many walks start at the hub
    method, context = make("rwr", restart=0.2), Context(seed=5, tile=4)
    given = sparse(seeds, keys=keyed) if keyed else seeds
    scores, info = method(op, given, context)
    assert torch.equal(scores, method(op.using("torch"), given, context)[0])
    assert info.iterations.tolist() == [method.walk_length] * len(MIXED)


def test_walks_from_sparse_seeds_are_those_from_columns():
    op, seeds = graph(), columns(NODES, MIXED)
    method = make("rwr")
    assert torch.equal(method(op, sparse(seeds, keys=False))[0], method(op, seeds)[0])
    wide = Context(tile=3)
    assert torch.equal(method(op, sparse(seeds), wide)[0], method(op, sparse(seeds))[0])


def test_walks_begin_at_seeds_only():
    op = Operator.from_edges(NODES, torch.zeros(2, 0, dtype=torch.int64))
    seeds = columns(NODES, [1, 5000])
    scores, _ = make("rwr", num_walks=3000, walk_length=3)(op, seeds)
    assert bool((scores[seeds == 0] == 0).all())
    assert scores.sum(0).tolist() == pytest.approx([1, 1], abs=1e-5)
    assert float((scores[:, 1] > 0).sum()) > 3000


@pytest.mark.parametrize("name", ["weighted_bfs", "rwr"])
def test_odd_sparse_seeds(name):
    op, method = graph(), make(name)
    lists = [[(3, 1.0)], [], [(4, float("nan"))], [(5, 2.0), (6, -1.0)], [(3, 2.0), (4, 0.0)], [(8999, 1.0)]]
    seeds = Seeds.from_lists(NODES, lists)
    scores, info = method(op, seeds)
    assert info.flags["bad_seeds"].tolist() == [False, False, True, True, False, False]
    assert info.flags["zero_seeds"].tolist() == [False, True, True, True, False, False]
    assert bool((scores[:, 1:4] == 0).all())
    assert torch.equal(scores[:, 0], scores[:, 4])
    isolated = torch.zeros(NODES)
    isolated[8999] = 1
    assert torch.allclose(scores[:, 5], isolated)
    parts = list(method.tiles(op, seeds, rows=10))
    assert torch.equal(torch.cat([part for _, part, _ in parts], 1), scores[:10])
    assert list(method.tiles(op, Seeds.from_lists(NODES, []))) == []


def test_odd_columns_of_dense_seeds_are_flagged():
    op, seeds = graph(), columns(NODES, [5000] * 6)
    expected, _ = make("rwr")(op, seeds)
    for query, value in enumerate((float("nan"), float("inf"), -1.0)):
        seeds[11, query] = value
    seeds[:, 3] = 0
    scores, info = make("rwr")(op, seeds)
    assert info.flags["bad_seeds"].tolist() == [True] * 3 + [False] * 3
    assert info.flags["zero_seeds"].tolist() == [True] * 4 + [False] * 2
    assert bool((scores[:, :4] == 0).all())
    assert torch.equal(scores[:, 4:], expected[:, 4:])

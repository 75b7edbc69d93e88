"""Resonance chains: held against walks that are enumerated one by one, and against the methods' own references."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.core.operator import Operator
from aeg.errors import ConfigError, DataError
from aeg.explain import walk_account
from aeg.propagation import make
from aeg.propagation.base import Propagation
from aeg.retrieval.chains import Walks, heaviest_chains, resonance, walk_sums

LONGEST = 8
METHODS = {
    "ppr": {"restart": 0.3},
    "power_iteration": {"restart": 0.2, "num_iter": 6},
    "rwr": {"restart": 0.3, "walk_length": 5},
    "katz": {"attenuation": 0.6},
    "label_propagation": {"gamma": 0.6},
    "weighted_bfs": {"decay": 0.7},
    "heat_kernel": {"t": 2.0},
    "none": {},
}


@st.composite
def worlds(draw) -> tuple[Operator, np.ndarray, torch.Tensor]:
    """A small graph, its dense weights, and seeds; isolated nodes and several components among them."""
    nodes = draw(st.integers(2, 5))
    pairs = [(u, v) for u in range(nodes) for v in range(u + 1, nodes)]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=0, max_size=6, unique=True))
    weights = draw(st.lists(st.sampled_from([0.25, 1.0, 1.5, 3.0]), min_size=len(chosen), max_size=len(chosen)))
    index = torch.tensor(chosen, dtype=torch.int64).reshape(-1, 2).T
    op = Operator.from_edges(nodes, index, torch.tensor(weights))
    seeds = draw(st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0]), min_size=nodes, max_size=nodes))
    return op, op.scipy().toarray(), torch.tensor(seeds)


def step_matrix(walks: Walks, weights: np.ndarray) -> np.ndarray:
    """M[u, v] as the definition has it."""
    degree = weights.sum(0)
    some = np.where(degree > 0, degree, 1.0)
    if walks.step == "transition":
        matrix = weights / some[:, None]
    elif walks.step == "symmetric":
        matrix = weights / np.sqrt(some[:, None] * some[None, :])
    else:
        matrix = weights.copy()
    if walks.levels is not None:
        level = walks.levels.numpy()
        matrix = matrix * (level[None, :] == level[:, None] + 1)
    return matrix


def enumerated(walks: Walks, matrix: np.ndarray, seeds: np.ndarray, target: int) -> dict[tuple[int, ...], float]:
    """The mass of every walk of at most LONGEST steps into a node, one by one."""
    found: dict[tuple[int, ...], float] = {}

    def go(nodes: tuple[int, ...], product: float) -> None:
        mass = walks.scale * walks.weight(len(nodes) - 1) * product
        if nodes[-1] == target and mass > 0:
            found[nodes] = mass
        if len(nodes) <= LONGEST:
            for after in np.flatnonzero(matrix[nodes[-1]]):
                go((*nodes, int(after)), product * matrix[nodes[-1], after])

    for start in np.flatnonzero(seeds):
        go((int(start),), float(seeds[start]))
    return found


def normalised(seeds: torch.Tensor) -> np.ndarray:
    values = seeds.numpy().astype(np.float64)
    return values / values.sum() if values.sum() > 0 else values


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=25)
@given(world=worlds(), data=st.data())
def test_chains_are_the_heaviest_of_all_walks(name, world, data):
    op, weights, seeds = world
    method = make(name, **METHODS[name])
    walks = walk_account(method, op, torch.from_numpy(normalised(seeds)))
    target, k = data.draw(st.integers(0, op.num_nodes - 1)), data.draw(st.integers(1, 6))
    pi = normalised(seeds)
    if weights[target].sum() == 0:  # an isolated node has its own seed only, whatever the method makes of it
        found = heaviest_chains(op, walks, seeds, [target], k)[0]
        score = method.reference(weights, pi[:, None])[target, 0]
        assert found.mass == pytest.approx(score, abs=1e-6)
        return
    every = enumerated(walks, step_matrix(walks, weights), pi, target)
    for simple in (False, True):
        ranked = sorted(
            (mass for nodes, mass in every.items() if not simple or len(set(nodes)) == len(nodes)), reverse=True
        )
        found = heaviest_chains(op, walks, seeds, [target], k, simple)[0]
        short = [chain for chain in found.chains if chain.length <= LONGEST]
        assert found.complete
        assert [chain.mass for chain in found.chains] == sorted((c.mass for c in found.chains), reverse=True)
        assert [chain.mass for chain in short] == pytest.approx(ranked[: len(short)], rel=1e-9)
        assert len(short) == len(found.chains) or len(short) >= sum(m > found.chains[-1].mass * 1.001 for m in ranked)
        if len(found.chains) < k:
            assert len(short) == len(ranked)
        assert len({chain.nodes for chain in found.chains}) == len(found.chains)
        for chain in short:
            assert chain.mass == pytest.approx(every[chain.nodes], rel=1e-9)
            product = walks.scale * walks.weight(chain.length) * chain.seed * np.prod(chain.factors)
            assert chain.mass == pytest.approx(product, rel=1e-9)


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=25)
@given(world=worlds())
def test_all_walks_and_a_bounded_tail_are_the_score(name, world):
    op, weights, seeds = world
    method = make(name, **METHODS[name])
    pi = normalised(seeds)
    walks = walk_account(method, op, torch.from_numpy(pi))
    nodes = list(range(op.num_nodes))
    scores = method.reference(weights, pi[:, None])[:, 0]
    for found in walk_sums(op, walks, seeds, nodes, tolerance=1e-8):
        assert found.mass == pytest.approx(scores[found.node], abs=2e-6)
        assert found.mass - 2e-6 <= scores[found.node] <= found.mass + found.tail + 2e-6
        assert sum(mass for _, mass in found.seeds) == pytest.approx(found.mass, abs=1e-12)
    for found in walk_sums(op, walks, seeds, nodes, tolerance=0.0, max_length=LONGEST):
        if weights[found.node].sum() == 0:
            continue
        every = enumerated(walks, step_matrix(walks, weights), pi, found.node)
        assert found.mass == pytest.approx(sum(every.values()), rel=1e-9, abs=1e-12)
        assert sum(every.values()) <= scores[found.node] + 2e-6
        assert scores[found.node] <= sum(every.values()) + found.tail + 2e-6


@pytest.mark.parametrize("name", ["ppr", "katz", "label_propagation", "power_iteration", "heat_kernel"])
def test_sums_are_the_scores_that_the_method_itself_gives(name):
    rng = np.random.default_rng(0)
    index = torch.from_numpy(rng.integers(0, 300, (2, 900)))
    op = Operator.from_edges(320, index)  # nodes from 300 on are isolated
    seeds = torch.zeros(320)
    seeds[[3, 17, 310]] = torch.tensor([0.5, 0.3, 0.2])
    method = make(name, **METHODS[name])
    scores, info = method(op, seeds.unsqueeze(1))
    walks = walk_account(method, op, seeds, int(info.iterations[0]))
    top = scores[:, 0].argsort(descending=True)[:20].tolist()
    for found in resonance(op, walks, seeds, top, k=3):
        assert found.walks.mass == pytest.approx(float(scores[found.found.node, 0]), rel=2e-3)
        assert 0 < found.covered <= 1
        assert sum(found.share(chain) for chain in found.found.chains) == pytest.approx(found.covered)


def test_a_power_iteration_that_stopped_early_is_told_by_its_steps():
    op = Operator.from_edges(5, torch.tensor([[0, 1, 2, 0], [1, 2, 3, 2]]))
    seeds = torch.tensor([0.6, 0.0, 0.0, 0.0, 0.4])
    method = make("power_iteration", restart=0.3, num_iter=50, tol=1e-2)
    scores, info = method(op, seeds.unsqueeze(1))
    steps = int(info.iterations[0])
    assert steps < 50
    walks = walk_account(method, op, seeds, steps)
    assert len(walks.weights) == steps + 1
    sums = [found.mass for found in walk_sums(op, walks, seeds, range(5), 1e-9)]
    assert sums == pytest.approx(scores[:, 0].tolist(), abs=1e-6)


def test_simple_chains_leave_out_walks_that_return():
    op = Operator.from_edges(3, torch.tensor([[0, 0], [1, 2]]))
    walks, seeds = Walks("transition", (0.1,), 0.9), torch.tensor([1.0, 0.0, 0.0])
    assert [c.nodes for c in heaviest_chains(op, walks, seeds, [1], 5, simple=True)[0].chains] == [(0, 1)]
    echo = heaviest_chains(op, walks, seeds, [1], 3)[0].chains
    assert [c.nodes for c in echo][:1] == [(0, 1)]
    assert {c.nodes for c in echo[1:]} == {(0, 1, 0, 1), (0, 2, 0, 1)}


def test_a_long_chain_is_found_without_a_limit_on_length():
    length = 3000
    line = torch.arange(length)
    op = Operator.from_edges(length + 1, torch.stack([line, line + 1]))
    seeds = torch.zeros(length + 1)
    seeds[0] = 1
    found = heaviest_chains(op, Walks("transition", (0.001,), 0.999), seeds, [100], 1)[0]
    assert found.chains[0].nodes == tuple(range(101))
    assert found.complete


def test_a_search_that_is_cut_off_says_so():
    side = 12
    grid = [(r * side + c, r * side + c + d) for r in range(side) for c in range(side - 1) for d in (1,)]
    grid += [(r * side + c, (r + 1) * side + c) for r in range(side - 1) for c in range(side)]
    op = Operator.from_edges(side * side, torch.tensor(grid).T)
    seeds = torch.zeros(side * side)
    seeds[0] = 1
    walks = Walks("transition", (0.1,), 0.9)
    assert not heaviest_chains(op, walks, seeds, [side * side - 1], 500, limit=100)[0].complete
    assert heaviest_chains(op, walks, seeds, [side * side - 1], 3, limit=10_000)[0].complete


def test_equal_chains_come_in_the_same_order_every_time():
    op = Operator.from_edges(12, torch.tensor([[0] * 10 + [11] * 10, [*range(1, 11)] * 2]))
    seeds = torch.zeros(12)
    seeds[0] = 1
    walks = Walks("transition", (0.3,), 0.7)
    first, second = (heaviest_chains(op, walks, seeds, [11], 4)[0].chains for _ in range(2))
    assert first == second
    assert [chain.nodes for chain in first] == [(0, middle, 11) for middle in (1, 2, 3, 4)]


def test_nothing_reaches_a_node_without_a_path_or_seeds():
    op = Operator.from_edges(5, torch.tensor([[0, 2], [1, 3]]))
    walks = Walks("transition", (0.3,), 0.7)
    assert heaviest_chains(op, walks, torch.tensor([1.0, 0, 0, 0, 0]), [2, 4]) == [
        type(c)(c.node, ()) for c in heaviest_chains(op, walks, torch.zeros(5), [2, 4])
    ]
    found = resonance(op, walks, torch.zeros(5), [0])[0]
    assert (found.walks.mass, found.covered) == (0.0, 0.0)


def test_wrong_input_is_refused_with_what_was_expected():
    op = Operator.from_edges(3, torch.tensor([[0], [1]]))
    walks = Walks("transition", (0.3,), 0.7)
    with pytest.raises(DataError, match="got node 7, expected 0 to 2"):
        heaviest_chains(op, walks, torch.ones(3), [7])
    with pytest.raises(DataError, match="seeds of shape"):
        walk_sums(op, walks, torch.ones(4), [0])
    with pytest.raises(DataError, match="negative or not finite"):
        heaviest_chains(op, walks, torch.tensor([1.0, float("nan"), 0.0]), [0])
    with pytest.raises(ConfigError, match="expected one of transition"):
        Walks("steps", (1.0,))


def test_a_method_without_an_account_says_which_have_one_and_may_register():
    class Own(Propagation):
        def propagate(self, op, seeds, context):
            raise NotImplementedError

        def reference(self, weights, seeds):
            raise NotImplementedError

    op = Operator.from_edges(2, torch.tensor([[0], [1]]))
    with pytest.raises(ConfigError, match=r"Own has no account.*HeatKernel.*PPR"):
        walk_account(Own(), op, torch.tensor([1.0, 0.0]))

    @walk_account.register(Own)
    def _own(method: Own, op: Operator, seeds: torch.Tensor, iterations: int | None = None) -> Walks:
        return Walks("transition", (1.0,))

    assert walk_account(Own(), op, torch.tensor([1.0, 0.0])).weights == (1.0,)

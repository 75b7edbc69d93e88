"""The engines of PPR against float64 solves: errors as reported, guarantees, choices; the stop rule on the ranking."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from aeg.core.operator import Operator
from aeg.core.seeds import DenseSeeds, Seeds
from aeg.errors import DataError
from aeg.propagation import Context, Info, engines, make, search, walk_system
from aeg.propagation.contract import outcomes, sample_graph, sample_seeds
from aeg.propagation.folded import Folded
from aeg.propagation.ppr import PPR
from aeg.propagation.push import suits
from aeg.propagation.ranking_rule import RankingRule

pytestmark = pytest.mark.usefixtures("graph_size")
ATOMS = 80
ENGINES = ("iterate", "folded", "push")
KERNELS = ("torch", "numba")
ROUNDING = 2e-7


def graph() -> Operator:
    return sample_graph(nodes=200, edges=500)


def as_seeds(columns: Tensor) -> Seeds:
    lists = []
    for column in columns.T.tolist():
        lists.append([(row, weight) for row, weight in enumerate(column) if weight != 0])
    return Seeds.from_lists(len(columns), lists)


def dense_seeds(queries: int = 30, seed: int = 0, nodes: int = 200) -> Seeds:
    """Seeds on all atoms, least similar 0, and two entities a query."""
    generator = torch.Generator().manual_seed(seed)
    unit = torch.nn.functional.normalize
    atoms = unit(torch.randn(ATOMS, 16, generator=torch.Generator().manual_seed(7)), dim=1)
    vectors = unit(torch.randn(queries, 16, generator=generator), dim=1)
    similarity = atoms @ vectors.T
    low, high = similarity.amin(0), similarity.amax(0)
    scale = 0.1 / (high - low)
    entities = torch.randint(ATOMS, nodes, (queries, 2), generator=generator).tolist()
    sparse = Seeds.from_lists(nodes, [[(a, 0.5), (b, 0.7)] for a, b in entities])
    return Seeds(
        nodes, sparse.ptr, sparse.nodes, sparse.weights, DenseSeeds(atoms, vectors, scale, -low * scale, clipped=False)
    )


def exact(method: PPR, op: Operator, columns: Tensor) -> Tensor:
    columns = columns.double()
    columns = columns / columns.sum(0)
    return torch.from_numpy(method.reference(op.scipy().toarray(), columns.numpy()))


def l1(scores: Tensor, expected: Tensor) -> Tensor:
    return (scores.double() - expected).abs().sum(0)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_error_is_at_most_what_is_reported(engine, tol, kernel):
    op, columns = graph().using(kernel), sample_seeds(graph(), 20)
    method = make("ppr", restart=0.2, engine=engine, tol=tol)
    scores, info = method(op, as_seeds(columns))
    assert info.engine == engine
    assert bool(info.converged.all())
    assert float(info.residual[1:].max()) <= tol  # the first column seeds an isolated node, whose mass is scaled up
    error = l1(scores, exact(method, op, columns))
    bound = info.residual
    if engine == "iterate":  # what is reported is the error before the column is scaled by its own, inexact, sum
        bound = 2 * bound / (1 - 0.8 * columns[op.isolated].sum(0).double())
    assert bool((error <= bound + ROUNDING).all())
    assert float(error.max()) > tol / 1e4  # not solved far beyond what was asked


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_the_error_of_the_core_is_at_most_what_is_reported(tol, kernel):
    op = graph().using(kernel)
    signed = sample_seeds(op, 8) - 0.5 * sample_seeds(op, 8, seed=1)
    core, info = make("ppr", restart=0.2, tol=tol).core(op, signed)
    weights = op.scipy().toarray()
    degree = weights.sum(0)
    transition = weights / np.where(degree > 0, degree, 1)
    expected = np.linalg.solve(np.eye(200) - 0.8 * transition, 0.2 * signed.double().numpy())
    error = l1(core, torch.from_numpy(expected))
    assert bool((error <= info.residual + ROUNDING).all())
    assert bool((info.residual <= tol).all())


@pytest.mark.parametrize("nodes", [200, 150])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("engine", ["iterate", "folded"])
def test_seeds_on_all_atoms(engine, tol, nodes):
    op, seeds = sample_graph(nodes=nodes, edges=500), dense_seeds(nodes=nodes)
    assert bool(op.isolated[:ATOMS].any()) == (nodes == 150)
    method = make("ppr", engine=engine, tol=tol)
    scores, info = method(op, seeds)
    assert info.engine == engine
    assert bool((info.residual <= tol).all())
    assert bool(info.converged.all())
    error, factor = l1(scores, exact(method, op, seeds.tile(0, 30))), 2.2 if engine == "iterate" else 1
    assert bool((error <= factor * info.residual + ROUNDING).all())
    assert torch.allclose(scores.sum(0), torch.ones(30), atol=1e-5 if engine == "iterate" else max(tol, 1e-5))


@pytest.mark.parametrize("engine", ENGINES)
def test_only_the_first_rows(engine):
    op, seeds = graph(), as_seeds(sample_seeds(graph(), 5))
    method = make("ppr", engine=engine, tol=1e-6)
    whole, _ = method(op, seeds)
    parts = [scores for _, scores, _ in method.tiles(op, seeds, rows=50)]
    assert float((torch.cat(parts, 1) - whole[:50]).abs().max()) <= 2e-6
    rows, values, info = search(method, op, seeds, 3, 50)
    assert info.engine == engine
    assert torch.allclose(values, whole[:50].T.sort(1, descending=True).values[:, :3], atol=2e-6)
    assert int(rows.max()) < 50


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("epsilon", [1e-2, 1e-4])
def test_push_misses_at_most_epsilon_times_the_degree(epsilon, kernel):
    op, columns = graph().using(kernel), sample_seeds(graph(), 12, connected=True)
    method = make("ppr", restart=0.2, engine="push", epsilon=epsilon)
    scores, info = method(op, as_seeds(columns))
    missed = exact(method, op, columns) - scores.double()
    assert float(missed.min()) >= -1e-7
    assert bool((missed <= epsilon * op.degree.unsqueeze(1) + 1e-7).all())
    assert bool((l1(scores, exact(method, op, columns)) <= info.residual + ROUNDING).all())
    assert float(missed.max()) > 0


def ring(nodes: int, seed: int = 0) -> Tensor:
    """A ring with chords, edges [2, 2 · nodes]."""
    around = torch.arange(nodes)
    chords = torch.randint(0, nodes, (nodes,), generator=torch.Generator().manual_seed(seed))
    return torch.cat([torch.stack([around, (around + 1) % nodes]), torch.stack([around, chords])], 1)


@pytest.mark.parametrize("kernel", KERNELS)
def test_push_costs_no_more_on_a_larger_graph(kernel):
    small = Operator.from_edges(300, ring(300)).using(kernel)
    large = Operator.from_edges(6300, torch.cat([ring(300), 300 + ring(6000, 1)], 1)).using(kernel)
    lists = [[(0, 1.0)], [(7, 0.5), (250, 0.5)]]
    method = make("ppr", engine="push", epsilon=1e-3)
    here, info = method(small, Seeds.from_lists(300, lists))
    there, far = method(large, Seeds.from_lists(6300, lists))
    assert torch.equal(info.iterations, far.iterations)
    assert float((here - there[:300]).abs().max()) <= 1e-7
    assert float(there[300:].max()) == 0
    assert 0 < int(info.iterations.max()) <= 1 / (1e-3 * 0.3)  # all weights are 1: degrees are numbers of edges


@pytest.mark.parametrize("engine", ["iterate", "folded"])
def test_odd_queries_among_seeds_on_all_atoms(engine):
    seeds = dense_seeds(6)
    dense = seeds.dense
    scale, offset, weights = dense.scale.clone(), dense.offset.clone(), seeds.weights.clone()
    scale[2], offset[2], weights[4:6] = 0, 0, 0  # no mass
    weights[6] = torch.nan
    weights[8] = torch.inf
    weights[10] = -0.1
    odd = Seeds(
        200, seeds.ptr, seeds.nodes, weights, DenseSeeds(dense.atoms, dense.queries, scale, offset, clipped=False)
    )
    method = make("ppr", engine=engine, tol=1e-6)
    scores, info = method(graph(), odd)
    expected, _ = method(graph(), seeds)
    assert info.flags["zero_seeds"].tolist() == [False, False, True, True, True, True]
    assert info.flags["bad_seeds"].tolist() == [False, False, False, True, True, True]
    assert float(scores[:, 2:].abs().max()) == 0
    assert torch.equal(scores[:, :2], expected[:, :2])


def test_folded_keeps_what_it_solved():
    op, method = graph(), make("ppr", engine="folded", tol=1e-4)
    first, _ = method(op, dense_seeds(6))
    (kept,) = (value for value in op.memo.values() if isinstance(value, Folded))
    columns, core = len(kept._sparse.error), kept._dense.core
    again, _ = method(op, dense_seeds(6))
    assert torch.equal(first, again)
    method(op, dense_seeds(6, seed=1))
    assert [value for value in op.memo.values() if isinstance(value, Folded)] == [kept]
    assert kept._dense.core is core
    assert columns < len(kept._sparse.error) <= columns + 12


def test_folded_refuses_other_atoms():
    op, method, seeds = graph(), make("ppr", engine="folded"), dense_seeds(3)
    method(op, seeds)
    dense = seeds.dense
    other = DenseSeeds(dense.atoms.flip(0), dense.queries, dense.scale, dense.offset, clipped=False)
    with pytest.raises(DataError, match="embeddings of other atoms than before"):
        method(op, Seeds(200, seeds.ptr, seeds.nodes, seeds.weights, other))


def test_auto_chooses_by_seeds_and_graph(monkeypatch):
    op, method = graph(), make("ppr", tol=1e-4)
    columns = sample_seeds(op, 20)
    assert method(op, columns)[1].engine == "iterate"
    assert method(op, as_seeds(columns))[1].engine == "iterate"
    assert method(op, dense_seeds(3))[1].engine == "iterate"
    assert search(method, op, dense_seeds(900), 5, ATOMS)[2].engine == "folded"
    monkeypatch.setattr(engines, "FOLDED_BYTES", 1000)
    assert search(method, op, dense_seeds(900), 5, ATOMS)[2].engine == "iterate"
    monkeypatch.setattr(engines, "PUSH_NONZEROS", 100)
    assert method(op, as_seeds(columns[:, :4]))[1].engine == "push"
    assert method(op.using("torch"), as_seeds(columns[:, :4]))[1].engine == "iterate"
    assert method(op, as_seeds(columns))[1].engine == "iterate"


def test_engines_say_which_seeds_they_take():
    op, columns = graph(), sample_seeds(graph())
    for engine in ("folded", "push"):
        with pytest.raises(DataError, match=f"engine '{engine}': got a dense tensor of seeds, expected `Seeds`"):
            make("ppr", engine=engine)(op, columns)
        with pytest.raises(DataError, match="200 nodes"):
            make("ppr", engine=engine)(op, Seeds.from_lists(3, [[(0, 1.0)]]))
    with pytest.raises(DataError, match="engine 'push': got seeds on all atoms"):
        make("ppr", engine="push")(op, dense_seeds(2))
    assert suits(as_seeds(columns))
    assert not suits(dense_seeds(2))


@dataclass(frozen=True)
class _Sparse(PPR):
    """PPR with one kernel that turns tensors into `Seeds`, as its engines want them."""

    kernel: str = "auto"

    def __call__(self, op: Operator, seeds: Tensor | Seeds, context: Context | None = None) -> tuple[Tensor, Info]:
        seeds = seeds if isinstance(seeds, Seeds) else as_seeds(seeds.cpu())
        return super().__call__(op.using(self.kernel), seeds, context)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_holds_the_contract(engine, kernel):
    failed = [(o.check, o.failure) for o in outcomes(_Sparse(engine=engine, kernel=kernel)) if o.failure]
    assert not failed


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000),
    nodes=st.integers(8, 60),
    density=st.floats(0.7, 3.0),
    k=st.integers(1, 8),
    restart=st.sampled_from([0.05, 0.3, 0.7]),
    candidates=st.sampled_from([None, 0.5]),
)
def test_the_ranking_at_the_stop_is_the_exact_one(seed, nodes, density, k, restart, candidates):
    op = sample_graph(seed, nodes, max(1, int(density * nodes)))
    columns = sample_seeds(op, 3, seed)
    method = make("ppr", restart=restart, stop="ranking", tol=1e-9)
    ranked = nodes if candidates is None else int(candidates * nodes)
    rows, _, _ = search(method, op, columns, k, ranked)
    truth = exact(method, op, columns)[:ranked]
    for query in range(3):
        found = [row for row in rows[query].tolist() if row >= 0]
        best = truth[:, query].sort(descending=True).values
        assert len(found) == min(k, int((best > 0).sum()))
        if found:
            # The k best set, up to ties (1e-7 relative) and float32's rounding of what is ranked at the end.
            assert float(truth[found, query].min()) >= float(best[len(found) - 1]) * (1 - 4e-7)


@pytest.mark.parametrize("seed", range(4))
def test_scores_that_lie_close_are_told_apart(seed):
    """On a ring with chords all scores are alike, so a rule that stops too early has the wrong nodes."""
    generator = torch.Generator().manual_seed(seed)
    op, columns = Operator.from_edges(150, ring(150, seed)), torch.zeros(150, 30)
    columns[torch.randint(0, 150, (8, 30), generator=generator), torch.arange(30)] = 1.0
    method = make("ppr", restart=0.05, stop="ranking", tol=1e-9)
    rows, _, info = search(method, op, columns, 20)
    _, _, whole = search(make("ppr", restart=0.05, tol=1e-9), op, columns, 20)
    truth = exact(method, op, columns)
    best = truth.sort(0, descending=True).values[19]
    assert bool((truth.gather(0, rows.T).amin(0) >= best * (1 - 4e-7)).all())
    assert float(info.iterations.double().mean()) < float(whole.iterations.double().mean())


@pytest.mark.parametrize("restart", [0.1, 0.5])
def test_what_the_rule_is_certain_of_is_so(restart):
    """Exact iterates with noise of many sizes: wherever the rule is certain, the noisy k best are the exact ones."""
    op, k, ranked = graph(), 5, torch.arange(120)
    system = walk_system.walk_system(op, 1 - restart, tol=1e-3)
    place = torch.arange(op.num_nodes) if system.position is None else system.position
    columns = sample_seeds(op, 40).double()
    laplacian = np.diag(op.walk_degree.numpy()) - (1 - restart) * op.scipy().toarray()
    solution = torch.from_numpy(np.linalg.solve(laplacian, columns.numpy()))
    truth = (solution * op.walk_degree.unsqueeze(1))[ranked]
    best = truth.sort(0, descending=True).values[k - 1]
    f = torch.empty_like(columns).index_copy_(0, place, columns).mul_(system.inverse.unsqueeze(1))
    equation = system.equation(f, torch.ones_like(system.diagonal))
    rule = RankingRule(k, place[ranked], system, f)
    exactly = torch.empty_like(solution).index_copy_(0, place, solution)[: system.kept]
    root = system.degree[: system.kept].sqrt().unsqueeze(1)
    generator, certain, spoiled = torch.Generator().manual_seed(0), [], []
    for size in (1e-7, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0):
        noise = torch.randn(exactly.shape, generator=generator, dtype=torch.float64)
        iterate = exactly + size * (exactly * root).mean(0) * noise / root
        sure = rule(equation, iterate)
        scores = (system.complete(iterate, f.clone())[place] * op.walk_degree.unsqueeze(1))[ranked]
        found = scores.topk(k, dim=0).indices
        right = truth.gather(0, found).amin(0) >= best * (1 - 1e-6)
        assert bool(right[sure].all())
        certain.append(float(sure.double().mean()))
        spoiled.append(float((~right).double().mean()))
    assert certain[0] > 0.5  # the rule is of use,
    assert certain == sorted(certain, reverse=True)
    assert spoiled[-1] > 0.2  # and the noise is enough to mislead a rule that does not look


def test_the_ranking_stops_earlier():
    op, columns = graph(), sample_seeds(graph(), 20)
    early = search(make("ppr", restart=0.1, stop="ranking", tol=1e-9), op, columns, 5, ATOMS)[2].iterations
    late = search(make("ppr", restart=0.1, tol=1e-9), op, columns, 5, ATOMS)[2].iterations
    assert float(early.double().mean()) < 0.6 * float(late.double().mean())
    asked_for_scores = make("ppr", restart=0.1, stop="ranking", tol=1e-9)(op, columns)[1].iterations
    assert torch.equal(asked_for_scores, late)


def test_a_tie_at_rank_k_keeps_the_walk_going():
    """Two nodes with equal scores at ranks k and k + 1 are never told apart; the tolerance ends the walk."""
    op = Operator.from_edges(5, torch.tensor([[0, 0, 0], [1, 2, 3]]))
    columns = torch.eye(5)[:, :1]
    method = make("ppr", stop="ranking", tol=1e-9)
    tied = search(method, op, columns, 2)
    assert tied[0].tolist() == [[0, 1]]
    assert float(tied[2].residual.max()) <= 1e-9
    clear = search(method, op, columns, 1)
    assert int(clear[2].iterations) < int(tied[2].iterations)


def test_dense_seeds_that_are_cut_off_at_zero_are_not_folded():
    op, seeds = sample_graph(nodes=200, edges=500), dense_seeds()
    below = dataclasses.replace(seeds.dense, offset=seeds.dense.offset - 0.05, clipped=True)
    cut = dataclasses.replace(seeds, dense=below)
    with pytest.raises(DataError, match="cut off at 0"):
        make("ppr", engine="folded")(op, cut)
    method = make("ppr", tol=1e-6)
    scores, info = method(op, cut)
    assert info.engine == "iterate"
    assert float(l1(scores, exact(method, op, cut.tile(0, cut.num_queries))).max()) < 1e-5

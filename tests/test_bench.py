"""The bench: its graphs are what they claim, its peers agree with the truth, and every part of it runs."""

from __future__ import annotations

import json

import numba
import numpy as np
import pytest
import torch
import torch_geometric.utils.ppr as pyg_ppr

from aeg.propagation import METHODS, make
from aeg.propagation.contract import sample_graph
from experiments.bench import equivalents, graphs, measure, methods, required, seeds
from experiments.bench.__main__ import BENCHES, main
from experiments.bench.contenders import SEARCH, contenders
from experiments.bench.output import Table, shown
from experiments.bench.peers import peers, pyg_push
from experiments.bench.problem import Contender, Problem, Solver
from experiments.bench.race import Finish, fastest, judged, race, times_faster
from experiments.bench.reference import Reference, agreement, agreement_of_rows, l1
from experiments.bench.shapes import SHAPES, Graph, synthetic
from experiments.bench.world import World

TABLE_6 = {  # name: nodes, entities, atoms, edges, related, synonym, containment, as printed
    "hotpotqa": (112_995, 84_592, 28_403, 479_895, 177_734, 276_577, 25_584),
    "musique": (118_218, 87_446, 30_772, 488_497, 175_794, 286_923, 25_780),
    "two_wiki": (59_782, 44_750, 15_032, 234_008, 93_446, 125_422, 15_140),
    "medical": (14_647, 9_087, 5_560, 143_919, 21_068, 99_707, 23_144),
    "novel": (59_807, 40_217, 19_590, 176_948, 75_665, 83_481, 17_802),
}
TINY = SHAPES["medical"].scaled(0.012)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return synthetic(TINY)


@pytest.fixture(params=["dense", "sparse"])
def problem(request, graph) -> Problem:
    return Problem(graph, seeds.KINDS[request.param](graph, 16), graphs.RESTART[request.param], 1e-3, sample=3)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_those_of_table_6(name):
    shape = SHAPES[name]
    counts = (shape.related, shape.synonym, shape.containment)
    assert (shape.nodes, shape.entities, shape.atoms, shape.edges, *counts) == TABLE_6[name]
    world = World(shape, np.random.default_rng(0))
    for (index, weight), count in zip((world.related(), world.synonym(), world.containment()), counts, strict=True):
        assert index.shape == (2, count)
        assert weight.shape == (count,)
        assert len(np.unique(index.min(0) * shape.nodes + index.max(0))) == count  # distinct, whichever way round
        assert (index[0] != index[1]).all()
        assert index.min() >= 0
        assert index.max() < shape.nodes
        assert weight.min() > 0
        assert index[1].min() >= shape.atoms  # entities come after atoms
        assert (index[0] < shape.atoms).all() == (count == shape.containment)


def test_a_graph_is_the_same_for_the_same_seed_and_another_for_another():
    one, again, other = synthetic(TINY), synthetic(TINY), synthetic(TINY, seed=1)
    assert torch.equal(one.op.col, again.op.col)
    assert torch.equal(one.op.weight, again.op.weight)
    assert not torch.equal(one.op.col[:50], other.op.col[:50])
    assert one.nnz == 2 * (TINY.edges - _twice(one))


def _twice(graph: Graph) -> int:
    """Pairs that are both related and synonyms, which the operator adds up."""
    related, synonym = (
        {tuple(sorted(pair)) for pair in graph.edges[name][0].T.tolist()} for name in ("relates", "synonym")
    )
    return len(related & synonym)


def test_dense_seeds_are_min_max_scaled_and_have_three_linked_entities(graph):
    part = seeds.dense(graph, 5).tile(0, 5)
    atoms, entities = part[: graph.num_atoms], part[graph.num_atoms :]
    assert atoms.amax(0).tolist() == pytest.approx([seeds.ALPHA] * 5, rel=1e-4)
    assert atoms.min() >= 0
    assert atoms.amin(0).max() < 1e-6
    assert (entities > 0).sum(0).tolist() == [3] * 5


def test_sparse_seeds_are_three_entities_and_no_two_queries_have_the_same(graph):
    found = seeds.sparse(graph, 30)
    rows = found.nodes.view(30, 3)
    assert (rows >= graph.num_atoms).all()
    assert not graph.op.isolated[found.nodes].any()
    assert len({tuple(row) for row in rows.tolist()}) == 30


@pytest.mark.parametrize("name", sorted(set(METHODS) & set(dir(Reference))))
def test_the_reference_is_that_of_the_method_by_dense_algebra(name):
    op = sample_graph()
    columns = np.random.default_rng(0).dirichlet(np.ones(op.num_nodes) * 0.1, 4).T
    method = make(name)
    weights = op.scipy().toarray()
    expected = method.reference(weights, columns)
    assert np.abs(Reference(op, 30).solve(name, columns, 0.3) - expected).max() < 1e-8


@pytest.mark.parametrize("contender", peers(quick=True), ids=lambda contender: contender.label)
def test_peers_agree_with_the_truth(contender, problem):
    problem.target = 1e-5
    mean, most, agree = judged(problem, contender.prepare(problem))
    assert most is not None
    assert mean <= most <= 1e-5
    assert agree > 0.99


def test_pyg_agrees_where_edges_weigh_the_same(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)  # compiling takes ten seconds
    monkeypatch.setattr(pyg_ppr, "_get_ppr_numba", None)
    index = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0], [1, 2, 3, 4, 5, 6, 7, 4]])
    op = type(sample_graph()).from_edges(8, index)
    problem = Problem(Graph("path", 2, {}, op), seeds.sparse(Graph("path", 2, {}, op), 4), 0.3, 1e-3, 4)
    assert l1(pyg_push(problem).scores(4), problem.truth).max() < 1e-3


@pytest.mark.parametrize("contender", contenders(), ids=lambda contender: contender.label)
def test_our_contenders_meet_the_target(contender, problem):
    if contender.takes(problem):
        _, most, agree = judged(problem, contender.prepare(problem))
        assert most is None or most <= 1e-3
        assert agree > 0.95


@pytest.mark.parametrize("name", equivalents.EQUIVALENTS)
def test_equivalents_agree_with_the_truth(name, problem):
    problem.method, problem.restart = name, 0.3
    for contender in equivalents.EQUIVALENTS[name]:
        if contender.takes(problem):
            _, most, _ = judged(problem, contender.prepare(problem))
            assert most is not None
            assert most <= (0.3 if name == "rwr" else 1.1e-3), contender.label


def test_the_fewest_steps_are_searched_not_guessed(problem):
    errors = {level: max(0.0, 1 - level / 37) for level in range(100)}
    truth = problem.truth
    wrong = np.zeros_like(truth)
    wrong[0] = 1.0
    asked = []

    def solve(level: int) -> np.ndarray:
        asked.append(level)
        return truth + errors[level] * wrong

    assert problem.fewest(solve, range(100)) == 37
    assert len(asked) < 15
    problem.level = 12.0
    assert problem.fewest(solve, range(100)) == 12


def test_agreement_counts_ties_and_missing_rows():
    truth = np.array([[0.4], [0.3], [0.2], [0.2], [0.0]])
    assert agreement(truth, truth, 3).tolist() == [1.0]
    assert agreement_of_rows(np.array([[0, 1, 3]]), truth, 3).tolist() == [1.0]  # 2 and 3 tie
    assert agreement_of_rows(np.array([[0, 4, -1]]), truth, 3).tolist() == pytest.approx([1 / 3])
    assert agreement_of_rows(np.array([[0, 1, 2, 3, -1]]), truth, 5).tolist() == [1.0]  # four have a score


def test_a_race_times_everyone_in_turns(graph):
    problem = Problem(graph, seeds.sparse(graph, 8), 0.1, 1e-3)
    entered = [*peers(quick=True)[:2], *contenders()[:2]]
    finishes = race(problem, entered, rounds=2)
    assert list(finishes) == [one.label for one in entered]
    assert all(len(one.timing.seconds) == 2 for one in finishes.values())
    assert finishes[SEARCH].l1_max is None
    assert fastest(finishes, ["aeg"], 1e-3) is finishes["aeg ppr, seeds given"]  # the other gives ranks alone
    assert fastest(finishes, ["aeg"], 1e-30) is None
    assert times_faster(finishes, None) is None
    assert times_faster(finishes, finishes["igraph PRPACK"]) == 1.0


def test_ratios_are_medians_over_rounds():
    ours, peer = measure.Timing([1.0, 2.0, 1.0]), measure.Timing([10.0, 40.0, 30.0])
    assert measure.paired_ratio(peer, ours) == 20.0
    assert (peer.best, peer.median) == (10.0, 30.0)


def test_verdicts():
    table = required.verdicts({"dense": 120.0, "latency": 3.0, "folded": None}, quick=True)
    assert [row[-1] for row in table.rows] == ["ok", "short", "not measured"]
    assert "ratios mean nothing" in table.notes[0]


def test_peak_memory_is_that_of_the_work_in_a_process_of_its_own():
    held = torch.ones(80_000_000)  # the parent's memory is not the child's
    peak, before = measure.peak_memory("measure:allocate", megabytes=100)
    assert 95 * 2**20 < peak - before < 140 * 2**20
    assert before < held.numel() * 4 + 300 * 2**20


def test_cells():
    assert [shown(cell) for cell in (None, float("nan"), True, 0.0, 1234.5, 2.5e-7)] == [
        "-",
        "-",
        "True",
        "0",
        "1,234",
        "2.5e-07",
    ]
    assert Table("t", ["a"], [[1]]).plain() == {"title": "t", "rows": [{"a": 1}], "notes": []}


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_runs(name, tmp_path, capsys):
    file = tmp_path / "bench.json"
    assert main([name, "--quick", "--threads", "1", "--json", str(file)]) == 0
    content = json.loads(file.read_text())
    out = capsys.readouterr().out
    assert content["tables"]
    assert content["machine"]["torch"] == torch.__version__
    for table in content["tables"]:
        assert table["rows"], table["title"]
        assert table["title"] in out
    expected = {"propagation": "dense", "latency": "latency", "methods": "katz"}
    if name in expected:
        assert content["measured"][expected[name]] > 0


def test_contenders_are_left_out(tmp_path, capsys):
    file = tmp_path / "bench.json"
    words = ["--without", "push", "--without", "bare", "--without", "scikit"]
    assert main(["propagation", "--quick", "--threads", "1", "--json", str(file), *words]) == 0
    content = json.loads(file.read_text())
    labels = {row["contender"] for table in content["tables"] for row in table["rows"] if "contender" in row}
    assert {"igraph PRPACK", "aeg ppr, seeds given", "aeg ppr folded, Seeds to top 25"} <= labels
    assert not any(word in label for word in ("push", "bare", "scikit") for label in labels)
    assert content["machine"]["without"] == ["push", "bare", "scikit"]
    assert "left out: contenders with push, bare, scikit in their label" in capsys.readouterr().out


def test_folded_rows_count_where_their_scores_are_within_the_limit():
    def finish(label: str, error: float | None, seconds: float) -> Finish:
        contender = Contender(label, lambda problem: None, None, ours=True)
        return Finish(contender, Solver(lambda queries: None), 1, measure.Timing([seconds]), None, error, 1.0, None, 0)

    made = {
        "aeg katz": finish("aeg katz", 1e-4, 3.0),
        f"aeg katz{methods.SCORED}": finish("aeg katz folded, Seeds to scores", 5e-4, 9.0),
        f"aeg katz{methods.RANKED}": finish("aeg katz folded, Seeds to top 25", None, 1.0),
    }
    assert methods.best_of(made, 1e-3) is made[f"aeg katz{methods.RANKED}"]
    assert methods.best_of(made, 2e-4) is made["aeg katz"]
    assert methods.best_of(made, 1e-9) is None


def test_unknown_names_are_refused():
    with pytest.raises(SystemExit, match="got 'propagate', expected encoder"):
        main(["propagate"])
    with pytest.raises(SystemExit, match="got 'musiq', expected one of hotpotqa"):
        main(["propagation", "--shape", "musiq"])

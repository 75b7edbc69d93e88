"""The theory experiments: closed forms against dense computations, claims that can fail, and a small real corpus."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.special import ndtr

from aeg.core.operator import Operator
from aeg.evaluation.bootstrap import Interval
from experiments.theory.coverage import ceiling, covered, spread
from experiments.theory.finding import Finding, Findings, exact, judged, signed
from experiments.theory.leakage import lemma_c7
from experiments.theory.misranking import bound, gaussian, simulate, theorem_c11
from experiments.theory.regions import blocks, entity_leakage, leakage, relevant_mass, scores, two_regions


def dense_ppr(op: Operator, seeds: np.ndarray, restart: float) -> np.ndarray:
    weights, degree = op.scipy().toarray(), op.degree.numpy()
    walk = weights / np.where(degree > 0, degree, 1)
    core = np.linalg.solve(np.eye(len(degree)) - (1 - restart) * walk, restart * seeds)
    return core / core.sum(axis=0)


def seeds_in(inside: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    seeds = np.zeros((len(inside), 1))
    seeds[rng.choice(np.flatnonzero(inside), 3, replace=False), 0] = [0.5, 0.3, 0.2]
    return seeds


class TestLemmaC7:
    @pytest.mark.parametrize(("restart", "gamma", "epsilon"), [(0.3, 0.1, 0.05), (0.7, 0.9, 0.5), (0.1, 0.5, 0.01)])
    def test_the_closed_form_is_the_macro_chains_fixed_point(self, restart, gamma, epsilon):
        chain = np.array([[1 - gamma, gamma], [epsilon, 1 - epsilon]])
        start = np.array([1.0, 0.0])
        phi = start
        for _ in range(2000):
            phi = restart * start + (1 - restart) * phi @ chain
        assert relevant_mass(restart, gamma, epsilon) == pytest.approx(phi[0], abs=1e-12)

    def test_it_falls_with_gamma_and_rises_with_epsilon(self):
        grid = np.linspace(0.01, 0.99, 50)
        assert np.all(np.diff(relevant_mass(0.3, grid, 0.2)) < 0)
        assert np.all(np.diff(relevant_mass(0.3, 0.2, grid)) > 0)

    @pytest.mark.parametrize("gamma", [0.05, 0.4, 0.9])
    def test_a_two_region_graph_leaks_as_it_was_told(self, gamma):
        rng = np.random.default_rng(0)
        op, inside = two_regions((12, 30), gamma, 0.2, rng)
        walk = op.scipy().toarray() / op.degree.numpy()[:, None]
        leave, back = walk[inside][:, ~inside].sum(1), walk[~inside][:, inside].sum(1)
        assert leave == pytest.approx(np.full(12, gamma), abs=1e-6)
        assert back == pytest.approx(np.full(30, 0.2), abs=1e-6)
        seeds = seeds_in(inside, rng)
        ours, theirs = scores(op, seeds, 0.3), dense_ppr(op, seeds, 0.3)
        assert np.abs(ours - theirs).sum() < 1e-5
        assert theirs[inside].sum() == pytest.approx(float(relevant_mass(0.3, gamma, 0.2)), abs=1e-6)

    def test_the_identity_with_the_walks_own_leakage_holds_on_any_graph(self):
        rng = np.random.default_rng(3)
        op, inside = blocks((30, 90), 3.0, 0.4, rng)
        seeds = seeds_in(inside & ~op.isolated.numpy(), rng)
        found = dense_ppr(op, seeds, 0.4)
        leak = leakage(op, inside[:, None], found)
        closed = relevant_mass(0.4, leak.gamma_walk, leak.epsilon_walk)
        assert closed == pytest.approx(leak.mass, abs=1e-9)
        assert abs(float(relevant_mass(0.4, leak.gamma, leak.epsilon)[0] - leak.mass[0])) > 1e-4

    def test_leakage_by_degree_is_the_cut_over_the_volume(self):
        rng = np.random.default_rng(5)
        op, inside = blocks((20, 40), 3.0, 0.5, rng)
        weights = op.scipy().toarray()
        leak = leakage(op, inside[:, None], np.ones((60, 1)) / 60)
        cut = weights[inside][:, ~inside].sum()
        assert leak.gamma[0] == pytest.approx(cut / weights[inside].sum())
        assert leak.epsilon[0] == pytest.approx(cut / weights[~inside].sum())

    def test_moves_between_entities_are_the_walk_watched_on_entities(self):
        # atoms 0, 1; entities 2, 3, 4: atom 0 holds 2 and 3, atom 1 holds 3 and 4; 2 - 4 related with weight 2
        index = torch.tensor([[0, 0, 1, 1, 2], [2, 3, 3, 4, 4]])
        op = Operator.from_edges(5, index, torch.tensor([1.0, 1.0, 1.0, 1.0, 2.0]))
        inside = np.array([[True], [False], [True], [True], [False]])
        # Weights of moves: 2 -> 4 directly 2, 2 -> 3 through atom 0 1/2; 3 -> 2 through atom 0 and 3 -> 4 through atom
        # 1 with 1/2 each. What returns to 2 (1/2) and to 3 (1) is no move.
        expected = (2 + 1 / 2) / (2 + 1 / 2 + 1 / 2 + 1 / 2)
        assert entity_leakage(op, 2, inside)[0] == pytest.approx(expected)

    def test_simulated_findings_hold(self):
        found = lemma_c7([])
        assert [finding.verdict for finding in found.findings] == ["holds"] * 4
        (table,) = found.tables
        assert all(abs(closed - engine) < 1e-5 for *_, closed, engine in table[2])

    def test_the_same_check_fails_where_the_engine_walks_with_another_restart(self):
        rng = np.random.default_rng(0)
        op, inside = two_regions((12, 30), 0.4, 0.2, rng)
        mass = scores(op, seeds_in(inside, rng), 0.5)[inside].sum()
        assert abs(mass - float(relevant_mass(0.3, 0.4, 0.2))) > 0.05


class TestTheoremC11:
    def test_the_exact_rate_and_the_bound(self):
        sizes = np.array([1, 4, 9])
        expected = ndtr(-2 * 0.7 / (1.3 * np.sqrt(2 * sizes)))
        assert gaussian(2, sizes, 0.7, 1.3) == pytest.approx(expected)
        assert np.all(gaussian(2, sizes, 0.7, 1.3) <= bound(2, sizes, 0.7, 1.3))
        assert np.all(np.diff(bound(1, sizes, 1.0, 1.0)) > 0)

    def test_simulation_meets_the_exact_rate_and_rises_with_size(self):
        rng = np.random.default_rng(0)
        rates = [simulate(1, size, rng, 20_000).mean() for size in (1, 4, 16)]
        for size, rate in zip((1, 4, 16), rates, strict=True):
            true = float(gaussian(1, size, 1.0, 1.0)[0])
            assert abs(rate - true) < 4 * math.sqrt(true * (1 - true) / 20_000)
        assert all(b > a for a, b in pairwise(rates))

    def test_at_constant_purity_larger_units_misrank_less(self):
        rng = np.random.default_rng(0)
        assert simulate(8, 8, rng, 20_000).mean() < simulate(1, 1, rng, 20_000).mean() / 4

    def test_simulated_findings_hold(self):
        found = theorem_c11([])
        assert [finding.verdict for finding in found.findings] == ["holds"] * 4


class TestTheoremC12:
    def test_the_ceiling(self):
        assert ceiling(3, [1, 2], [4, 4]).tolist() == [0.75, 1.0]

    def test_no_ranking_covers_more_than_the_ceiling(self):
        rng = np.random.default_rng(0)
        for _ in range(200):
            pieces, units = int(rng.integers(1, 6)), 8
            holds = {unit: {int(p) for p in rng.integers(0, pieces, rng.integers(1, 3))} for unit in range(units)}
            most = max(map(len, holds.values()))
            ranked = rng.permutation(units).tolist()
            for k in (1, 2, 4):
                assert covered([ranked], holds, k) / pieces <= ceiling(k, most, pieces) + 1e-12

    def test_several_rankings_may_exceed_it(self):
        assert covered([[0], [1]], {0: {0}, 1: {1}}, 1) / 2 > ceiling(1, 1, 2)

    def test_turns_are_taken_without_repeats(self):
        assert spread([[1, 2, 3], [2, 4], [5]], 4) == [1, 2, 5, 4]
        assert spread([[1]], 3) == [1]


class TestFindings:
    def test_verdicts(self):
        assert judged(Interval(-0.1, -0.2, -0.05, 9, 0), sign=-1) == "holds"
        assert judged(Interval(-0.1, -0.2, -0.05, 9, 0)) == "fails"
        assert signed("w", "c", [0.1, -0.1, 0.1, -0.1]).verdict == "undecided"
        assert signed("w", "c", [0.1, 0.2, 0.3]).verdict == "holds"
        assert exact("w", "c", 1.0, 3, False).verdict == "fails"

    def test_json_has_no_nan(self):
        found = Findings("t", findings=[exact("w", "c", 1.0, 3, True)], tables=[("x", ["a"], [[float("nan")], ["y"]])])
        text = json.dumps(found.plain(), allow_nan=False)
        assert json.loads(text)["findings"][0]["low"] is None
        assert "holds" in Finding("w", "c", 1, 0, 2, 3, "holds").text()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    from experiments.theory.world import open_world

    folder = tmp_path_factory.mktemp("theory")
    small = ["device=cpu", "graph.synonym=false", "workers=1", "num_questions=40"]
    return open_world("quickstart", [f"artifacts_dir={folder}", *small])


def test_regions_and_triples_of_a_real_corpus(world):
    from experiments.theory.world import predicate_graph

    at = next(at for at, query in enumerate(world.queries) if query.gold_doc_ids)
    atoms, entities = world.region(world.gold_passages[at])
    gold = set(world.queries[at].gold_doc_ids)
    table = world.graph.atoms
    for atom in atoms:
        rows = table.occurrence_passage[table.occurrence_atom == atom].tolist()
        assert any(world.graph.passages[row].doc_id in gold for row in rows)
    mentioned = world.graph.data["atom", "mentions", "entity"].edge_index
    assert set(mentioned[1][torch.isin(mentioned[0], torch.tensor(atoms))].tolist()) <= set(entities)
    graph = predicate_graph(world)
    assert graph.degree.sum() == 2 * len(world.triples)
    assert bool(graph.isolated[: len(table)].all())
    (h, _, t) = world.triples[0]
    noisy = predicate_graph(world, [(h, t)])
    assert noisy.degree.sum() == 2 * len(world.triples) + 2


def test_the_experiments_on_a_real_corpus(world):
    from experiments.theory.coverage import theorem_c12

    leak, cover = lemma_c7([world]), theorem_c12([world])
    identities = [f for f in leak.findings if "identity" in f.claim]
    assert len(identities) == 2
    assert all(f.verdict == "holds" for f in identities)
    assert {f.verdict for f in leak.findings} <= {"holds", "fails", "undecided"}
    assert all(f.low <= f.value <= f.high for f in leak.findings if not math.isnan(f.low))
    noise = next(rows for title, _, rows in leak.tables if "spurious" in title)
    assert noise[0][1] > noise[-1][1]  # text of means: more spurious triples, less mass
    ceilings = [f for f in cover.findings if "never exceeds" in f.claim]
    assert len(ceilings) == 2
    assert all(f.verdict == "holds" for f in ceilings)
    assert any("equal number of units" in f.claim for f in cover.findings)


def test_neighbourhoods_of_both_graphs_are_judged(world):
    from judge_helpers import Scripted, asker

    from experiments.neighbourhood import judged

    criteria = ("correctness", "relevance", "consistency", "redundancy", "comprehensiveness")
    for triples in (False, True):
        backend = Scripted(model="m", script=lambda request: json.dumps(dict.fromkeys(criteria, 7)))
        record = judged(world.pipeline.config, triples, 3, asker(backend))
        assert [row["scores"]["redundancy"] for row in record["entities"]] == [7.0] * 3
        assert record["means"]["correctness"] == 7.0
        assert (record["failed"], record["skipped"]) == (0, 0)
        most = sorted(world.graph.entities.mentions.tolist(), reverse=True)[:3]
        if not triples:
            assert [row["facts"] for row in record["entities"]] == most
        assert len(backend.asked) == 3
        assert "Facts:" in "\n".join(message.content for message in backend.asked[0].messages)


def test_the_program(tmp_path, capsys):
    from experiments.theory.__main__ import main

    assert (
        main(["lemma_c7", "--config", "none", "--json", str(tmp_path / "o.json"), "--plot", str(tmp_path / "o.png")])
        == 0
    )
    assert "Lemma C.7" in capsys.readouterr().out
    assert set(json.loads((tmp_path / "o.json").read_text())) == {"lemma_c7"}
    assert (tmp_path / "o.png").stat().st_size > 10_000
    assert main(["lemma_c7", "--config", "no_such"]) == 2
    assert "no such config file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["theorem_99"])

"""One experiment end to end on the shipped sample: the run folder, caching, determinism, external runs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from aeg.config.load import load_config
from aeg.errors import ConfigError, DataError
from aeg.experiment.run import Outcome, run
from aeg.propagation import METHODS

BASELINES = {"dense_atoms", "dense_passages", "bm25"}
SHIPPED = {name for name in METHODS if type(METHODS.make(name)).__module__.startswith("aeg.")}  # not those of tests


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("artifacts")


def run_quickstart(artifacts: Path, folder: Path, *overrides: str, log: list[str] | None = None) -> Outcome:
    settings = [f"artifacts_dir={artifacts}", f"run_dir={folder}", "evaluation.resamples=500", "device=cpu"]
    config = load_config("configs/quickstart.yaml", [*settings, *overrides])
    return run(config, (log if log is not None else []).append)


@pytest.fixture(scope="module")
def outcome(artifacts, tmp_path_factory) -> Outcome:
    return run_quickstart(artifacts, tmp_path_factory.mktemp("runs"))


def value(outcome: Outcome, method: str, metric: str, group: str = "all") -> float:
    (row,) = (r for r in outcome.rows if (r.method, r.metric, r.group) == (method, metric, group))
    return row.value


def test_every_method_and_baseline_is_measured(outcome):
    assert {row.method for row in outcome.rows} == SHIPPED | BASELINES
    groups = {row.group for row in outcome.rows}
    assert groups == {
        "all",
        "macro",
        "Fact Retrieval",
        "Complex Reasoning",
        "Contextual Summarize",
        "Creative Generation",
    }
    metrics = {row.metric for row in outcome.rows}
    assert {"recall@2", "recall@5", "recall@10", "mrr", "ndcg@5"} <= metrics
    assert {f"evidence_{m}@{b}" for m in ("coverage", "similarity") for b in (256, 512, 1024)} <= metrics
    for row in outcome.rows:
        assert 0 <= row.ci_low <= row.value <= row.ci_high <= 1
        assert row.n > 0


def test_the_graph_finds_what_the_seeds_alone_do_not(artifacts, outcome, tmp_path):
    methods = "propagation=[{name: ppr}, {name: none}]"
    plain = run_quickstart(artifacts, tmp_path, methods, "retrieval.mix=null", "evaluation.baselines=[dense_passages]")
    assert value(plain, "ppr", "recall@10") > value(plain, "none", "recall@10") + 0.05
    assert value(plain, "ppr", "recall@10") > value(plain, "dense_passages", "recall@10")
    for metric in ("recall@5", "recall@10", "evidence_coverage@256", "evidence_coverage@1024"):
        assert value(outcome, "ppr", metric) > value(outcome, "dense_passages", metric)
    assert value(outcome, "ppr", "evidence_coverage@1024") > value(outcome, "dense_atoms", "evidence_coverage@1024")
    assert value(outcome, "ppr", "recall@10") > 0.9


def test_the_run_folder(outcome):
    names = {file.name for file in outcome.folder.iterdir()}
    assert {"manifest.json", "metrics.json", "results.parquet", "plot.png", "table.txt", "trec"} <= names
    assert (outcome.folder / "plot.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    records = json.loads((outcome.folder / "metrics.json").read_text())
    assert {"method", "metric", "value", "ci_low", "ci_high", "n", "group"} <= set(records[0])
    assert len(records) == len(outcome.rows)


def test_the_results_have_rankings_and_traces(outcome):
    rows = pq.read_table(outcome.folder / "results.parquet").to_pylist()
    questions = {row["question_id"] for row in rows}
    assert len(questions) >= 60
    assert len(rows) == len(questions) * (len(SHIPPED) + len(BASELINES))
    (ppr,) = (row for row in rows if row["method"] == "ppr" and row["question_id"] == "qa01")
    assert ppr["unit"] == "atom"
    assert len(ppr["units"][0]) == 64
    assert ppr["unit_scores"] == sorted(ppr["unit_scores"], reverse=True)
    traces = [row["effective"][0] for row in rows if row["method"] == "ppr"]
    assert sum(bool(trace["entities"]) for trace in traces) > 0.8 * len(questions)
    assert {row["effective"][0]["atom_mass"] for row in rows if row["method"] == "bm25"} == {None}
    for trace in traces:
        assert len(trace["entities"]) == len(trace["entity_weights"]) == len(trace["mentions"])
        assert trace["entity_mass"] + trace["atom_mass"] == pytest.approx(1)
        low, high = (0.5, 1.0) if trace["entities"] else (0.0, 0.0)  # by the trust in the links
        assert low - 1e-6 <= trace["entity_mass"] <= high + 1e-6
    unlinked = {row["question_id"] for row in rows if "fallback" in row["flags"]}
    assert unlinked == {row["question_id"] for row in rows if not row["effective"][0]["entities"]} != set()
    assert 0 <= dict(ppr["metrics"])["recall@5"] <= 1
    assert next(row["seed"] for row in rows if row["method"] == "rwr") == 0


def test_the_manifest_says_what_was_run(outcome):
    manifest = json.loads((outcome.folder / "manifest.json").read_text())
    assert {"git", "libraries", "device", "config", "encoder", "parts", "questions", "seconds"} <= set(manifest)
    part = manifest["parts"]["corpus"]
    assert part["documents"] >= 120
    assert part["graph"]["atoms"] > 1000
    assert {"corpus", "extraction", "graph", "queries", "seeds", "evaluation"} <= set(part["counts"])
    assert manifest["config"]["extraction"]["name"] == "recorded"
    assert set(manifest["seconds"]["a_query"]) == SHIPPED | BASELINES


def test_a_second_run_computes_nothing_and_writes_the_same_bytes(artifacts, outcome):
    names = ("metrics.json", "results.parquet", "plot.png", "table.txt", "trec/ppr.run", "trec/qrels.txt")
    before = {name: (outcome.folder / name).read_bytes() for name in names}
    stages = sorted(path for path in artifacts.glob("*/*") if path.parent.name != "embeddings")
    again = run_quickstart(artifacts, outcome.folder.parent)
    assert again.folder == outcome.folder
    manifest = json.loads((again.folder / "manifest.json").read_text())
    assert manifest["encoder_counts"].get("encoded", 0) == 0
    assert sorted(p for p in artifacts.glob("*/*") if p.parent.name != "embeddings") == stages
    for name in names:
        if name != "table.txt":  # baselines are timed anew
            assert (again.folder / name).read_bytes() == before[name], name


def test_another_restart_costs_one_ranking_and_nothing_upstream(artifacts, outcome, tmp_path):
    def stages() -> dict[str, int]:
        return {stage.name: len(list(stage.iterdir())) for stage in artifacts.iterdir()}

    before = stages()
    run_quickstart(artifacts, tmp_path, "propagation.0.restart=0.55")
    after = stages()
    assert after["ranking"] == before["ranking"] + 1
    assert {s: n for s, n in after.items() if s != "ranking"} == {s: n for s, n in before.items() if s != "ranking"}


def test_seeds_of_chance_are_an_axis_for_stochastic_methods_only(artifacts, outcome, tmp_path):
    found = run_quickstart(artifacts, tmp_path, "seeds=[0,1,2]")
    rows = pq.read_table(found.folder / "results.parquet", columns=["method", "seed"]).to_pylist()
    assert {row["seed"] for row in rows if row["method"] == "rwr"} == {0, 1, 2}
    assert {row["seed"] for row in rows if row["method"] == "ppr"} == {None}
    (rwr,) = (r for r in found.rows if (r.method, r.metric, r.group) == ("rwr", "recall@5", "all"))
    (once,) = (r for r in outcome.rows if (r.method, r.metric, r.group) == ("rwr", "recall@5", "all"))
    assert rwr.n == once.n  # questions, not questions times seeds
    assert value(found, "ppr", "recall@5") == value(outcome, "ppr", "recall@5")


def test_a_sample_of_questions_is_decided_by_its_seed(artifacts, outcome, tmp_path):
    def questions(*overrides: str) -> list[str]:
        small = ("num_questions=9", "propagation=[{name: none}]", "evaluation.baselines=[]")
        found = run_quickstart(artifacts, tmp_path, *small, *overrides)
        return pq.read_table(found.folder / "results.parquet", columns=["question_id"]).column(0).to_pylist()

    first = questions()
    assert len(first) == 9
    assert first == sorted(first)
    assert questions("seeds=[7]") == first
    assert questions("sample_seed=1") != first
    with pytest.raises(DataError, match="num_questions: got 1000, the corpus has"):
        questions("num_questions=1000")


def test_recorded_sub_questions_are_united(artifacts, outcome, tmp_path):
    found = run_quickstart(
        artifacts, tmp_path, "query.decomposition={name: recorded, path: 'builtin:sample'}", "propagation=[{name: ppr}]"
    )
    rows = pq.read_table(found.folder / "results.parquet").to_pylist()
    asked = [len(row["effective"]) for row in rows if row["method"] == "ppr"]
    assert max(asked) >= 3
    assert min(asked) == 1
    manifest = json.loads((found.folder / "manifest.json").read_text())
    assert manifest["parts"]["corpus"]["counts"]["queries"]["decomposition.decomposed"] > 10


def test_another_system_s_run_enters_the_table(artifacts, outcome, tmp_path):
    path = outcome.folder / "trec" / "bm25.run"
    renamed = tmp_path / "other.run"
    renamed.write_text(path.read_text().replace(" bm25\n", " other\n"))
    found = run_quickstart(
        artifacts, tmp_path, "propagation=[]", "evaluation.baselines=[bm25]", f"evaluation.runs=['{renamed}']"
    )
    for metric in ("recall@5", "ndcg@10", "evidence_coverage@512"):
        assert value(found, "other", metric) == pytest.approx(value(found, "bm25", metric), abs=1e-9), metric
    renamed.write_text("qa01 Q0 nowhere 1 2.5 other\n")
    with pytest.raises(DataError, match="'nowhere' is not in the corpus"):
        run_quickstart(artifacts, tmp_path, f"evaluation.runs=['{renamed}']")


def test_seeds_of_one_entry_can_differ(artifacts, outcome, tmp_path):
    entries = "[{name: ppr}, {name: ppr, label: atoms, seeds: {balance: share, atom_share: 1.0}}]"
    found = run_quickstart(artifacts, tmp_path, f"propagation={entries}", "evaluation.baselines=[]")
    rows = pq.read_table(found.folder / "results.parquet", columns=["method", "units"]).to_pylist()
    ranked = {name: [row["units"] for row in rows if row["method"] == name] for name in ("ppr", "atoms")}
    assert ranked["ppr"] != ranked["atoms"]
    traced = pq.read_table(found.folder / "results.parquet", columns=["method", "effective"]).to_pylist()
    shares = {name: {row["effective"][0]["atom_mass"] for row in traced if row["method"] == name} for name in ranked}
    assert shares["atoms"] == {1.0}
    assert 0 < min(shares["ppr"]) < 0.5


def test_a_run_folder_that_cannot_be_made_is_told(artifacts, outcome, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="set run_dir to a writable folder"):
        run_quickstart(artifacts, tmp_path / "file", "propagation=[{name: none}]", "evaluation.baselines=[]")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("propagation=[{name: pr}]", r"propagation\.0\.name: unknown propagation method 'pr'\. Did you mean 'ppr'\?"),
        ("propagation=[{name: ppr, restart: 2}]", r"propagation\.0\.restart: got 2\.0, expected a number in \(0, 1\)"),
        ("propagation=[{name: ppr, damping: 0.3}]", r"propagation\.0\.damping: unknown key"),
        ("propagation=[{name: ppr}, {name: ppr}]", "label 'ppr' is used twice"),
        ("propagation=[{name: ppr, label: a/b}]", r"propagation\.0\.label: got 'a/b'"),
        ("propagation=[{name: ppr, label: bm25}]", "label 'bm25' is a baseline's name"),
        ("propagation=[{name: ppr, seeds: {alhpa: 1}}]", r"propagation\.0\.seeds\.alhpa: unknown key"),
        ("extraction={name: recored}", r"extraction\.name: unknown extraction 'recored'\. Did you mean 'recorded'"),
        ("evaluation.baselines=[bm24]", "Did you mean 'bm25'"),
        ("retrieval.index={name: flatt}", "Did you mean 'flat'"),
        ("propagation=[{restart: 0.3}]", r"propagation\.0: no 'name' given"),
    ],
)
def test_a_wrong_config_is_told_before_anything_runs(artifacts, tmp_path, override, message):
    with pytest.raises(ConfigError, match=message):
        run_quickstart(artifacts, tmp_path, override)
    assert not list(tmp_path.iterdir())


WANTING = '''
"""A method that reads from the context what it asks for, or finds it missing where it does not."""
from dataclasses import dataclass
from aeg.propagation import METHODS, Info
from aeg.propagation.none import NoPropagation


@METHODS.register("wanting")
@dataclass(frozen=True)
class Wanting(NoPropagation):
    """Checks its context."""

    wants = frozenset({"operators", "features"})

    def propagate(self, op, seeds, context):
        assert set(context.operators) == {"mentions", "relates", "synonym"}
        assert len(context.features) == op.num_nodes == context.operators["mentions"].num_nodes
        return seeds, Info.exact(seeds.shape[1], 0, seeds.device)


@METHODS.register("content")
@dataclass(frozen=True)
class Content(NoPropagation):
    """Asks for nothing."""

    def propagate(self, op, seeds, context):
        assert not context.operators
        assert context.features is None
        return seeds, Info.exact(seeds.shape[1], 0, seeds.device)
'''


def test_a_method_gets_from_the_context_what_it_wants(artifacts, outcome, tmp_path):
    plugin = tmp_path / "wanting.py"
    plugin.write_text(WANTING)
    found = run_quickstart(
        artifacts,
        tmp_path,
        f"plugins=['{plugin}']",
        "propagation=[{name: wanting}, {name: content}]",
        "evaluation.baselines=[]",
        "num_questions=5",
    )
    assert {row.method for row in found.rows} == {"wanting", "content"}

"""Explanations of a run and of an index: right by the run's own records, as text, JSON and page; nobody is asked."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from llm_model import Model
from llm_runs import endpoint, few, go, settings
from llm_server import ScriptedServer

from aeg.cli.main import main
from aeg.errors import ConfigError, DataError
from aeg.explain.collecting import as_plain, explanation
from aeg.explain.page import as_page
from aeg.explain.records import Explanation
from aeg.explain.subject import of_index, of_run
from aeg.explain.text import as_text
from experiments.explain import main as explain_run


def silent(_: str) -> None:
    pass


def explained(folder: Path, question: str, *overrides: str, **options) -> Explanation:
    subject = of_run(folder, question, silent, overrides)
    return explanation(subject, **options)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> str:
    return few(tmp_path_factory.mktemp("corpus"), 6, 3)


@pytest.fixture(scope="module")
def ran(corpus, tmp_path_factory) -> Path:
    """The folder of a run in which a model did everything; its server is gone."""
    folder = tmp_path_factory.mktemp("ran")
    with ScriptedServer(Model()) as server:
        outcome = go(settings(folder, corpus, endpoint(server.url), "answered=[ppr]", "evaluation.baselines=[]"))
    return outcome.folder


@pytest.fixture(scope="module")
def row(ran) -> dict:
    return pq.read_table(ran / "results.parquet").to_pylist()[0]


@pytest.fixture(scope="module")
def found(ran, row) -> Explanation:
    return explained(ran, row["question_id"], top=5)


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    documents = {
        "ann.md": "# <script>alert(1)</script>\n\nAnn Marlow is a geologist. She leads the Tarn Laboratory in Keswick.",
        "tarn.txt": "The Tarn Laboratory was founded in 1921 by Edith Crane. It studies lake sediments.",
        "edith.txt": "Edith Crane was a chemist from Zürich. She wrote a book about Lake Thun.",
    }
    for name, text in documents.items():
        (folder / name).write_text(text, encoding="utf-8")
    out = tmp_path_factory.mktemp("index") / "own"
    assert main(["index", str(folder), "--out", str(out), "device=cpu", "workers=1"]) == 0
    return out


def test_a_run_is_explained_as_it_was_recorded_and_no_model_is_asked(ran, row, found):
    assert [found.node(atom.node).key for atom in found.atoms] == row["units"][:5]
    assert [atom.score for atom in found.atoms] == pytest.approx(row["unit_scores"][:5], rel=1e-4)
    assert all("linked" in note for note in found.notes)
    assert [query.text for query in found.effective] == [query["text"] for query in row["effective"]]
    assert not found.effective[0].sub_question
    for query, recorded in zip(found.effective, row["effective"], strict=True):
        assert [found.node(link.node).key for link in query.links] == recorded["entities"]
        assert query.entity_mass == pytest.approx(recorded["entity_mass"])
        assert sum(mass for _, mass in query.seeds) <= 1.000001
    assert found.metrics["recall@5"] == pytest.approx(dict(row["metrics"])["recall@5"])


def test_chains_account_for_the_propagated_score(found):
    assert any(chain.steps for atom in found.atoms for chain in atom.chains)
    scales: dict[int, set[float]] = {}
    for atom in found.atoms:
        assert atom.walks <= atom.propagated_score * 1.001
        assert atom.propagated_score <= (atom.walks + atom.tail) * 1.001
        assert sum(chain.mass for chain in atom.chains) == pytest.approx(atom.covered * atom.walks)
        for chain in atom.chains:
            rho = found.parameters["restart"]
            walked = math.prod(step.factor for step in chain.steps)
            core = rho * (1 - rho) ** len(chain.steps) * chain.seed * walked
            scales.setdefault(atom.effective, set()).add(round(chain.mass / core, 6))
            assert chain.nodes[-1] == atom.node
            assert len(set(chain.nodes)) == len(chain.nodes)
            assert all(step.edges for step in chain.steps)
    for (scale,) in scales.values():  # what isolated seeds keep is shared out: one factor a query, 1 where none is
        assert 1 <= scale < 1 / rho


def test_verdicts_units_answer_and_prompts_are_those_of_the_run(ran, row, found):
    recorded = pq.read_table(ran / "answers.parquet", filters=[("question_id", "==", row["question_id"])]).to_pylist()[
        0
    ]
    told = found.generation
    assert told is not None
    assert told.recorded
    assert [found.node(c.node).key for c in told.candidates] == recorded["candidates"]
    assert [found.node(c.node).key for c in told.candidates if c.kept] == recorded["kept"]
    assert 0 < len(recorded["kept"]) < len(recorded["candidates"])
    assert [unit.text for unit in told.units] == [unit["text"] for unit in recorded["units"]]
    assert [unit.number for unit in told.units if unit.cited] == recorded["cited"]
    assert told.answer == recorded["answer"]
    tasks = [exchange.task for exchange in found.exchanges]
    assert tasks[:1] == ["decomposition"]
    assert {"mentions", "sieve", "answer_abstract"} <= set(tasks)
    assert all(exchange.cached and exchange.reply and not exchange.failure for exchange in found.exchanges)
    sieve = next(exchange for exchange in found.exchanges if exchange.task == "sieve")
    prompt = " ".join(text for _, text in sieve.messages)
    assert found.question in prompt
    assert all(found.node(c.node).name in prompt for c in told.candidates)


def test_gold_documents_have_rank_and_mass(row, found):
    assert found.gold
    for record in found.gold:
        place = row["documents"].index(record.doc_id) + 1 if record.doc_id in row["documents"] else None
        assert record.rank == place
        assert record.gold
        assert record.mass >= record.propagated_score > 0
    assert [record.doc_id for record in found.documents] == row["documents"][:5]


def test_replies_that_are_gone_are_told_not_asked_for(ran, row, tmp_path):
    import shutil

    artifacts = tmp_path / "artifacts"
    shutil.copytree(ran.parent.parent / "artifacts", artifacts, ignore=shutil.ignore_patterns("cache"))
    found = explained(ran, row["question_id"], f"artifacts_dir={artifacts}", top=2)
    assert any("not in the cache of replies" in note for note in found.notes)
    assert found.exchanges
    assert all(exchange.reply is None and exchange.failure.startswith("missing") for exchange in found.exchanges)
    assert found.generation is not None
    assert found.generation.recorded


def test_a_run_whose_graph_a_model_would_have_to_extract_again_is_refused(ran, row, tmp_path):
    with pytest.raises(DataError, match="graph of this run is not there"):
        of_run(ran, row["question_id"], silent, [f"artifacts_dir={tmp_path}"])


def test_wrong_questions_methods_and_folders_are_refused_with_what_there_is(ran, row, tmp_path):
    with pytest.raises(DataError, match="no question 'qa9999'"):
        of_run(ran, "qa9999", silent)
    with pytest.raises(ConfigError, match=r"'kat'. Available: ppr"):
        of_run(ran, row["question_id"], silent, label="kat")
    with pytest.raises(DataError, match="no such run folder"):
        of_run(tmp_path / "none", "q", silent)
    with pytest.raises(DataError, match="did not finish"):
        of_run(tmp_path, "q", silent)


def test_json_is_the_whole_explanation(ran, row, found, capsys):
    assert explain_run([str(ran), row["question_id"], "--json", "--top", "5"]) == 0
    printed = json.loads(capsys.readouterr().out)
    whole = json.loads(json.dumps(as_plain(found)))
    assert printed["format"] == 1
    assert printed["atoms"] == whole["atoms"]
    assert {field.name for field in dataclasses.fields(Explanation)} == set(printed)


def test_text_and_page_tell_of_every_part(found):
    text, page = as_text(found), as_page(found)
    for part in (found.question, found.reference, found.node(found.atoms[0].node).name):
        assert part in text
    for title in ("Linked and seeded", "Resonance chains", "Gold evidence", "Sieve and answer", "Prompts"):
        assert f"<h2>{title}</h2>" in page
    for title in ("Gold documents", "Sieve llm", "Prompt sieve", "Citation units"):
        assert title in text


def test_an_index_is_explained_on_the_command_line(index, tmp_path, capsys):
    question = "Who founded the laboratory that Ann Marlow leads?"
    before = sorted((str(f), f.stat().st_mtime_ns) for f in index.rglob("*") if f.is_file())
    capsys.readouterr()
    assert main(["explain", str(index), question, "--top", "4"]) == 0
    text = capsys.readouterr().out
    assert "[Ann Marlow]" in text
    assert "-(mentions," in text
    assert main(["explain", str(index), question, "--html", str(tmp_path / "deep" / "page.html"), "--walks"]) == 0
    page = (tmp_path / "deep" / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert page.count("<script>") == 1
    assert "Walks that visit a node twice" not in page
    assert sorted((str(f), f.stat().st_mtime_ns) for f in index.rglob("*") if f.is_file()) == before


def test_an_index_with_a_sieve_tells_its_verdicts(index):
    subject = of_index(
        index,
        "Who leads the Tarn Laboratory?",
        ["sieve={name: threshold, similarity: 0.4, redundancy: null}"],
        answer=True,
    )
    told = explanation(subject).generation
    assert told is not None
    assert not told.recorded
    assert {candidate.kept for candidate in told.candidates} == {True, False}
    assert all(candidate.kept == (candidate.similarity >= 0.4) for candidate in told.candidates)
    with pytest.raises(ConfigError, match="no sieve and no reader"):
        of_index(index, "Who?", answer=True)
    with pytest.raises(DataError, match="empty question"):
        of_index(index, "  ")


@pytest.mark.parametrize(
    "name", ["katz", "label_propagation", "weighted_bfs", "heat_kernel", "rwr", "power_iteration", "none"]
)
def test_other_methods_are_explained_by_their_own_account(index, name):
    found = explanation(of_index(index, "Who leads the Tarn Laboratory?", [f"propagation=[{{name: {name}}}]"]), top=5)
    tolerance = 0.3 if name == "rwr" else 2e-3  # a sample of walks
    assert found.atoms
    assert all(atom.chains for atom in found.atoms)
    assert found.atoms[0].walks == pytest.approx(found.atoms[0].propagated_score, rel=tolerance)
    assert any("sample" in note for note in found.notes) == (name == "rwr")

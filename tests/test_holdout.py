"""Halves of the questions, and the log of the half that is held out."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from aeg.config.load import load_config
from aeg.core.records import Query
from aeg.corpus import CORPORA
from aeg.errors import ConfigError, DataError
from aeg.evaluation import bootstrap_difference
from aeg.experiment.run import run
from aeg.pipeline.stages import Pipeline, half
from experiments import holdout

CONFIG = """
extends: quickstart
name: small
propagation: [{name: ppr}, {name: none}]
evaluation: {baselines: [bm25], resamples: 500}
device: cpu
"""


def git(folder: Path, *arguments: str) -> None:
    settings = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *settings, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "state")


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("places")
    return [f"artifacts_dir={folder / 'artifacts'}", f"run_dir={folder / 'runs'}"]


@pytest.fixture
def tree(tmp_path) -> Path:
    folder = tmp_path / "tree"
    (folder / "configs").mkdir(parents=True)
    (folder / "experiments").mkdir()
    (folder / "configs" / "small.yaml").write_text(CONFIG)
    git(folder, "init", "-q")
    commit(folder)
    return folder.resolve()


def call(tree: Path, *arguments: str) -> int:
    return holdout.main([str(tree / "configs" / "small.yaml"), *arguments], tree / "experiments" / "log.jsonl", tree)


def logged(tree: Path) -> list[dict]:
    path = tree / "experiments" / "log.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_halves_are_by_place_in_the_file():
    queries = CORPORA.make("sample").load(None).queries
    assert [query.position for query in queries] == list(range(len(queries)))
    even, odd = half(queries, "even"), half(queries, "odd")
    assert even == queries[0::2]
    assert odd == queries[1::2]
    assert half(queries, "all") == queries
    shuffled = sorted(queries, key=lambda query: query.question)
    assert set(half(shuffled, "even")) == set(even)  # not by the order in which they are given


def test_questions_that_a_loader_leaves_out_keep_their_place(tmp_path):
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "d", "text": "Ann owns Bix."}\n')
    (folder / "queries.jsonl").write_text("".join(f'{{"_id": "{n}", "text": "Who?"}}\n' for n in "abcd"))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nb\td\t1\nc\td\t1\nd\td\t0\n")
    queries = CORPORA.make("beir", path="beir").load(tmp_path).queries
    assert [(query.id, query.position) for query in queries] == [("b", 1), ("c", 2)]
    assert [query.id for query in half(queries, "odd")] == ["b"]


def test_questions_without_a_file_are_taken_in_order():
    queries = [Query("c", "?"), Query("a", "?"), Query("b", "?")]
    assert [query.id for query in half(queries, "odd")] == ["a"]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "path", "file"),
    [
        ("two_wiki", "2wikimultihopqa", "2wikimultihopqa/questions.json"),
        ("musique", "musique", "musique/questions.json"),
        ("hotpotqa", "hotpotqa", "hotpotqa/questions.json"),
        ("graphrag_bench", "medical", "medical/questions.json"),
        ("graphrag_bench", "novel/novel-*", "novel/{}/questions.json"),
    ],
)
def test_every_benchmark_s_halves_are_those_of_its_files(data_root, name, path, file):
    for label, loader in CORPORA.make(name, path=path).parts(data_root):
        given = json.loads((data_root / file.format(label)).read_text())
        queries = loader.load(data_root).queries
        assert [query.id for query in half(queries, "even")] == [str(item["id"]) for item in given[0::2]]
        assert [query.id for query in half(queries, "odd")] == [str(item["id"]) for item in given[1::2]]


def test_a_sample_is_drawn_within_the_half():
    config = load_config("quickstart", ["questions=even", "num_questions=7"])
    pipeline = Pipeline(config)
    chosen = pipeline.corpus(pipeline.methods.corpus).queries
    assert len(chosen) == 7
    assert {query.position % 2 for query in chosen} == {0}


def test_a_plain_run_takes_the_even_half_and_refuses_the_odd_one(places):
    config = load_config("quickstart", [*places, "questions=odd"])
    with pytest.raises(ConfigError, match=r"held-out half.*experiments\.holdout"):
        run(config, print)
    small = ["questions=even", "propagation=[{name: none}]", "evaluation.baselines=[]", "evaluation.resamples=100"]
    found = run(load_config("quickstart", [*places, *small]), lambda _: None)
    ids = pq.read_table(found.folder / "results.parquet", columns=["question_id"]).column(0).to_pylist()
    assert sorted(ids) == sorted(query.id for query in CORPORA.make("sample").load(None).queries[0::2])


def test_each_opening_is_logged_and_counted(tree, places, capsys):
    assert call(tree, *places, "--against", "bm25") == 0
    commit(tree)
    assert call(tree, *places, "propagation.0.restart=0.5") == 0  # only the log has changed since
    assert call(tree, *places, "--dry-run") == 0
    first, second = logged(tree)
    odd = CORPORA.make("sample").load(None).queries[1::2]
    assert (first["dataset"], first["opening"], first["n"]) == ("sample", 1, len(odd))
    assert (second["opening"], second["questions"]) == (2, first["questions"])
    assert second["overrides"] == ["propagation.0.restart=0.5"]
    assert first["fingerprint"] != second["fingerprint"]
    assert first["differences"]
    assert not second["differences"]
    found = {(row["method"], row["metric"]): row for row in first["rows"] if row["group"] == "all"}
    recall = found["ppr", "recall@5"]
    assert recall["ci_low"] < recall["value"] < recall["ci_high"]
    assert recall["n"] == sum(bool(query.gold_doc_ids) for query in odd)
    (gain,) = (
        row
        for row in first["differences"]
        if (row["method"], row["metric"], row["group"]) == ("ppr - bm25", "recall@5", "all")
    )
    assert gain["value"] == pytest.approx(recall["value"] - found["bm25", "recall@5"]["value"], abs=2e-6)
    assert {row["method"] for row in first["differences"]} == {"ppr - bm25", "none - bm25"}
    told = capsys.readouterr().out
    assert "opened 0 times so far" in told
    assert "opened 2 times so far" in told
    assert holdout.main(["--table"], tree / "experiments" / "log.jsonl", tree) == 0
    table = capsys.readouterr().out
    assert table.startswith("### sample: opened 2 times")
    assert table.count("| ppr |") == 2
    assert f"{100 * recall['value']:.1f} [{100 * recall['ci_low']:.1f}, {100 * recall['ci_high']:.1f}]" in table
    assert f"| ppr - bm25 | {len(odd)} | " in table
    again = [json.dumps(line["rows"]) for line in logged(tree)]
    assert call(tree, *places) == 0
    assert json.dumps(logged(tree)[2]["rows"]) == again[0]  # a line can be repeated


def test_the_differences_are_paired(places):
    overrides = [*places, "questions=even", "propagation=[{name: ppr}, {name: rwr}]", "seeds=[0, 1]"]
    config = load_config("quickstart", [*overrides, "evaluation.baselines=[bm25]", "evaluation.resamples=300"])
    outcome = run(config, lambda _: None)
    rows = pq.read_table(outcome.folder / "results.parquet").to_pylist()
    for method in ("ppr", "rwr"):
        own: dict[str, list[float]] = {}
        for row in rows:
            if row["method"] == method and "recall@5" in dict(row["metrics"]):
                own.setdefault(row["question_id"], []).append(dict(row["metrics"])["recall@5"])
        other = {row["question_id"]: dict(row["metrics"]) for row in rows if row["method"] == "bm25"}
        expected = bootstrap_difference(
            [sum(values) / len(values) for values in own.values()], [other[q]["recall@5"] for q in own], resamples=300
        )
        (found,) = (
            row
            for row in holdout.differences(outcome, config, ["bm25"])
            if (row.method, row.metric, row.group) == (f"{method} - bm25", "recall@5", "all")
        )
        assert (found.value, found.p_value) == (
            pytest.approx(expected.value),
            pytest.approx(expected.p_value, abs=0.02),
        )
        assert found.ci_low == pytest.approx(expected.low, abs=0.02)


@pytest.mark.parametrize("file", ["aeg/new.py", "configs/small.yaml"])
def test_a_tree_that_differs_from_its_commit_opens_nothing(tree, places, capsys, file):
    (tree / file).parent.mkdir(exist_ok=True)
    with (tree / file).open("a") as changed:
        changed.write("# changed\n")
    assert call(tree, *places) == 2
    assert call(tree, *places, "--dry-run") == 2
    assert (
        f"1 files differ from commit {holdout._git(tree, 'rev-parse', 'HEAD')[:12]} ({file})" in capsys.readouterr().err
    )
    assert not logged(tree)


def test_a_folder_without_git_opens_nothing(tmp_path):
    with pytest.raises(DataError, match="no git commit"):
        holdout.commit(tmp_path, tmp_path / "log.jsonl")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["num_questions=5"], "num_questions: got 5, expected null"),
        (["--against", "bm24"], "--against bm24: not a method of .* Did you mean 'bm25'"),
        (["corpus={name: jsonl, documents: nowhere.jsonl}"], "nowhere.jsonl"),
        (["propagation.0.restart=2"], r"propagation\.0\.restart: got 2"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_opened(tree, places, capsys, arguments, message):
    assert call(tree, *places, *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)
    assert not logged(tree)


def test_a_config_outside_the_checkout_is_refused(tree, tmp_path, capsys):
    outside = tmp_path / "outside.yaml"
    outside.write_text(CONFIG)
    assert holdout.main([str(outside)], tree / "log.jsonl", tree) == 2
    assert "not a file of" in capsys.readouterr().err


def test_a_broken_log_is_told_with_its_line(tree, capsys):
    log = tree / "experiments" / "log.jsonl"
    log.write_text('{"date": "2026"}\n')
    assert holdout.main(["--table"], log, tree) == 2
    assert "line 1: not a line of this log (KeyError('commit'))" in capsys.readouterr().err
    log.unlink()
    assert holdout.main(["--table"], log, tree) == 0
    assert capsys.readouterr().out == "The held-out half has not been opened.\n"


def test_the_committed_log_can_be_read():
    holdout.entries(holdout.LOG)

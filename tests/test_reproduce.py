"""A run is run again from its manifest: the same, or every difference told."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aeg.config.load import load_config
from aeg.errors import DataError
from aeg.experiment.differences import compare_runs, leaves
from aeg.experiment.run import run
from experiments.reproduce import main, recorded_config

SMALL = (
    *("num_questions=6", "propagation=[{name: ppr}, {name: rwr}]", "evaluation.baselines=[bm25]"),
    *("evaluation.resamples=200", "device=cpu"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("reproduce")
    places = [f"run_dir={place / 'runs'}", f"artifacts_dir={place / 'artifacts'}"]
    return run(load_config("quickstart", [*SMALL, *places]), lambda _: None).folder


@pytest.fixture
def changed(folder, tmp_path) -> Path:
    """A copy of the run folder, to be changed."""
    return Path(shutil.copytree(folder, tmp_path / "changed"))


def edit(path: Path, change) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def again(folder: Path, capsys, *options: str) -> tuple[int, dict]:
    """Run it again with the stages of the first run, so that it is quick."""
    capsys.readouterr()
    code = main([str(folder), "--json", *(options or ("--artifacts",))])
    return code, json.loads(capsys.readouterr().out)


def told(report: dict, kind: str) -> dict[str, tuple]:
    return {d["where"]: (d["before"], d["after"]) for d in report["differences"] if d["kind"] == kind}


def test_a_run_is_reproduced_exactly_with_nothing_taken_from_a_cache(folder, tmp_path, capsys):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, report = again(folder, capsys, "--out", str(tmp_path / "out"))
    assert (code, report["same"]) == (0, True)
    assert not [d for d in report["differences"] if d["kind"] != "code"]
    assert report["tallies"]["rankings"]["exact"] == 18
    assert report["tallies"]["metrics"]["exact"] > 500
    assert {"data", "counts", "usage", "versions", "device", "models"} <= set(report["tallies"])
    assert report["not_recorded"] == []
    manifest = json.loads((Path(report["folder"]) / "manifest.json").read_text())
    assert manifest["encoder_counts"]["encoded"] > 1000  # computed, not found
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_changed_metric(changed, capsys):
    edit(changed / "metrics.json", lambda rows: rows[0].update(value=rows[0]["value"] + 0.01))
    edit(changed / "metrics.json", lambda rows: rows[1].update(value=rows[1]["value"] + 1e-9))
    edit(changed / "metrics.json", lambda rows: rows.pop())
    code, report = again(changed, capsys)
    assert (code, report["same"]) == (1, False)
    row = json.loads((changed / "metrics.json").read_text())[0]
    where = f"{row['method']}, {row['metric']}, {row['group']}.value"
    assert told(report, "metrics")[where] == (row["value"], pytest.approx(row["value"] - 0.01))
    assert report["tallies"]["metrics"]["within"] == 1
    assert "(absent)" in [before for before, _ in told(report, "metrics").values()]


def test_a_changed_ranking_and_one_that_differs_by_a_tie(changed, capsys):
    path = changed / "results.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    first, second, third = rows[0], rows[1], rows[2]
    first["units"][2], first["units"][3] = first["units"][3], first["units"][2]
    first["unit_scores"][2] *= 2
    third["units"].pop()
    third["unit_scores"].pop()
    edited = pa.Table.from_pylist([first, *rows[1:-1]], schema=table.schema)
    pq.write_table(edited, path)
    code, report = again(changed, capsys)
    assert code == 1
    found = told(report, "rankings")
    name = f"{first['question_id']}, {first['method']}"
    assert found[f"{name}: units, rank 3"][0][0] == first["units"][2]
    assert f"{third['question_id']}, {third['method']}: units, rank {len(third['units']) + 1}" in found
    last = rows[-1]
    assert ("(absent)", "there") in found.values()
    assert second["question_id"] + ", " + second["method"] not in " ".join(found)
    assert last["method"] in " ".join(found)


def test_units_of_equal_score_may_change_places(changed, folder):
    path = changed / "results.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    for target in (folder, changed):
        units = rows[0]["units"][:]
        if target == changed:
            units[4], units[5] = units[5], units[4]
        scores = [*rows[0]["unit_scores"][:5], rows[0]["unit_scores"][4], *rows[0]["unit_scores"][6:]]
        one = {**rows[0], "units": units, "unit_scores": scores}
        target = target if target == changed else Path(shutil.copytree(folder, changed.parent / "tied"))
        pq.write_table(pa.Table.from_pylist([one, *rows[1:]], schema=table.schema), target / "results.parquet")
    found = compare_runs(changed.parent / "tied", changed)
    assert found.same
    assert found.tallies["rankings"] == Counter(exact=17, within=1)


def test_changed_data(folder, tmp_path, capsys):
    """The documents' file has another word than when the run was made."""
    source = Path(load_config("quickstart").corpus.get("path") or "")
    assert source == Path()  # the sample; so a corpus of files here
    documents = [{"id": f"d{n}", "text": f"Ann Marlow met Edith Crane in Keswick in {1900 + n}."} for n in range(5)]
    write = lambda: (tmp_path / "documents.jsonl").write_text("\n".join(map(json.dumps, documents)) + "\n")  # noqa: E731
    write()
    question = {"id": "q", "question": "Whom did Ann Marlow meet in 1901?", "gold_doc_ids": ["d1"]}
    (tmp_path / "questions.jsonl").write_text(json.dumps(question) + "\n")
    corpus = f"{{name: jsonl, documents: {tmp_path / 'documents.jsonl'}, questions: {tmp_path / 'questions.jsonl'}}}"
    places = [f"run_dir={tmp_path / 'runs'}", f"artifacts_dir={tmp_path / 'artifacts'}", "device=cpu", "workers=1"]
    settings = ["propagation=[{name: ppr}]", "evaluation.baselines=[]", "evaluation.resamples=100"]
    made = run(load_config(None, [f"corpus={corpus}", *settings, *places]), lambda _: None).folder
    assert again(made, capsys)[0] == 0
    documents[1]["text"] = documents[1]["text"].replace("met", "saw")
    write()
    code, report = again(made, capsys)
    assert (code, report["same"]) == (1, False)
    assert set(told(report, "data")) == {"corpus.data"}
    question["question"] = "Whom did Ann Marlow see in 1901?"
    (tmp_path / "questions.jsonl").write_text(json.dumps(question) + "\n")
    assert set(told(again(made, capsys)[1], "data")) == {"corpus.data", "corpus.asked"}
    (tmp_path / "documents.jsonl").unlink()
    code, report = again(made, capsys)
    assert (code, report["same"]) == (2, None)
    assert "no such file" in report["error"]
    assert "documents.jsonl" in report["error"]


def test_a_changed_default_is_told_and_the_recorded_value_is_run(changed, capsys):
    def older(manifest: dict) -> None:
        manifest["defaults"]["retrieval"]["depth"] = 77
        manifest["methods"]["propagation.0"]["restart"] = 0.45
        manifest["methods"]["propagation.1"]["gone"] = 1
        manifest["config"]["vanished"] = True
        del manifest["config"]["graph"]["synonym_top_k"]

    edit(changed / "manifest.json", older)
    code, report = again(changed, capsys)
    assert (code, report["same"]) == (1, False)
    found = told(report, "config")
    assert found["default of retrieval.depth"] == (77, 100)
    assert found["default of propagation.0.restart"][0] == 0.45
    assert found["default of propagation.1.gone"] == (1, "(absent)")
    assert found["vanished"] == (True, "(absent)")
    assert found["graph.synonym_top_k"] == ("(absent)", 100)
    methods = {where.split(", ")[1].split(":")[0] for where in told(report, "rankings")}
    assert methods == {"ppr"}  # run with restart 0.45, and rwr as before
    restored = recorded_config(json.loads((changed / "manifest.json").read_text())).config
    assert restored.propagation[0]["restart"] == 0.45


def test_circumstances_are_told_and_decide_only_with_strict(changed, capsys):
    def elsewhere(manifest: dict) -> None:
        manifest["libraries"]["torch"] = "1.0"
        manifest["git"] = {"commit": "0" * 40, "dirty": False}
        manifest["environment"]["OMP_NUM_THREADS"] = "77"
        manifest["device"] = "cuda:0 (a GPU)"
        del manifest["sources"]

    edit(changed / "manifest.json", elsewhere)
    code, report = again(changed, capsys)
    assert (code, report["same"]) == (0, True)
    assert told(report, "versions")["libraries.torch"][0] == "1.0"
    assert told(report, "code")["git.commit"][0] == "0" * 40
    assert told(report, "device")["device"] == ("cuda:0 (a GPU)", "cpu")
    assert told(report, "environment")["environment.OMP_NUM_THREADS"][0] == "77"
    assert report["not_recorded"] == ["sources"]
    capsys.readouterr()
    assert main([str(changed), "--artifacts", "--strict"]) == 1
    out = capsys.readouterr().out
    assert "not part of the result" in out
    assert "libraries.torch" in out
    assert out.rstrip().splitlines()[-2].endswith("NOT the same")


def test_prompts_usage_and_counts(changed, capsys):
    def other(manifest: dict) -> None:
        manifest["prompts"] = {"sieve": "0" * 64}
        manifest["parts"]["corpus"]["counts"]["graph"]["atoms_merged"] = -1

    edit(changed / "manifest.json", other)
    edit(changed / "usage.json", lambda usage: usage["modules"][0].update(calls=3, prompt_tokens=5))
    code, report = again(changed, capsys)
    assert code == 1
    assert told(report, "models") == {"prompts.sieve": ("0" * 64, "(absent)")}
    assert told(report, "counts")["corpus.counts.graph.atoms_merged"][0] == -1
    assert sorted(before for before, _ in told(report, "usage").values()) == [3, 5]


def test_what_cannot_be_run_again(folder, changed, tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "no finished run here" in capsys.readouterr().err
    assert main([str(folder), "--out", str(folder.parent)]) == 2
    assert "would be written over" in capsys.readouterr().err
    reader = {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}

    def asking(manifest: dict) -> None:
        manifest["config"]["answer"] = {"name": "llm"}
        manifest["config"]["llm"]["reader"] = reader

    def forgotten(manifest: dict) -> None:
        manifest["config"]["answer"] = {"name": "none"}
        manifest["config"]["propagation"] = [{"name": "gone"}]

    edit(changed / "manifest.json", asking)
    assert main([str(changed)]) == 2
    assert "asks language models (reader): give --artifacts DIR" in capsys.readouterr().err
    edit(changed / "manifest.json", forgotten)
    assert main([str(changed)]) == 2
    assert "unknown propagation method 'gone'" in capsys.readouterr().err
    (changed / "manifest.json").write_text("[]")
    with pytest.raises(DataError, match="not the manifest of a run"):
        compare_runs(changed, folder)


def test_values_are_compared_as_what_they_are():
    def how(before, after):
        return [found[3] for found in leaves(before, after, 1e-6)]

    assert how(1, 1.0) == how(float("nan"), float("nan")) == how("a", "a") == how(None, None) == ["exact"]
    assert how(True, 1) == how("1", 1) == how(None, 0) == how([1], [1, 2]) == how({"a": 1}, [1]) == ["differ"]
    assert how(1.0, 1.0 + 1e-8) == how(1e12, 1e12 + 1) == ["within"]
    assert how({"a": 1}, {"b": 1}) == ["differ", "differ"]

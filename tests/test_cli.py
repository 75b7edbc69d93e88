"""The command line: indexes of one's own documents, the contract command, and errors in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aeg.cli.main import main

DOCUMENTS = {
    "ann.md": "# Ann Marlow\n\nAnn Marlow is a geologist. She leads the Tarn Laboratory (TL) in Keswick.",
    "tarn.txt": "The Tarn Laboratory was founded in 1921 by Edith Crane. It studies lake sediments.",
    "edith.txt": "Edith Crane was a chemist from Zürich. She wrote a book about Lake Thun.",
    "rain.txt": "It rained again.",
    "nothing.txt": "",
    "blank.txt": " \n\t\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("documents")
    for name, text in DOCUMENTS.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def index(folder, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("index") / "own"
    assert main(["index", str(folder), "--out", str(path), "device=cpu", "workers=1"]) == 0
    return path


def asked(index: Path, question: str, capsys, *options: str) -> list[dict]:
    capsys.readouterr()
    assert main(["query", str(index), question, "--json", *options]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_two_hop_question_finds_both_documents(index, capsys):
    found = asked(index, "Who founded the laboratory that Ann Marlow leads?", capsys)
    documents = [source[0] for item in found[:4] for source in item["sources"]]
    assert {"ann.md", "tarn.txt"} <= set(documents)
    best = found[0]
    assert best["rank"] == 1
    assert best["entities"]
    assert 0 < sum(share for _, share in best["entities"]) <= 1.000001
    start, end = best["sources"][0][2]
    assert 0 <= start < end


def test_a_document_without_entities_is_found_by_its_text_scenario_3(index, capsys):
    assert asked(index, "Did it rain again?", capsys)[0]["atom"] == "It rained again."


def test_a_question_that_names_nothing_known_scenario_4(index, capsys):
    assert asked(index, "Where is Xyzzy Plugh?", capsys, "--top", "3")


def test_the_text_form_names_document_and_entities(index, capsys):
    capsys.readouterr()
    assert main(["query", str(index), "Who was Edith Crane?", "--top", "2"]) == 0
    out = capsys.readouterr().out
    assert "  1. " in out
    assert "from document " in out
    assert "through " in out
    assert "%" in out


def test_queries_write_nothing_to_the_index(index, capsys):
    def files() -> list[tuple[str, int]]:
        return sorted((str(f), f.stat().st_mtime_ns) for f in index.rglob("*") if f.is_file())

    before = files()
    asked(index, "What does the Tarn Laboratory study?", capsys)
    assert files() == before


def test_stats(index, capsys):
    capsys.readouterr()
    assert main(["stats", str(index), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["atoms"] == 8
    assert found["counts"]["passages_empty"] == 2
    assert found["isolated_atoms"] == 2  # "It rained again." and "It studies lake sediments."
    assert main(["stats", str(index)]) == 0
    assert "average clustering" in capsys.readouterr().out


def test_indexing_again_changes_nothing(index, folder, capsys):
    before = {f: f.read_bytes() for f in index.rglob("*") if f.is_file()}
    assert main(["index", str(folder), "--out", str(index), "device=cpu", "workers=1"]) == 0
    assert {f: f.read_bytes() for f in index.rglob("*") if f.is_file()} == before


def test_an_interrupted_index_is_told_and_resumed(folder, tmp_path, capsys):
    index = tmp_path / "index"
    (index / "extraction" / "0").mkdir(parents=True)
    assert main(["query", str(index), "Who?"]) == 2
    assert "index incomplete" in capsys.readouterr().err
    assert main(["query", str(tmp_path / "none"), "Who?"]) == 2
    assert "no index here" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["It rained.", "Ann met Bix."])
def test_a_corpus_of_one_atom_scenario_4(tmp_path, capsys, text):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "only.txt").write_text(text)
    assert main(["index", str(tmp_path / "one"), "--out", str(tmp_path / "index"), "device=cpu"]) == 0
    assert [item["atom"] for item in asked(tmp_path / "index", "Did it rain on Ann?", capsys)] == [text]


def test_check_method(capsys):
    assert main(["check-method", "ppr", "restart=0.2"]) == 0
    assert "contract holds" in capsys.readouterr().out
    assert main(["check-method", "pprr"]) == 2
    assert "Did you mean 'ppr'?" in capsys.readouterr().err


PLUGIN = '''
"""A method from outside the repository."""
from dataclasses import dataclass
import numpy as np
from aeg.propagation import METHODS, Info, Propagation


@METHODS.register("{name}")
@dataclass(frozen=True)
class OneStep(Propagation):
    """One step of the walk."""

    def propagate(self, op, seeds, context):
        return {expression}, Info.exact(seeds.shape[1], 1, seeds.device)

    def reference(self, weights, seeds):
        degree = weights.sum(0)
        return weights @ (seeds / np.where(degree > 0, degree, np.inf)[:, None])
'''


def test_a_plugin_from_outside_the_repository(tmp_path, capsys):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(PLUGIN.format(name="one_step", expression="op.pt(seeds)"))
    bad.write_text(PLUGIN.format(name="bad_step", expression="op.pt(seeds) + 0.1"))
    assert main(["check-method", "one_step", "--plugin", str(good)]) == 0
    assert main(["check-method", "bad_step", "--plugin", str(bad)]) == 1
    out = capsys.readouterr().out
    assert "FAIL" in out
    assert "checks fail" in out
    assert main(["check-method", "x", "--plugin", str(tmp_path / "none.py")]) == 2
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    assert main(["check-method", "x", "--plugin", str(tmp_path / "broken.py")]) == 2
    assert "fails on import" in capsys.readouterr().err


def wrong_runs(tmp_path: Path) -> dict[str, tuple[list[str], str]]:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"id": "1", "text": "a"}\n{"id": "2", "text"\n')
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes('{"id": "1", "text": "Zürich"}\n'.encode("latin-1"))
    good = tmp_path / "good.jsonl"
    good.write_text('{"id": "1", "text": "Ann met Bix in Cadiz."}\n')
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    shape = tmp_path / "shape.jsonl"
    shape.write_text('["1", "text"]\n')
    return {
        "missing": (["corpus={name: jsonl, documents: /no/such.jsonl}"], "/no/such.jsonl"),
        "broken": ([f"corpus={{name: jsonl, documents: {broken}}}"], "line 2"),
        "latin": ([f"corpus={{name: jsonl, documents: {latin}}}"], "UTF-8"),
        "shape": ([f"corpus={{name: jsonl, documents: {shape}}}"], "line 1"),
        "no questions": ([f"corpus={{name: jsonl, documents: {good}, questions: {empty}}}"], "question"),
        "none at all": ([f"corpus={{name: jsonl, documents: {good}}}", "extraction={name: syntactic}"], "no questions"),
        "method": (["propagation=[{name: pagerank}]"], "unknown propagation method 'pagerank'"),
        "device": (["device=cuda:7"], "cuda:7"),
        "config key": (["devise=cpu"], "Did you mean 'device'"),
        "data set": (["corpus={name: two_wiki, path: /no/such}"], "/no/such"),
        "extraction": (["extraction={name: recorded, path: /no/such.jsonl}"], "/no/such.jsonl"),
    }


CASES = (
    "missing",
    "broken",
    "latin",
    "shape",
    "no questions",
    "none at all",
    "method",
    "device",
    "config key",
    "data set",
    "extraction",
)


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_told_in_one_line(tmp_path, capsys, case):
    overrides, cause = wrong_runs(tmp_path)[case]
    places = [f"run_dir={tmp_path / 'runs'}", f"artifacts_dir={tmp_path / 'artifacts'}"]
    assert main(["run", "quickstart", *places, *overrides]) == 2
    err = capsys.readouterr().err
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert cause in line
    assert "Traceback" not in err


def test_debug_shows_the_traceback():
    command = [sys.executable, "-m", "aeg", "run", "--debug", "quickstart", "devise=cpu"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "Traceback" in run.stderr
    assert "error: devise: unknown key" in run.stderr


def test_experiments_run_is_the_same_program(repo_root):
    command = [sys.executable, "-m", "experiments.run", "quickstart", "devise=cpu"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=repo_root)
    assert run.returncode == 2
    assert (
        run.stderr
        == "error: devise: unknown key. Did you mean 'device'? Available: " + run.stderr.split("Available: ")[1]
    )

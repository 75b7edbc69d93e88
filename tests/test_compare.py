"""Comparing runs: which systems there are, their numbers against references, and what is written."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
from compare_helpers import write_run, write_sweep

from aeg.cli.main import main
from aeg.errors import DataError
from aeg.evaluation.bootstrap import bootstrap_difference
from aeg.evaluation.trec import read_qrels, read_run
from aeg.experiment.compare import MACRO, Comparison, compare
from aeg.experiment.compare.latex import as_latex, escaped
from aeg.experiment.compare.statistics import holm
from aeg.experiment.compare.text import as_csv, described

QUESTIONS = [f"q{i}" for i in range(30)]
RNG = np.random.default_rng(0)
BASE = {q: float(v) for q, v in zip(QUESTIONS, RNG.integers(0, 3, 30) / 4, strict=True)}
TYPES = {q: "easy" if i % 3 else "hard" for i, q in enumerate(QUESTIONS)}
GOLD = {q: [f"{q}-gold"] for q in QUESTIONS}


def shifted(by: float, every: int = 1) -> dict[str, float]:
    return {q: v + by * (i % every == 0) for i, (q, v) in enumerate(BASE.items())}


@pytest.fixture
def run(tmp_path) -> Path:
    values = {"ppr": {"recall@5": BASE}, "katz": {"recall@5": shifted(0.25)}, "none": {"recall@5": shifted(-0.25, 9)}}
    documents = {m: {q: [f"{q}-{m}", f"{q}-gold"] for q in QUESTIONS} for m in values}
    return write_run(tmp_path / "run", values, TYPES, documents, GOLD)


def row(comparison: Comparison, system: str, dataset: str = "data", metric: str = "recall@5"):
    found = comparison.row(metric, dataset, system)
    assert found is not None
    return found


def test_the_methods_of_one_run(run):
    found = compare([run], "ppr", resamples=500)
    assert found.systems == ("ppr", "katz", "none")
    assert (found.datasets, found.metrics, found.pairs) == (("data",), ("recall@5",), 2)
    katz, none = row(found, "katz").versus, row(found, "none").versus
    assert row(found, "ppr").versus is None
    assert (katz.value, katz.low, katz.high) == pytest.approx((0.25, 0.25, 0.25))
    assert (katz.wins, katz.ties, katz.losses) == (30, 0, 0)
    assert (none.wins, none.ties, none.losses) == (0, 26, 4)
    ordered = sorted(QUESTIONS)
    expected = bootstrap_difference([shifted(-0.25, 9)[q] for q in ordered], [BASE[q] for q in ordered], resamples=500)
    assert (none.value, none.low, none.high) == pytest.approx((expected.value, expected.low, expected.high))
    assert [katz.corrected, none.corrected] == holm([katz.p, none.p])
    assert (katz.p, none.p > 0.05) == (1 / 501, True)
    types = {(t.system, t.type): (t.n, t.wins, t.ties, t.losses) for t in found.types}
    assert types["none", "hard"] == (10, 0, 6, 4)
    assert types["none", "easy"] == (20, 0, 20, 0)


def test_the_questions_that_changed_most_with_their_evidence(run):
    found = compare([run], "ppr", resamples=100, most=2)
    assert [(c.system, c.question_id) for c in found.changes if c.system == "none"] == [("none", "q0"), ("none", "q18")]
    change = next(c for c in found.changes if c.system == "none")
    assert change.question == "Who is q0?"
    assert [(u.text, u.other) for u in change.before.units] == [
        ("The text of q0-ppr.", False),
        ("The text of q0-gold.", True),
    ]
    assert change.after.documents == (("q0-none", False), ("q0-gold", True))
    assert change.after.value - change.before.value == pytest.approx(-0.25)
    text = described(found)
    assert "changed most: none against ppr (data, q0, hard)" in text
    assert "- The text of q0-ppr." in text
    assert "q0-gold (gold)" in text
    assert compare([run], "ppr", resamples=100, most=0).changes == ()


def test_a_sweep_over_data_sets_variants_and_seeds(tmp_path):
    rest = {"bm25": {"recall@5": shifted(0.5)}}
    runs = []
    for dataset, corpus in (("medical", "m"), ("wiki", "w")):
        for restart, gain in ((0.1, 0.0), (0.3, 0.25)):
            for seed in (0, 1):
                of_seed = {"ppr": {"recall@5": shifted(gain + 0.1 * seed)}, **rest}
                path = write_run(tmp_path / f"{dataset}-{restart}-{seed}", of_seed, TYPES, corpus=corpus)
                axes = {"dataset": dataset, "propagation.0.restart": restart, "seed": seed}
                runs.append((axes, f"restart={restart}", path))
    folder = write_sweep(tmp_path / "sweep", runs, "restart=0.1")
    found = compare([folder], resamples=200)
    assert found.systems == ("restart=0.1", "restart=0.3", "bm25")  # bm25 is the same in all variants
    assert found.datasets == ("medical", "wiki", MACRO)
    assert found.baseline == "restart=0.1"
    assert row(found, "restart=0.3", "wiki").value == pytest.approx(np.mean(list(BASE.values())) + 0.3)
    assert row(found, "restart=0.3", MACRO).versus.value == pytest.approx(0.25)
    assert row(found, "restart=0.3", MACRO).n == 60
    assert found.pairs == 6
    assert found.axes["restart=0.3"] == {"propagation.0.restart": 0.3}
    with pytest.raises(DataError, match=r"no system is called so\. Did you mean 'restart=0\.3'"):
        compare([folder], "restart=0.33")


def test_the_macro_average_weighs_data_sets_alike(tmp_path):
    small = {q: v for q, v in BASE.items() if q in QUESTIONS[:5]}
    one = {"ppr": {"recall@5": BASE}, "katz": {"recall@5": shifted(0.1)}}
    two = {"ppr": {"recall@5": small}, "katz": {"recall@5": {q: v + 0.5 for q, v in small.items()}}}
    folders = [write_run(tmp_path / "a", one, corpus="one"), write_run(tmp_path / "b", two, corpus="two")]
    found = compare(folders, "ppr", resamples=300)
    assert row(found, "katz", MACRO).versus.value == pytest.approx(0.3)
    assert row(found, "katz", MACRO).value == pytest.approx(
        (row(found, "katz", "one").value + row(found, "katz", "two").value) / 2
    )


def test_two_methods_in_several_variants_and_what_is_called_the_same(tmp_path):
    runs = []
    for name, gain in (("full", 0.0), ("half", 0.25)):
        values = {"ppr": {"recall@5": shifted(gain)}, "katz": {"recall@5": shifted(gain / 2)}}
        runs.append(({"variant": name}, name, write_run(tmp_path / name, values)))
    folder = write_sweep(tmp_path / "sweep", runs)
    found = compare([folder], resamples=100)
    assert found.systems == ("ppr, full", "katz, full", "ppr, half", "katz, half")
    assert found.notes == ("baseline: ppr, full, the first system (choose with --baseline)",)
    for by, systems in ((3e-8, 5), (1e-4, 6)):  # what an encoder's batches round, and what they do not
        runs = []
        for name, gain in (("one", 0.0), ("two", 0.25)):
            rounded = {"recall@5": shifted(by * (name == "two"))}
            values = {"ppr": {"recall@5": shifted(gain)}, "katz": {"recall@5": shifted(gain / 2)}, "bm25": rounded}
            runs.append(({"variant": name}, name, write_run(tmp_path / f"{name}-{by}", values)))
        assert len(compare([write_sweep(tmp_path / f"sweep-{by}", runs)], resamples=100).systems) == systems
    twice = compare([tmp_path / "full", tmp_path / "half"], "ppr, full", resamples=100)
    assert twice.systems == found.systems
    assert compare([folder, tmp_path / "full"], resamples=100).systems == found.systems  # one run, given twice


def test_questions_that_one_of_the_two_lacks_are_left_out_and_counted(tmp_path):
    few = {q: v + 0.25 for q, v in BASE.items() if q in QUESTIONS[:20]}
    run = write_run(tmp_path / "run", {"ppr": {"mrr": BASE}, "katz": {"mrr": few}})
    versus = row(compare([run], "ppr", ["mrr"], resamples=100), "katz", metric="mrr").versus
    assert (versus.n, versus.excluded, versus.value) == (20, 10, pytest.approx(0.25))


def test_runs_that_are_not_finished_and_data_that_differ_are_told(tmp_path):
    done = write_run(tmp_path / "done", {"ppr": {"recall@5": BASE}})
    other = write_run(tmp_path / "other", {"ppr": {"recall@5": shifted(0.1)}}, content="y")
    broken = write_run(tmp_path / "broken", {"ppr": {"recall@5": BASE}})
    (broken / "manifest.json").unlink()
    (broken / "state.json").write_text(json.dumps({"status": "failed"}))
    runs = [({"variant": p.name, "dataset": "data"}, p.name, p) for p in (done, other, broken)]
    found = compare([write_sweep(tmp_path / "sweep", runs)], "done", resamples=100)
    assert "left out, not finished: broken (broken): failed" in found.notes
    assert "data: runs have different documents: done, other" in found.notes
    assert found.systems == ("done", "other")
    with pytest.raises(DataError, match="no finished run; left out, not finished: broken"):
        compare([broken])
    with pytest.raises(DataError, match="neither a sweep's folder"):
        compare([tmp_path])
    with pytest.raises(DataError, match=r"--metric recall@6: not measured\. Did you mean 'recall@5'"):
        compare([done], metrics=["recall@6"])


def test_a_trec_run_of_another_system_takes_part(run, tmp_path):
    file = tmp_path / "theirs.run"
    lines = [f"{q} Q0 {q}-gold 1 2.0 their-tag\n{q} Q0 x 2 1.0 their-tag\n" for q in QUESTIONS[:-2]]
    file.write_text("".join([*lines, "stray Q0 x 1 1.0 their-tag\n"]))
    found = compare([run], "ppr", runs=[str(file)], resamples=100)
    assert found.systems[-1] == "their-tag"
    assert row(found, "their-tag").value == pytest.approx(28 / 30)
    assert found.notes == (
        "their-tag on data: ranks nothing for 2 of 30 questions (scored 0); 1 of its questions are not in the data set",
    )
    named = compare([run], "ppr", runs=[f"Theirs={file}@data"], resamples=100)
    assert named.systems[-1] == "Theirs"
    side = next(c for c in named.changes if c.system == "Theirs").after
    assert (side.units, side.documents) == ((), ())
    for given, message in (
        (f"ppr={file}", "there is a system 'ppr' already"),
        (f"A={file}@dat", r"no data set is called 'dat'\. Did you mean 'data'"),
        (f"A={tmp_path / 'no.run'}", "No such file"),
    ):
        with pytest.raises(DataError, match=message):
            compare([run], runs=[given])
    (tmp_path / "alien.run").write_text("z1 Q0 d 1 1.0 t\n")
    with pytest.raises(DataError, match="no data set has its questions"):
        compare([run], runs=[str(tmp_path / "alien.run")])


def test_the_values_are_those_of_ir_measures(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ir_measures import RR, R, calc_aggregate, nDCG
    rng = np.random.default_rng(7)
    gold = {q: [f"d{i}" for i in rng.choice(40, size=int(rng.integers(1, 5)), replace=False)] for q in QUESTIONS}
    lines = [
        f"{q} Q0 d{doc} {rank} {100 - rank} other\n"
        for q in QUESTIONS
        for rank, doc in enumerate(rng.permutation(40)[:20])
    ]
    file = tmp_path / "other.run"
    file.write_text("".join(lines))
    values = {"ppr": dict.fromkeys(("recall@2", "recall@5", "mrr", "ndcg@5"), BASE)}
    folder = write_run(tmp_path / "run", values, gold=gold)
    metrics = list(values["ppr"])
    found = compare([folder], "ppr", metrics, runs=[str(file)], resamples=100)
    qrels = read_qrels(folder / "trec" / "qrels.txt")
    run = {query: dict(ranked) for query, ranked in read_run(file).rankings.items()}
    theirs = calc_aggregate([R @ 2, R @ 5, RR, nDCG @ 5], qrels, run)
    for metric, measure in zip(metrics, (R @ 2, R @ 5, RR, nDCG @ 5), strict=True):
        assert row(found, "other", metric=metric).value == pytest.approx(theirs[measure], abs=1e-9), metric


@pytest.fixture
def comparison(run) -> Comparison:
    return compare([run], "ppr", resamples=200)


def test_the_csv_has_every_number(comparison):
    rows = list(csv.DictReader(io.StringIO(as_csv(comparison))))
    assert len(rows) == len(comparison.rows) + len(comparison.types)
    katz = next(r for r in rows if r["system"] == "katz" and not r["type"])
    versus = row(comparison, "katz").versus
    assert float(katz["difference_value"]) == versus.value
    assert float(katz["corrected"]) == versus.corrected
    hard = next(r for r in rows if r["system"] == "none" and r["type"] == "hard")
    assert (hard["wins"], hard["ties"], hard["losses"], hard["n"]) == ("0", "6", "4", "10")


def test_the_latex_marks_the_best_and_the_significant(comparison, tmp_path):
    text = as_latex(comparison)
    katz = 100 * row(comparison, "katz").value
    assert rf"katz & \textbf{{{katz:.1f}}}$^{{\uparrow}}$ \\" in text
    assert re.search(r"none & \d+\.\d \\\\", text)  # four questions: not significant
    assert text.count("\\toprule") == text.count("\\bottomrule") == 1
    assert escaped("a_b & 50 % #1 {x} ~ ^ \\ Zürich Ω λ 青") == (
        r"a\_b \& 50 \% \#1 \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{} Zürich $\Omega$ $\lambda$ "
        "[cjk unified ideograph-9752]"
    )


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex (texlive-latex-base and -recommended)")
def test_the_latex_compiles(tmp_path):
    odd = "ρ=0.3, ½_of Zürich & 50 % #1"
    values = {"ppr": {"recall@5": BASE, "ndcg@5": BASE}, odd: {"recall@5": shifted(0.25), "ndcg@5": shifted(-0.25)}}
    folders = [write_run(tmp_path / name, values, corpus=f"{name}_{{x}}") for name in ("a", "b")]
    table = as_latex(compare(folders, "ppr", ["recall@5", "ndcg@5"], resamples=100))
    (tmp_path / "table.tex").write_text(table)
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n\\input{table}\n\\end{document}\n"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 10_000


def test_the_program_writes_all_it_is_asked_for(run, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["compare", str(run), "--baseline", "ppr", "--metric", "recall@5", "--resamples", "200"]
    files = ["--csv", str(tmp_path / "c.csv"), "--latex", str(tmp_path / "t.tex"), "--plots", str(out)]
    assert main([*arguments, *files]) == 0
    text = capsys.readouterr().out
    assert "katz" in text
    assert "30/0/0" in text
    for kind, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        assert (out / f"differences-recall-5.{kind}").read_bytes().startswith(magic)
    assert (tmp_path / "c.csv").read_text().startswith("metric,")
    assert main([*arguments, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["pairs"] == 2
    assert {r["system"] for r in content["rows"]} == {"ppr", "katz", "none"}
    assert main([*arguments[:2], "--baseline", "pqr"]) == 2
    assert main([*arguments, "--csv", str(tmp_path / "no" / "c.csv")]) == 2
    assert "cannot be written" in capsys.readouterr().err

"""The paper's tables beside ours: cells, signs, rank correlation and verdicts, from the files of runs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import kendalltau

from aeg.errors import ConfigError, DataError
from aeg.experiment.paper import as_record, comparisons, lines, markdown
from aeg.experiment.paper.agreement import rank_agreement, sign_verdict
from aeg.experiment.paper.values import RunFiles, Sample
from aeg.experiment.results import ResultsWriter, result_schema

TYPES = ("easy", "hard")
QUESTIONS = 40


def write_run(folder, values, seconds=None, graph=None, usage=None, seed=0):
    """A finished run's files: `values` by method and metric, one value a question, questions of two types in turn."""
    folder.mkdir(parents=True)
    writer = ResultsWriter(folder / "results.parquet", result_schema())
    for method, metrics in values.items():
        rows = []
        for at in range(QUESTIONS):
            row = dict.fromkeys(result_schema().names)
            row |= {"part": "", "question_id": f"q{at:02d}", "type": TYPES[at % 2], "method": method, "seed": seed}
            row["metrics"] = [(metric, float(array[at])) for metric, array in metrics.items()]
            rows.append(row)
        writer.add(rows)
    writer.close()
    manifest = {"parts": {"corpus": {"graph": graph or {}}}, "seconds": {"a_query": seconds or {}}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "usage.json").write_text(json.dumps(usage or {"questions": QUESTIONS, "modules": [], "sides": {}}))


def write_sweep(folder, runs, paper):
    """`sweep.json` over runs given as (id, axes)."""
    home = folder / "t-sweep-1"
    home.mkdir(parents=True)
    entries = [
        {"id": name, "name": name, "axes": axes, "folder": f"../{name}", "config": {"propagation": [{"restart": 0.5}]}}
        for name, axes in runs
    ]
    sweep = {"format": 1, "name": "t", "config": "t.yaml", "baseline": None, "expected": None, "paper": paper}
    (home / "sweep.json").write_text(json.dumps({**sweep, "overrides": [], "command": "", "runs": entries}))
    return home


def section(**changes):
    return {
        "table": "Table 0",
        "title": "t",
        "measure": "accuracy",
        "metric": "score",
        "columns": {"Easy": {"group": "easy"}, "Avg.": {"group": "macro"}},
        "main": "Avg.",
        "reference": "a",
        "rows": {"a": [50.0, 60.0], "b": [40.0, 50.0], "c": [70.0, 70.0], "peer": [1.0, 2.0]},
        "find": [{"rows": {name: {"restart": at} for at, name in enumerate("abc")}}],
        **changes,
    }


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    base = rng.uniform(0.3, 0.6, QUESTIONS)
    noise = rng.normal(0, 0.02, QUESTIONS)
    return {"a": base, "b": base - 0.1 + noise, "c": base + noise}


@pytest.fixture
def sweep(tmp_path, scores):
    for name in "abc":
        write_run(tmp_path / name, {"ppr": {"score": scores[name]}, "dense": {"other": scores[name]}})
    return write_sweep(tmp_path, [(name, {"restart": at}) for at, name in enumerate("abc")], section())


def test_cells_hold_the_papers_value_ours_and_their_difference(sweep, scores):
    (one,) = comparisons(sweep)
    rows = {row.name: row for row in one.rows}
    easy, hard = scores["a"][::2], scores["a"][1::2]
    cell = rows["a"].cells["Easy"]
    assert (cell.paper, cell.unit, cell.n) == (50.0, "percent", QUESTIONS // 2)
    assert cell.ours == pytest.approx(100 * easy.mean())
    assert cell.low < cell.ours < cell.high
    assert cell.difference == pytest.approx(cell.ours - 50.0)
    assert rows["a"].cells["Avg."].ours == pytest.approx(50 * (easy.mean() + hard.mean()))
    assert rows["peer"].cells["Avg."].ours is None
    assert rows["peer"].against is None
    assert rows["b"].run_id == "b"
    assert one.missing == ()


def test_verdicts_go_by_sign_and_interval(sweep):
    (one,) = comparisons(sweep)
    rows = {row.name: row.against for row in one.rows}
    assert rows["a"] is None
    assert rows["b"].verdict == "holds"
    assert rows["b"].paper == -10
    assert rows["b"].high < 0
    assert rows["c"].verdict == "undecided"  # noise around nothing, where the paper gains ten points
    assert rows["c"].low < 0 < rows["c"].high
    assert one.counts == {"holds": 1, "undecided": 1}


def test_another_sign_fails(tmp_path, scores):
    write_run(tmp_path / "a", {"ppr": {"score": scores["a"]}})
    write_run(tmp_path / "b", {"ppr": {"score": scores["a"] + 0.2}})
    write_run(tmp_path / "c", {"ppr": {"score": scores["a"] - 0.2}})
    (one,) = comparisons(write_sweep(tmp_path, [(n, {"restart": at}) for at, n in enumerate("abc")], section()))
    assert one.counts == {"fails": 2}
    assert one.tau.verdict == "fails"
    assert one.tau.value == pytest.approx(-1.0)


def test_another_quantity_has_no_difference_anywhere(tmp_path, scores):
    for name in "abc":
        write_run(tmp_path / name, {"ppr": {"score": scores[name]}})
    runs = [(name, {"restart": at}) for at, name in enumerate("abc")]
    (one,) = comparisons(write_sweep(tmp_path, runs, section(same_quantity=False)))
    assert all(cell.difference is None for row in one.rows for cell in row.cells.values())
    assert one.counts == {"holds": 1, "undecided": 1}
    assert "ANOTHER quantity" in "\n".join(lines(one))


def test_data_sets_variants_and_readings_are_compared_apart(tmp_path, scores):
    runs = []
    for dataset in ("x", "y"):
        for at, name in enumerate("abc"):
            write_run(tmp_path / f"{dataset}{name}", {"ppr": {f"score_{dataset}": scores[name]}})
            runs.append((f"{dataset}{name}", {"dataset": dataset, "restart": at}))
    found = [
        {"reading": "up", "rows": {name: {"restart": at} for at, name in enumerate("abc")}},
        {"reading": "down", "rows": {name: {"restart": 2 - at} for at, name in enumerate("abc")}},
    ]
    paper = section(find=found, metric={"x": "score_x", "y": "score_y"}, columns={"Easy": {}, "Avg.": {"group": "all"}})
    results = comparisons(write_sweep(tmp_path, runs, paper))
    assert [(one.reading, one.facet["dataset"], one.ours) for one in results] == [
        ("up", "x", "score_x"),
        ("up", "y", "score_y"),
        ("down", "x", "score_x"),
        ("down", "y", "score_y"),
    ]
    up, down = results[0], results[2]
    assert [row.run_id for row in up.rows[:3]] == ["xa", "xb", "xc"]
    assert [row.run_id for row in down.rows[:3]] == ["xc", "xb", "xa"]
    assert up.rows[0].cells["Easy"].ours is None


def test_seeds_are_averaged_question_by_question(tmp_path, scores):
    write_run(tmp_path / "a0", {"rwr": {"score": scores["a"]}})
    write_run(tmp_path / "a1", {"rwr": {"score": scores["a"] + 0.2}}, seed=1)
    paper = section(rows={"a": [1.0, 2.0]}, find=[{"rows": {"a": {}}}])
    (one,) = comparisons(write_sweep(tmp_path, [("a0", {"seed": 0}), ("a1", {"seed": 1})], paper))
    expected = 100 * (scores["a"][::2].mean() + 0.1)
    assert one.rows[0].cells["Easy"].ours == pytest.approx(expected)
    assert one.rows[0].cells["Easy"].n == QUESTIONS // 2


def test_columns_over_data_sets_and_their_mean(tmp_path, scores):
    write_run(tmp_path / "x", {"ppr": {"score": scores["a"]}})
    write_run(tmp_path / "y", {"ppr": {"score": scores["b"]}})
    paper = section(
        columns={
            "X": {"dataset": "x", "group": "all"},
            "Y": {"dataset": "y", "group": "macro"},
            "Avg.": {"mean": ["X", "Y"]},
        },
        rows={"a": [1.0, 2.0, 3.0]},
        find=[{"rows": {"a": {"method": "ppr"}}}],
    )
    (one,) = comparisons(write_sweep(tmp_path, [("x", {"dataset": "x"}), ("y", {"dataset": "y"})], paper))
    x, y, mean = one.rows[0].cells.values()
    assert x.ours == pytest.approx(100 * scores["a"].mean())
    assert mean.ours == pytest.approx((x.ours + y.ours) / 2)
    assert mean.n == 2 * QUESTIONS


def test_a_run_that_is_not_finished_is_missing(tmp_path, scores):
    write_run(tmp_path / "a", {"ppr": {"score": scores["a"]}})
    runs = [(name, {"restart": at}) for at, name in enumerate("abc")]
    (one,) = comparisons(write_sweep(tmp_path, runs, section()))
    assert one.missing == ("b", "c")
    assert one.rows[1].cells["Avg."].ours is None
    assert "not finished: b, c" in lines(one)
    assert one.tau is None


def test_selectors_that_do_not_decide_are_refused(tmp_path, scores):
    write_run(tmp_path / "a", {"ppr": {"score": scores["a"]}, "katz": {"score": scores["b"]}})
    rows = {"rows": {"a": [1.0, 2.0]}, "find": [{"rows": {"a": {"restart": 0}}}]}
    home = write_sweep(tmp_path, [("a", {"restart": 0})], section(**rows))
    with pytest.raises(DataError, match="score of which of ppr, katz"):
        comparisons(home)
    with pytest.raises(DataError, match=r"sweep\.json"):
        comparisons(tmp_path)
    (home / "sweep.json").write_text((home / "sweep.json").read_text().replace('"paper": {', '"other": {'))
    with pytest.raises(ConfigError, match="repeats no table"):
        comparisons(home)


def test_graph_seconds_and_usage(tmp_path):
    graph = {"nodes": 10, "average_degree": 2.5}
    module = {"prompt_tokens": 100, "cached_prompt_tokens": 20, "completion_tokens": 5, "cached_completion_tokens": 0}
    usage = {
        "questions": QUESTIONS,
        "modules": [
            {"module": "Sieve", "seconds": 3.0, "cost": 0.5, **module},
            {"module": "Sieve", "seconds": 1.0, "cost": 0.5, **dict.fromkeys(module, 0)},
            {"module": "Answers", "seconds": 4.0, "cost": None, **module},
            {"module": "Evaluation", "seconds": 99.0, "cost": 9.0, **module},
        ],
        "sides": {"now": {"index": module}, "reused": {"index": module}},
    }
    write_run(tmp_path / "a", {}, {"ppr": 0.25, "katz": 0.5}, graph, usage)
    files = RunFiles(tmp_path / "a")

    def value(**spec):
        found = files.sample(spec, "", spec.pop("method", None))
        return None if found is None else found.number

    assert value(graph="nodes") == 10
    assert value(graph="unknown") is None
    assert value(seconds="query", method="katz") == 0.5
    assert value(usage="prompt", module="Sieve") == 120
    assert value(usage="tokens", module=["Sieve", "Answers"], scale=0.5) == 125
    assert value(usage="seconds", module="Sieve", share=True) == pytest.approx(50.0)
    assert value(usage="seconds") == 8.0
    assert value(usage="cost", module="Sieve") == 1.0
    assert value(usage="cost") is None  # a model without a price
    assert value(usage="index.tokens") == 250
    assert value(usage="prompt", module="Answers", per="question") == 120 / QUESTIONS


def test_signs():
    assert sign_verdict(-0.2, -0.1, -3) == "holds"
    assert sign_verdict(-0.2, -0.1, 3) == "fails"
    assert sign_verdict(-0.2, 0.1, 3) == "undecided"
    assert sign_verdict(0.1, 0.2, 0) == "undecided"


def test_rank_agreement_is_kendalls_tau():
    rng = np.random.default_rng(1)
    keys = tuple((f"{at:02d}",) for at in range(50))
    strata = tuple((str(at % 2),) for at in range(50))
    paper = [3.0, 1.0, 2.0, 2.0, 5.0]
    table = rng.random((5, 50))
    found = rank_agreement([(value, Sample(keys, row, strata)) for value, row in zip(paper, table, strict=True)])
    means = [(row[::2].mean() + row[1::2].mean()) / 2 for row in table]
    assert found.value == pytest.approx(kendalltau(paper, means).statistic)
    assert found.low <= found.value <= found.high
    assert found.verdict == "undecided"
    ordered = [(value, Sample(keys, row * 0.01 + value, strata)) for value, row in zip([1, 2, 3], table, strict=False)]
    assert rank_agreement(ordered) == rank_agreement(ordered)
    assert rank_agreement(ordered).verdict == "holds"


def test_text_markdown_and_plain_values(sweep):
    (one,) = comparisons(sweep)
    text = "\n".join(lines(one))
    assert "Table 0, t" in text
    assert "60.0 ¦" in text
    assert "Kendall's τ" in text
    table = [line for line in markdown(one).splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1
    record = json.loads(json.dumps(as_record(one), allow_nan=False))
    assert record["rows"][1]["against"]["verdict"] == "holds"
    assert math.isfinite(record["tau"]["value"])


def test_a_note_is_said_once_however_many_tables_a_sweep_gives(tmp_path, scores, capsys):
    from experiments.paper import main

    for name in "abc":
        write_run(tmp_path / name, {"ppr": {"score": scores[name]}})
    readings = [{"reading": str(one), "rows": {n: {"restart": at} for at, n in enumerate("abc")}} for one in (1, 2)]
    runs = [(name, {"restart": at}) for at, name in enumerate("abc")]
    folder = write_sweep(tmp_path, runs, section(find=readings, notes=["read me"]))
    assert main(["--run", str(folder), "--markdown", str(tmp_path / "o.md")]) == 0
    printed, written = capsys.readouterr().out, (tmp_path / "o.md").read_text()
    assert printed.count("Table 0, t") == 2
    assert (printed.count("note: read me"), written.count("- note: read me")) == (1, 1)


def test_the_program_prints_the_paper_and_ours(sweep, tmp_path, capsys):
    from experiments.paper import main

    assert main(["table12"]) == 0
    out = capsys.readouterr().out
    assert "73.1" in out
    assert "python -m experiments.ablate configs/paper/table12.yaml" in out
    assert main(["--run", str(sweep), "--json", str(tmp_path / "o.json"), "--markdown", str(tmp_path / "o.md")]) == 0
    assert "holds" in capsys.readouterr().out
    assert json.loads((tmp_path / "o.json").read_text())[0]["table"] == "Table 0"
    assert main(["tabel12"]) == 2
    assert "Did you mean 'table12'" in capsys.readouterr().err
    assert main(["table12", "--run", str(sweep)]) == 2
    assert "repeats Table 0, not Table 12" in capsys.readouterr().err

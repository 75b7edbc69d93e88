"""The report: what runs and sweeps gave, the paper's numbers beside ours, and nothing left out silently."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml
from report_helpers import Folders, folders  # noqa: F401

from aeg.config.load import load_config, restored
from aeg.errors import DataError
from aeg.experiment.run import run_folder
from aeg.report import document, write
from aeg.report.blocks import Block, Code, Document, Folded, Table
from aeg.report.command import flow, method_command, run_command
from aeg.report.folder import read, read_run
from aeg.report.trouble import troubles
from experiments.report import main


def section(made: Document, title: str) -> list[Block]:
    (found,) = (part for part in made.sections if part.title == title)
    return [inner for block in found.blocks for inner in (block.blocks if isinstance(block, Folded) else [block])]


def tables(made: Document, title: str) -> list[Table]:
    return [block for block in section(made, title) if isinstance(block, Table)]


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


@pytest.fixture(scope="module")
def made(folders: Folders) -> Document:  # noqa: F811
    return document(folders.all)


def test_the_numbers_are_the_run_s(made, folders):  # noqa: F811
    records = json.loads((folders.run / "metrics.json").read_text())
    value = {(r["method"], r["metric"]): r for r in records if r["group"] == "all"}
    table = tables(made, "Results")[0]
    assert table.flat_head[:3] == ["method", "recall @2", "recall @5"]
    assert [row[0] for row in texts(table)] == ["ppr", "katz", "rwr", "bm25"]
    for row in table.rows:
        told = value[row[0].text, "recall@5"]
        assert row[2].text == f"{100 * told['value']:.1f}"
        assert row[2].detail == f"±{50 * (told['ci_high'] - told['ci_low']):.1f}"


def test_the_best_is_marked_and_equal_numbers_share_it(made):
    for table in tables(made, "Results"):
        for column in range(1, len(table.head) - 1):
            cells = [row[column] for row in table.rows]
            best = {cell.text for cell in cells if cell.mark == "best"}
            if best:
                assert best == {max(cells, key=lambda cell: cell.number or 0.0).text}


def test_a_sweep_s_baseline_stands_once(made):
    rows = [row[0] for table in tables(made, "Results") for row in texts(table)]
    assert "ppr · restart=0.1" in rows
    assert rows.count("bm25 (in every run)") == 3  # passages, evidence, and types of question
    assert not [row for row in rows if row.startswith("bm25 · restart")]


def test_the_paper_s_numbers_stand_beside_ours(made, folders):  # noqa: F811
    (table,) = tables(made, "The paper's tables beside ours")
    assert table.flat_head[:4] == ["row", "Fact paper", "Avg. paper", "Avg. ours"]
    assert [row[2] for row in texts(table)] == ["72.2", "73.1", "72.3", "66.2"]
    assert not any("difference" in name for name in table.head)  # another quantity: none is shown
    index = json.loads((folders.sweep / "sweep.json").read_text())
    for row, run in zip(table.rows, index["runs"], strict=True):
        records = json.loads((folders.sweep / run["folder"] / "metrics.json").read_text())
        (ours,) = (r for r in records if (r["method"], r["metric"], r["group"]) == ("ppr", "recall@5", "all"))
        assert row[3].number == pytest.approx(100 * ours["value"])
        assert row[-1].text in ("holds", "fails", "undecided", "–")
    assert table.rows[1][-1].text == "–"  # the reference row is against nothing
    words = json.dumps([str(block) for block in section(made, "The paper's tables beside ours")])
    assert "Kendall" in words
    assert "different quantities" in words


def test_the_difference_is_shown_where_the_quantity_is_the_same(folders, tmp_path):  # noqa: F811
    copy = tmp_path / "same"
    shutil.copytree(folders.folder / "runs", copy)
    file = copy / folders.sweep.name / "sweep.json"
    content = json.loads(file.read_text())
    content["paper"]["same_quantity"] = True
    file.write_text(json.dumps(content))
    (table,) = tables(document([file.parent]), "The paper's tables beside ours")
    at = table.flat_head.index("Avg. difference")
    for row in table.rows:
        assert row[at].number == pytest.approx(row[at - 1].number - row[at - 2].number)
        assert row[at].text[0] in "+−"


def test_the_charts_of_a_sweep_follow_its_number(made):
    charts = {chart.anchor: chart for chart in made.charts}
    assert any(name.startswith("sensitivity-restart") for name in charts)
    assert any(name.startswith("recall-single") for name in charts)
    assert any(name.startswith("evidence-coverage-single") for name in charts)
    assert any(name.startswith("latency-single") for name in charts)
    assert any(name.startswith("plot-table-12") for name in charts)


def test_what_did_not_finish_is_told(made, folders):  # noqa: F811
    sweeps, single, swept = tables(made, "Runs")
    assert [row[0] for row in texts(sweeps)] == ["small", "fragile"]
    assert [row[1] for row in texts(sweeps)] == ["4 of 4 finished", "1 of 2 finished"]
    states = {(row[0], row[1]): row[2] for row in texts(swept)} | {("", row[0]): row[1] for row in texts(single)}
    assert states["fragile", "broken"] == "failed"
    assert states["", "late-00000000"] == "interrupted"
    assert len(states) == 8
    assert sum(state != "finished" for state in states.values()) == 2
    words = [block for block in section(made, "Failures and fall-backs") if isinstance(block, Code)]
    assert any("gone.jsonl" in block.text for block in words)
    (tail,) = (block.text for block in words if "line 39 <b>" in block.text)
    assert "line 20" not in tail  # the last lines only
    assert not [row for t in tables(made, "Results") for row in texts(t) if "broken" in row[0]]


def test_a_damaged_run_is_told_and_the_others_stay(folders, tmp_path):  # noqa: F811
    copy = tmp_path / folders.run.name
    shutil.copytree(folders.run, copy)
    (copy / "metrics.json").write_text('[{"method": "ppr"')
    assert read_run(copy).state == "unreadable"
    made = document([copy, folders.sweep])
    assert "metrics.json" in str(section(made, "Failures and fall-backs"))
    assert tables(made, "Results")
    (copy / "metrics.json").write_text('[{"method": "ppr"}]')
    assert "metric" in read_run(copy).error


def test_a_run_that_is_being_repeated_shows_no_old_numbers(folders, tmp_path):  # noqa: F811
    copy = tmp_path / folders.run.name
    shutil.copytree(folders.run, copy)
    (copy / "manifest.json").unlink()
    (copy / "state.json").unlink()
    assert read_run(copy).state == "unfinished"
    assert [part.title for part in document([copy]).sections] == ["Runs", "Failures and fall-backs", "Commands"]


def test_every_count_that_is_no_size_is_told():
    run = read_run_of(
        {
            "encoder_counts": {"encoded": 9, "truncated": 2},
            "questions": 5,
            "parts": {
                "corpus": {
                    "questions": 5,
                    "counts": {"seeds": {"effective_queries": 5, "fallback": 3}, "new stage": {"odd thing": 4}},
                    "flags": {"ppr": {"fallback": 3, "not_converged": 1}, "katz": {"not_converged": 1}},
                    "answers": {"ppr": {"exact_match": {"scored": 3, "skipped": 0, "failed": 2}}},
                }
            },
            "usage": {
                "modules": [{"module": "Atomic Sieve", "failures": 6, "tasks": [{"counts": {"quarantined": 7}}]}]
            },
        },
        {"num_questions": 5, "questions": "all"},
    )
    told = {(trouble.count, trouble.total) for trouble in troubles(run)}
    assert told == {(5, None), (2, None), (3, 5), (4, None), (1, 5), (2, 5), (6, None), (7, None)}
    assert any(trouble.where == "ppr, katz" for trouble in troubles(run))


def read_run_of(manifest: dict, config: dict):
    from aeg.report.folder import Run

    return Run("r", Path("r"), "finished", manifest, config=config)


def test_the_commands_repeat_their_rows(made, folders):  # noqa: F811
    lines = "\n".join(block.text for block in section(made, "Commands") if isinstance(block, Code))
    index = json.loads((folders.sweep / "sweep.json").read_text())
    assert index["command"] in lines.split("\n")
    for run in index["runs"]:
        assert f"{index['command']} --only {run['id']}  # {run['name']}" in lines


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("quickstart", []),
        ("medical_evidence", ["num_questions=7"]),
        ("two_wiki", ["query.linking={name: embedding, top_k: 5}", "operator.beta=1e-6", "name='a: b'"]),
        ("paper/defaults", ['propagation=[{name: ppr, restart: 0.7, label: "it\'s"}]', "evaluation.runs=[x.run]"]),
    ],
)
def test_a_command_gives_the_config_again(name, overrides):
    config = load_config(name, overrides)
    from aeg.config.load import to_plain

    command = run_command(to_plain(config))
    assert command is not None
    words = shlex.split(command)
    assert words[:2] == ["aeg", "run"]
    assert run_folder(load_config(words[2], words[3:])).name == run_folder(config).name
    if not overrides:
        assert words[2:] == [name]


def test_a_method_s_command_runs_that_method_alone(folders):  # noqa: F811
    quick = load_config("quickstart")
    from aeg.config.load import to_plain
    from aeg.report.folder import Run

    run = Run("r", Path("r"), "finished", config=to_plain(quick))
    words = shlex.split(method_command(run, "katz") or "")
    config = load_config(words[2], words[3:])
    assert [entry["name"] for entry in config.propagation] == ["katz"]
    assert config.evaluation.baselines == []
    assert method_command(run, "someone's.run") is None


@pytest.mark.parametrize("value", [1e-06, "null", "1.5", "a: b", "it's", "", None, True, [1, {"a": "x y"}], "é\n"])
def test_flow_is_yaml(value):
    assert yaml.safe_load(flow(value)) == value


def test_a_run_that_no_short_command_makes_keeps_its_config(folders, tmp_path):  # noqa: F811
    write([folders.run], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    found = re.search(r"aeg run (configs/\S+\.yaml)", text)
    if found is None:
        assert "aeg run" in text
        return
    config = load_config(tmp_path / "out" / found[1])
    manifest = json.loads((folders.run / "manifest.json").read_text())
    assert run_folder(config).name == run_folder(restored(manifest["config"])).name == folders.run.name


def test_the_files(folders, tmp_path):  # noqa: F811
    first, second = tmp_path / "a", tmp_path / "b"
    files = write(folders.all, first)
    write(folders.all, second)
    names = sorted(path.relative_to(first).as_posix() for path in first.rglob("*") if path.is_file())
    assert {"index.html", "report.md"} < set(names)
    assert len([name for name in names if name.startswith("plots/")]) == len(files) - 2 >= 6
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), f"{name} differs"
    for name in (name for name in names if name.endswith(".svg")):
        root = ElementTree.fromstring((first / name).read_text())
        assert root.tag.endswith("svg")
        assert "#0a0" not in (first / name).read_text()  # every stand-in colour was exchanged
    text = (first / "report.md").read_text()
    for plot in re.findall(r"\]\((plots/[^)]+)\)", text):
        assert (first / plot).is_file()
    assert "| ppr |" in text
    page = (first / "index.html").read_text()
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    assert not re.search(r"url\(\s*['\"]?https?:", page)
    assert "0a0c" not in page


def test_texts_are_escaped(folders, tmp_path):  # noqa: F811
    write([folders.run, folders.interrupted], tmp_path / "out", title="<script>alert(1)</script> & more")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;even&gt; &amp; | `x`" in page
    assert "<even>" not in page
    assert "line 39 &lt;b&gt;" in page
    assert page.count("<script>") == 1
    text = (tmp_path / "out" / "report.md").read_text()
    assert r"\<even\> & \| \`x\`" in text
    assert "<script>" not in text


def test_folders_are_read_once_and_by_their_parent(folders):  # noqa: F811
    runs = folders.folder / "runs"
    found = read([runs, folders.run, folders.run])
    names = ["fragile", "small", folders.run.name, folders.interrupted.name]
    assert sorted(source.name for source in found) == sorted(names)


def test_what_is_no_run_is_an_error(tmp_path, capsys):
    with pytest.raises(DataError, match="no such folder"):
        read([tmp_path / "gone"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"neither a run folder \(manifest\.json"):
        read([tmp_path / "empty"])
    assert main([str(tmp_path / "gone"), "--out", str(tmp_path / "out")]) == 2
    assert "error: " in capsys.readouterr().err


def test_a_sweep_of_another_format_is_an_error(tmp_path):
    (tmp_path / "sweep.json").write_text('{"format": 99, "runs": []}')
    with pytest.raises(DataError, match="format 99"):
        read([tmp_path])


def test_the_program(folders, tmp_path, capsys):  # noqa: F811
    assert main([str(folders.run), "--out", str(tmp_path / "out"), "--title", "Mine"]) == 0
    assert "index.html" in capsys.readouterr().out
    assert "<h1>Mine</h1>" in (tmp_path / "out" / "index.html").read_text()

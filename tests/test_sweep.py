"""Sweeps: which runs a file becomes, what they share, and what a second go repeats."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from sweep_helpers import DOCUMENTS, Place

from aeg.cli.main import main
from aeg.config.load import load_config, read_yaml
from aeg.errors import ConfigError, DataError
from aeg.experiment.state import state_of, status_of
from aeg.experiment.sweep import Sweep, load_sweep, read_sweep, run_sweep

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = sorted((ROOT / "configs").rglob("*.yaml"))
RESTARTS = "sweep: {grid: {propagation.0.restart: [0.1, 0.3, 0.5]}, baseline: restart=0.3}"


def written(folder: Path, text: str, name: str = "mine") -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(text)
    return file


def names(sweep: Sweep) -> list[str]:
    return [run.name for run in sweep.runs]


def test_the_axes_are_crossed_in_order(tmp_path):
    sweep = load_sweep(
        written(
            tmp_path,
            """
extends: quickstart
name: crossed
propagation: [{name: rwr}]
sweep:
  datasets: [{name: whole}, {name: ten, set: {num_questions: 10}}]
  variants: [{name: full}, {name: lexical, set: {query.linking.name: embedding}}]
  grid: {propagation.0.restart: [0.1, 0.3], query.linking.name: [lexical]}
  seeds: [0, 1]
  baseline: full
""".replace(", query.linking.name: [lexical]", ""),
        )
    )
    assert len(sweep.runs) == 16
    assert names(sweep)[:3] == [
        "whole, full, restart=0.1, seed=0",
        "whole, full, restart=0.1, seed=1",
        "whole, full, restart=0.3, seed=0",
    ]
    last = sweep.runs[-1]
    assert last.axes == {"dataset": "ten", "variant": "lexical", "propagation.0.restart": 0.3, "seed": 1}
    assert (last.system, sweep.baseline) == ("lexical, restart=0.3", "full")
    assert last.config.num_questions == 10
    assert last.config.seeds == [1]
    assert last.config.propagation == [{"name": "rwr", "restart": 0.3}]
    assert last.config.query.linking == {"name": "embedding"}
    assert sweep.runs[0].config.query.linking == {"name": "lexical"}
    assert len({run.id for run in sweep.runs}) == 16


def test_a_data_set_lies_below_the_own_keys_and_an_override_above_both(tmp_path):
    small = "name: other\ncorpus: {name: sample}\nchunk: {max_tokens: 64, overlap: 8}\nretrieval: {top_k: 7}\n"
    written(tmp_path, small, "data")
    written(tmp_path, "chunk: {max_tokens: 100, overlap: 10}\nretrieval: {top_k: 9, depth: 50}\n", "base")
    text = """
extends: base
name: own
retrieval: {top_k: 11}
sweep: {datasets: [{name: plain}, data, {name: set, extends: data, set: {retrieval.top_k: 12, num_questions: 9}}]}
"""
    file = written(tmp_path, text, "own")
    plain, data, changed = (run.config for run in load_sweep(file).runs)
    assert [config.name for config in (plain, data, changed)] == ["own"] * 3
    assert [config.chunk.max_tokens for config in (plain, data, changed)] == [100, 64, 64]
    assert [config.retrieval.top_k for config in (plain, data, changed)] == [11, 11, 12]
    assert [config.retrieval.depth for config in (plain, data, changed)] == [50, 50, 50]
    above = load_sweep(file, ["retrieval.top_k=13"])
    assert {run.config.retrieval.top_k for run in above.runs} == {13}
    child = written(tmp_path, "extends: own\nname: child\nsweep: {seeds: [3]}\n", "child")
    assert [run.config.retrieval.top_k for run in load_sweep(child).runs] == [11, 11, 12]
    assert names(load_sweep(child))[1] == "data, seed=3"


def test_a_variant_takes_over_a_file(tmp_path):
    file = written(tmp_path, "extends: quickstart\nsweep: {variants: [{name: full}, ablation/without_ka]}\n")
    full, without = load_sweep(file).runs
    assert (full.name, without.name) == ("full", "without_ka")
    assert (full.config.graph.units, without.config.graph.units) == ("atoms", "passages")


def test_the_names_of_values(tmp_path):
    text = """
extends: quickstart
query: {seeds: {lexical_share: 0.0}}
sweep:
  grid:
    propagation: [[{name: ppr}], [{name: katz}, {name: none}]]
    query.seeds.atom_top_k: [null, 10]
    evaluation.partial: [true]
"""
    assert names(load_sweep(written(tmp_path, text))) == [
        "propagation=ppr, atom_top_k=null, partial=true",
        "propagation=ppr, atom_top_k=10, partial=true",
        "propagation=katz+none, atom_top_k=null, partial=true",
        "propagation=katz+none, atom_top_k=10, partial=true",
    ]


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ("{gird: {}}", r"sweep\.gird: unknown key\. Did you mean 'grid'"),
        ("{grid: {device: cpu}}", r"sweep\.grid\.device: got 'cpu', expected a list of values"),
        ("{grid: {device: []}}", r"sweep\.grid\.device: got \[\], expected a list"),
        ("{grid: {seeds: [[1], [1]]}}", r"sweep\.grid\.seeds: value \[1\] stands twice"),
        ("{grid: {devise: [1]}}", r"run 'devise=1' of the sweep: devise: unknown key\. Did you mean 'device'"),
        ("{grid: {propagation.0.restrat: [0.1]}}", r"run 'restrat=0.1' of .*restrat.*Did you mean 'restart'"),
        ("{grid: {propagation.0.restart: [1.5]}}", r"run 'restart=1.5' of .*restart: got 1\.5, expected a number in"),
        ("{grid: {propagation.7.restart: [0.1]}}", r"'7' is no index of a list of 1 entries"),
        ("{grid: {propagation.0.name: [ppr, pqr]}}", r"run 'propagation=pqr' of .*Did you mean 'ppr'"),
        ("{variants: [{set: {device: cpu}}]}", r"sweep\.variants\.0: got no name"),
        ("{variants: [{name: a, sets: {}}]}", r"sweep\.variants\.0\.sets: unknown key\. Did you mean 'set'"),
        ("{variants: [{name: a}, {name: a}]}", r"sweep\.variants: name a stands twice"),
        ("{variants: [{name: a, extends: [3]}]}", r"sweep\.variants\.0\.extends: got \[3\]"),
        ("{datasets: [5]}", r"sweep\.datasets\.0: got 5"),
        ("{datasets: [quickstat]}", r"quickstat: no such config file\. Did you mean 'quickstart'"),
        ("{seeds: [1, 1]}", r"sweep\.seeds: seed 1 stands twice"),
        ("{seeds: [x]}", r"sweep\.seeds"),
        ("[1]", r"sweep: got \[1\], expected a section"),
        ("{variants: [{name: a}, {name: b, set: {device: cpu}}]}", r"runs 'a' and 'b' have the same config"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, sweep, message):
    file = written(tmp_path, f"extends: quickstart\npropagation: [{{name: ppr}}]\nsweep: {sweep}\n")
    with pytest.raises((ConfigError, DataError), match=message):
        load_sweep(file)


def test_overrides_reach_the_axes_and_not_what_an_axis_sets(tmp_path):
    text = """
extends: quickstart
sweep: {grid: {propagation.0.restart: [0.1, 0.2]}, seeds: [0], variants: [{name: v, set: {chunk.overlap: 16}}]}
"""
    file = written(tmp_path, text)
    changed = load_sweep(file, ["sweep.grid.propagation.0.restart=[0.9]", "sweep.seeds=[1, 2]", "num_questions=5"])
    assert names(changed) == ["v, restart=0.9, seed=1", "v, restart=0.9, seed=2"]
    assert {run.config.num_questions for run in changed.runs} == {5}
    assert names(load_sweep(file, ["sweep.grid.propagation.0.restart=null", "sweep.seeds=null"])) == ["v"]
    for override in ("propagation.0.restart=0.5", "seeds=[3]", "chunk.overlap=8"):
        with pytest.raises(ConfigError, match=r"the sweep sets .* in each of its runs"):
            load_sweep(file, [override])
    assert len(load_sweep(file, ["propagation=[{name: ppr}]"]).runs) == 2  # the axis comes after it


def test_a_sweep_is_no_single_run_and_other_sections_are_passed_on(tmp_path, capsys):
    file = written(tmp_path, "extends: quickstart\nname: t\nsweep: {}\npaper: {table: Table 12}\nexpected: [1, 2]\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml: has a section 'sweep'.*python -m experiments\.ablate .*mine"):
        load_config(file)
    assert main(["run", str(file)]) == 2
    assert "experiments.ablate" in capsys.readouterr().err
    sweep = load_sweep(file)
    assert sweep.sections == {"paper": {"table": "Table 12"}, "expected": [1, 2]}
    assert names(sweep) == ["t"]
    single = written(tmp_path, "extends: quickstart\npaper: {table: Table 1}\n", "single")
    assert load_config(single).name == "quickstart"
    assert load_sweep(single).runs[0].id == load_sweep("quickstart").runs[0].id


def test_ids_are_the_configs_and_not_the_places(tmp_path):
    file = written(tmp_path, f"extends: quickstart\n{RESTARTS}\n")
    first = load_sweep(file, [f"run_dir={tmp_path / 'a'}"])
    second = load_sweep(file, [f"run_dir={tmp_path / 'b'}", f"artifacts_dir={tmp_path}", "device=cpu", "workers=3"])
    assert [run.id for run in first.runs] == [run.id for run in second.runs]
    assert first.folder.name == second.folder.name
    assert first.folder.parent != second.folder.parent
    other = load_sweep(file, ["num_questions=3"])
    assert not {run.id for run in other.runs} & {run.id for run in first.runs}


@pytest.mark.parametrize(
    "file",
    [file for file in SHIPPED if "sweep" in read_yaml(file)],
    ids=lambda file: file.relative_to(ROOT).as_posix(),
)
def test_every_shipped_sweep_expands_into_runs_that_resolve(file, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    sweep = load_sweep(file)
    assert sweep.runs
    assert file.read_text(encoding="utf-8").startswith("# ")


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path, RESTARTS)


def stamps(sweep: Sweep) -> dict[str, int]:
    return {run.id: (run.folder / "manifest.json").stat().st_mtime_ns for run in sweep.runs}


def test_runs_share_what_is_before_the_axis_and_are_not_repeated(place, capsys):
    sweep, lines = load_sweep(place.file), []
    assert [status_of(run.folder) for run in sweep.runs] == ["missing"] * 3
    assert run_sweep(sweep, lines.append) == 0
    assert [status_of(run.folder) for run in sweep.runs] == ["finished"] * 3
    assert len(place.asked()) == DOCUMENTS
    made = place.made()
    assert set(made.values()) == {1}
    stages = [name.split()[0] for name in made]
    assert {stage: stages.count(stage) for stage in sorted(set(stages))} == {
        "extraction": 1,
        "graph": 1,
        "queries": 1,
        "ranking": 3,
    }
    content = read_sweep(sweep.folder)
    assert [item["id"] for item in content["runs"]] == [run.id for run in sweep.runs]
    assert all((sweep.folder / item["folder"] / "manifest.json").is_file() for item in content["runs"])
    assert content["baseline"] == "restart=0.3"
    state = state_of(sweep.folder)
    assert (state["status"], state["done"], state["total"]) == ("finished", 3, 3)
    assert set(state["seconds"]) == {run.id for run in sweep.runs}
    run_state = state_of(sweep.runs[0].folder)
    assert {"status", "since", "host", "pid", "error", "stage"} <= set(run_state)
    assert run_state["questions"] == {"part": "", "done": 6, "total": 6}
    assert "rankings" in (sweep.runs[0].folder / "log.txt").read_text()
    assert not list(place.folder.rglob("claim"))

    before = stamps(sweep)
    assert main(["ablate", str(place.file)]) == 0
    assert capsys.readouterr().out.count("finished") == 3
    assert stamps(sweep) == before
    wider = load_sweep(place.file, ["sweep.grid.propagation.0.restart=[0.3, 0.5, 0.7]"])
    assert wider.folder != sweep.folder
    assert run_sweep(wider, lines.append) == 0  # two of its runs are there
    assert stamps(sweep) == before
    assert sum(place.made().values()) == sum(made.values()) + 1
    assert run_sweep(sweep, lines.append, only=[sweep.runs[0].id], again=True) == 0
    assert [stamps(sweep)[run.id] > before[run.id] for run in sweep.runs] == [True, False, False]


def test_the_recorded_sweep_stays_what_it_was(place, capsys):
    assert main(["ablate", str(place.file), "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["state"]) for row in listed] == [(f"restart={r}", "missing") for r in (0.1, 0.3, 0.5)]
    folder = load_sweep(place.file).folder
    place.file.write_text(place.file.read_text().replace("name: ppr", "name: rwr"))
    assert {run.id for run in load_sweep(place.file).runs} != {row["id"] for row in listed}
    recorded = load_sweep(folder)
    assert [run.id for run in recorded.runs] == [row["id"] for row in listed]
    assert [run.id for run in load_sweep(folder / "sweep.json").runs] == [row["id"] for row in listed]
    with pytest.raises(ConfigError, match="only artifacts_dir, data_root, device, workers, tracking may change"):
        load_sweep(folder, ["num_questions=3"])
    moved = load_sweep(folder, [f"artifacts_dir={place.folder / 'elsewhere'}"])
    assert [run.id for run in moved.runs] == [row["id"] for row in listed]

    assert main(["ablate", str(folder), "--only", listed[1]["id"]]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{listed[1]['id']}  finished     restart=0.3"
    assert main(["ablate", str(folder), "--list"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["missing", "finished", "missing"]
    assert main(["ablate", str(folder), "--only", "restart=0.2"]) == 2
    assert "no such run" in capsys.readouterr().err


def test_one_that_fails_does_not_stop_the_others_and_is_repeated_alone(tmp_path):
    place = Place(tmp_path, "sweep: {grid: {extraction.flavour: [1, 2, 3]}}")
    (tmp_path / "broken-2").touch()
    sweep, lines = load_sweep(place.file), []
    assert run_sweep(sweep, lines.append) == 1
    assert [status_of(run.folder) for run in sweep.runs] == ["finished", "failed", "finished"]
    failed = sweep.runs[1]
    assert state_of(failed.folder)["error"] == "RuntimeError: the extractor fell over"
    assert "Traceback" in (failed.folder / "log.txt").read_text()
    assert any(line.startswith(f"failed: flavour=2 ({failed.id}): RuntimeError") for line in lines)
    assert state_of(sweep.folder)["status"] == "failed"
    assert state_of(sweep.folder)["runs"][failed.id] == "failed"
    (tmp_path / "broken-2").unlink()
    asked = place.asked()
    assert run_sweep(sweep, lines.append) == 0
    assert {line.split()[0] for line in place.asked()[len(asked) :]} == {"2"}
    assert state_of(sweep.folder)["status"] == "finished"


def test_an_error_of_the_input_is_told_and_the_others_go_on(tmp_path):
    other = tmp_path / "other.jsonl"
    place = Place(
        tmp_path, f"sweep: {{datasets: [{{name: there}}, {{name: gone, set: {{corpus.documents: '{other}'}}}}]}}"
    )
    lines: list[str] = []
    sweep = load_sweep(place.file)
    assert run_sweep(sweep, lines.append) == 1
    assert [status_of(run.folder) for run in sweep.runs] == ["finished", "failed"]
    assert "other.jsonl" in state_of(sweep.runs[1].folder)["error"]
    other.write_text((tmp_path / "documents.jsonl").read_text())
    assert run_sweep(sweep, lines.append) == 0


def test_ctrl_c_leaves_a_state_that_says_so(place):
    sweep = load_sweep(place.file)

    def stop(line: str) -> None:
        if line.startswith("graph:") and status_of(sweep.runs[0].folder) == "finished":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep, stop)
    assert [status_of(run.folder) for run in sweep.runs] == ["finished", "interrupted", "missing"]
    assert state_of(sweep.folder)["status"] == "interrupted"
    assert state_of(sweep.folder)["runs"][sweep.runs[1].id] == "interrupted"
    assert not list(place.folder.rglob("claim"))
    before = (sweep.runs[0].folder / "manifest.json").stat().st_mtime_ns
    assert run_sweep(sweep, lambda _: None) == 0
    assert (sweep.runs[0].folder / "manifest.json").stat().st_mtime_ns == before
    assert set(place.made().values()) == {1}


def test_a_run_that_says_it_is_running_and_has_no_process_is_interrupted(place):
    run = load_sweep(place.file).runs[0]
    run.folder.mkdir(parents=True)
    (run.folder / "state.json").write_text(json.dumps({"status": "running", "pid": 1, "since": time.time()}))
    assert status_of(run.folder) == "interrupted"
    (run.folder / "state.json").write_text("{")
    with pytest.raises(DataError, match=r"state\.json, line 1: not valid JSON"):
        status_of(run.folder)


def test_seeds_without_chance_are_told(place, capsys):
    assert main(["ablate", str(place.file), "sweep.grid.propagation.0.restart=[0.1]", "sweep.seeds=[0, 1]"]) == 0
    assert "several seeds, but no method of chance" in capsys.readouterr().err

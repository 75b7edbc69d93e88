"""Sweeps in real processes: two at once in one artifacts folder, and one that is stopped and killed half-way."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sweep_helpers import DOCUMENTS, Place

from aeg.experiment.state import state_of, status_of
from aeg.experiment.sweep import load_sweep

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 900  # seconds; a machine may be busy


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts sweeps, and leaves none behind."""
    running: list[subprocess.Popen[str]] = []

    def started(file: Path, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "experiments.ablate", str(file), *arguments]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(process)
        return process

    yield started
    for process in running:
        if process.poll() is None:
            process.kill()
            process.communicate()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def logs(place: Path) -> str:
    return "".join(log.read_text() for log in place.glob("runs/*/log.txt"))


def rankings(folder: Path) -> list[object]:
    columns = ["question_id", "method", "units", "unit_scores", "metrics"]
    return pq.read_table(folder / "results.parquet", columns=columns).to_pylist()


def test_two_sweeps_at_once_make_each_stage_once(tmp_path, start):
    place = Place(tmp_path, "sweep: {grid: {propagation.0.restart: [0.1, 0.3]}}")
    other = place.write("other", "sweep: {grid: {propagation.0.restart: [0.3, 0.5]}}")
    hold = tmp_path / "hold-0-d4"
    hold.touch()
    first = start(place.file)
    wait_for(lambda: len(place.asked()) == 4, first)
    second = start(other)
    wait_for(lambda: "extraction" in logs(tmp_path) and "waiting for process" in logs(tmp_path), second)
    assert len(place.asked()) == 4
    hold.unlink()
    for process in (first, second):
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        assert out.count("finished") == 2
    assert "waiting for process" in err
    assert sorted(place.asked()) == [f"0 d{i}" for i in range(DOCUMENTS)]
    made = place.made()
    assert set(made.values()) == {1}
    assert sorted(name.split()[0] for name in made) == ["extraction", "graph", "queries", *["ranking"] * 3]
    assert not list(tmp_path.rglob("claim"))
    shared, alone = (load_sweep(file).runs for file in (other, place.file))
    assert rankings(shared[0].folder) == rankings(alone[1].folder)  # both at restart 0.3
    assert rankings(shared[0].folder) != rankings(alone[0].folder)


def test_processes_of_one_sweep_share_its_runs(tmp_path, start):
    place = Place(tmp_path, "sweep: {grid: {extraction.flavour: [1, 2]}}")
    for flavour in (1, 2):  # neither goes on before both have begun
        (tmp_path / f"hold-{flavour}-d4").touch()
    process = start(place.file, "--jobs=2")
    wait_for(lambda: len(place.asked()) == 8, process)
    assert {line.split()[0] for line in place.asked()} == {"1", "2"}
    for file in tmp_path.glob("hold-*"):
        file.unlink()
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert out.count("finished") == 2
    assert len(place.asked()) == len(set(place.asked())) == 2 * DOCUMENTS
    assert set(place.made().values()) == {1}


def test_stopped_and_killed_half_way_it_repeats_nothing(tmp_path, start):
    place = Place(tmp_path, "sweep: {grid: {extraction.flavour: [1, 2, 3]}}")
    sweep = load_sweep(place.file)
    one, two, three = sweep.runs
    (tmp_path / "hold-2-d4").touch()
    (tmp_path / "hold-2-d6").touch()

    process = start(place.file)
    wait_for(lambda: place.asked()[-1:] == ["2 d3"], process)
    assert [status_of(run.folder) for run in sweep.runs] == ["finished", "running", "missing"]
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert [status_of(run.folder) for run in sweep.runs] == ["finished", "interrupted", "missing"]
    assert state_of(two.folder)["status"] == "interrupted"
    assert state_of(sweep.folder)["status"] == "interrupted"
    assert not list(tmp_path.rglob("claim"))
    before = (one.folder / "manifest.json").stat().st_mtime_ns

    (tmp_path / "hold-2-d4").unlink()
    process = start(place.file)
    wait_for(lambda: place.asked()[-1:] == ["2 d5"], process)
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert state_of(two.folder)["status"] == "running"  # nobody could say otherwise
    assert [status_of(run.folder) for run in sweep.runs] == ["finished", "interrupted", "missing"]
    assert list(tmp_path.rglob("claim"))

    (tmp_path / "hold-2-d6").unlink()
    process = start(place.file)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "no longer runs; its claim is taken over" in err
    assert place.asked() == [f"{flavour} d{i}" for flavour in (1, 2, 3) for i in range(DOCUMENTS)]
    assert set(place.made().values()) == {1}
    assert (one.folder / "manifest.json").stat().st_mtime_ns == before
    assert status_of(three.folder) == "finished"
    assert not list(tmp_path.rglob("claim"))

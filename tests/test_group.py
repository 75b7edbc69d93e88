"""One run shared by two and three processes of torchrun: the same bytes as by one, and a clear end where one dies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from slurm_encoder import make_encoder
from test_llm_transformers import make_model

QUESTIONS = 23  # in blocks of 5, the last one of 3: neither divides by the number of processes

LAUNCHER = ("torch.distributed.run", "--standalone")
METHODS = "{name: ppr}, {name: rwr, num_walks: 20}, {name: katz}, {name: weighted_bfs}"


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_encoder(folder / "encoder")
    make_model(folder / "chat")
    return folder


def torchrun(processes: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Start so many processes of a program, and wait for their end."""
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-m", *LAUNCHER, f"--nproc-per-node={processes}", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, **threads},
    )


def shared(models: Path, place: Path, processes: int, methods: str = METHODS, *more: str):
    """One run by so many processes."""
    encoder = f"{{name: hf, model: '{models}/encoder', pooling: mean, batch_tokens: 256}}"
    return torchrun(
        processes,
        *("-m", "aeg", "run", "quickstart", "device=cpu", "workers=1", f"num_questions={QUESTIONS}"),
        *(f"encoder={encoder}", f"evaluation.encoder={encoder}", "graph.synonym=false", "retrieval.block=5"),
        *(f"propagation=[{methods}]", "seeds=[0, 1]", "evaluation.baselines=[dense_passages]"),
        *("evaluation.resamples=100", f"artifacts_dir={place}/artifacts", f"run_dir={place}/runs", *more),
    )


def vectors(place: Path) -> dict[bytes, bytes]:
    """Every vector that the encoder's cache holds, by the hash of its text."""
    found = {}
    for file in (place / "artifacts" / "embeddings").rglob("*.safetensors"):
        table = load_file(file)
        keys, rows = (table[name] for name in ("keys", "vectors"))
        found |= {key.tobytes(): row.tobytes() for key, row in zip(keys, rows.view(np.uint8), strict=True)}
    return found


def content(place: Path) -> dict[str, bytes]:
    """What a run and its rankings hold; what tells of times left out."""
    (run,) = (place / "runs").glob("quickstart-*")
    names = ("metrics.json", "results.parquet", "plot.png")
    found = {name: (run / name).read_bytes() for name in names}
    found |= {file.name: file.read_bytes() for file in (run / "trec").iterdir()}
    rankings = (place / "artifacts" / "ranking").rglob("*.safetensors")
    return found | {str(file.relative_to(place)): file.read_bytes() for file in rankings}


@pytest.fixture(scope="module")
def alone(models, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("alone")
    done = shared(models, place, 1)
    assert done.returncode == 0, done.stderr
    return place


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_give_the_bytes_of_one(models, alone, tmp_path, processes):
    done = shared(models, tmp_path, processes)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("run folder:") == 1  # one process tells
    ours, theirs = content(tmp_path), content(alone)
    assert ours.keys() == theirs.keys()
    for name, mine in ours.items():
        assert mine == theirs[name], name
    assert len(list((tmp_path / "artifacts" / "ranking").rglob("*.safetensors"))) == 5
    assert vectors(tmp_path) == vectors(alone)
    assert len(vectors(alone)) > 500


def test_replies_do_not_depend_on_the_number_of_processes(models, tmp_path):
    files = []
    for processes in (1, 3):
        files.append(tmp_path / f"{processes}.json")
        done = torchrun(processes, Path(__file__).with_name("group_child.py"), models / "chat", files[-1])
        assert done.returncode == 0, done.stderr
    one, three = (json.loads(file.read_text()) for file in files)
    assert one == three
    assert len({str(told) for _, _, told in one}) > 15
    assert [kind for _, kind, _ in one].count("Failure") >= 1


@pytest.mark.parametrize(
    ("kind", "cause"),
    [("error", "process 1 of 2: this share is made to fail"), ("kill", "a process of the group ended")],
)
def test_a_process_that_fails_ends_the_job_with_its_cause(models, alone, tmp_path, kind, cause):
    shutil.copytree(alone / "artifacts", tmp_path / "artifacts")
    plugin = f"plugins=['{Path(__file__).with_name('group_trouble.py')}']"
    done = shared(models, tmp_path, 2, f"{{name: trouble, kind: {kind}}}", plugin)
    assert done.returncode != 0
    (folder,) = (tmp_path / "runs").glob("quickstart-*")
    state = json.loads((folder / "state.json").read_text())
    assert state["status"] == "failed"
    assert cause in state["error"]
    assert cause in done.stderr
    assert ("SIGKILL" in done.stderr) == (kind == "kill")


def test_a_group_that_cannot_be_joined_is_refused(tmp_path):
    command = [sys.executable, "-m", "aeg", "run", "quickstart", f"run_dir={tmp_path}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MASTER_")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env={**environment, "WORLD_SIZE": "2"}
    )
    assert done.returncode == 2
    assert "start by torchrun, or unset WORLD_SIZE" in done.stderr

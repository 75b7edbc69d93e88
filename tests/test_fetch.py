"""`aeg fetch`: from a small hub, a cache, folders and data; then the same config with the network blocked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import COMMIT, hub
from slurm_encoder import make_encoder

from aeg.cli.main import main
from aeg.errors import DataError, DependencyError
from aeg.preparing.fetching import damaged
from aeg.preparing.hub import gather, repository
from aeg.preparing.needs import CHAT, ENCODER, ModelNeed

NAME = "lab/tiny"
BLOCKED = """
import socket, sys
def refuse(*_, **__):
    raise OSError(101, "the network is blocked")
socket.socket.connect = socket.socket.connect_ex = refuse
socket.create_connection = socket.getaddrinfo = refuse
"""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("hub") / "tiny")


@pytest.fixture
def config(tmp_path):
    """The sample with its recorded extraction, an encoder of the hub, and data of its own: a run of another system."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "other.run").write_text("q1 Q0 d1 1 1.0 other\n")
    file = tmp_path / "config.yaml"
    file.write_text(
        f"""
name: offline
run_dir: {tmp_path / "runs"}
artifacts_dir: {tmp_path / "artifacts"}
device: cpu
corpus: {{name: sample}}
num_questions: 4
extraction: {{name: recorded, path: 'builtin:sample'}}
encoder: {{name: hf, model: {NAME}, pooling: mean}}
propagation: [{{name: none}}]
evaluation: {{resamples: 100, baselines: [], encoder: {{name: hf, model: {NAME}, pooling: mean}}}}
"""
    )
    return file


def aeg(*words: str, blocked: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, with the network blocked where a folder for that is given."""
    environment = {name: of for name, of in os.environ.items() if not name.startswith(("HF_", "AEG_", "TRANSFORMERS_"))}
    environment |= {"OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, "-m", "aeg", *words]
    if blocked is not None:
        (blocked / "sitecustomize.py").write_text(BLOCKED)
        environment["PYTHONPATH"] = os.pathsep.join([str(blocked), environment.get("PYTHONPATH", "")])
        if _can_unshare():
            command = ["unshare", "--net", *command]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


def _can_unshare() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run(["unshare", "--net", "true"], check=False).returncode == 0
    )


def sourced(script: Path) -> dict[str, str]:
    """The variables that a script exports."""
    code = f'. "{script}" && env -0'
    found = subprocess.run(
        ["bash", "-c", code], env={"PATH": os.environ["PATH"]}, capture_output=True, check=True
    ).stdout
    pairs = (item.split("=", 1) for item in found.decode().split("\0") if "=" in item)
    return {name: value for name, value in pairs if name.startswith(("HF_", "AEG_", "TRANSFORMERS_"))}


def test_fetched_where_there_is_a_network_a_config_runs_where_there_is_none(tmp_path, config, encoder):
    home, place, blocked = tmp_path / "home", tmp_path / "fetched", tmp_path / "blocked"
    blocked.mkdir()
    with hub(NAME, encoder) as server:
        done = aeg("fetch", str(config), "--to", str(place), HF_ENDPOINT=server.url, HF_HOME=str(home))
        assert done.returncode == 0, done.stderr
        assert any(path.endswith("model.safetensors") for path in server.asked)
    content = json.loads((place / "fetched.json").read_text())
    model = next(item for item in content["items"] if item["kind"] == ENCODER)
    assert (model["name"], model["note"]) == (NAME, COMMIT)
    assert any(path.endswith("model.safetensors") for path in model["files"])
    assert damaged(place) == []

    without = aeg("doctor", str(config), "--json", blocked=blocked, HF_HOME=str(home))
    assert without.returncode == 1
    (lost,) = [finding for finding in json.loads(without.stdout) if finding["status"] == "missing"]
    assert lost["check"] == f"encoder {NAME}"
    assert "aeg fetch" in lost["remedy"]

    moved = tmp_path / "moved"
    place.rename(moved)
    variables = sourced(moved / "env.sh")
    assert variables["HF_HUB_OFFLINE"] == "1"
    look = aeg("doctor", str(config), blocked=blocked, **variables)
    assert look.returncode == 0, look.stdout + look.stderr
    assert "nothing is missing" in look.stdout
    run = aeg("run", str(config), blocked=blocked, **variables)
    assert run.returncode == 0, run.stderr
    assert "recall@5" in run.stdout

    weights = next(moved.rglob("snapshots/*/model.safetensors"))
    data = weights.read_bytes()
    weights.resolve().write_bytes(data[:-1])
    assert [line.rpartition(": ")[2] for line in damaged(moved)] == ["has changed"]
    assert main(["fetch", str(config), "--to", str(moved), "--check"]) == 1
    weights.resolve().unlink()
    assert [line.rpartition(": ")[2] for line in damaged(moved)] == ["is missing"]


def test_without_a_network_it_is_said_what_is_missing(tmp_path, config):
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    done = aeg("fetch", str(config), "--to", str(tmp_path / "to"), blocked=blocked, HF_HOME=str(tmp_path / "home"))
    assert done.returncode == 1
    assert f"missing: encoder {NAME}:" in done.stdout
    assert "the hub cannot be reached" in done.stdout
    assert "HF_ENDPOINT" in done.stdout
    assert "Traceback" not in done.stderr
    done = aeg("fetch", str(config), "--to", str(tmp_path / "to"), HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "home"))
    assert "HF_HUB_OFFLINE is set" in done.stdout


def test_a_model_in_the_cache_is_copied_with_its_commit(tmp_path, encoder, monkeypatch):
    cache = tmp_path / "cache"
    snapshot = repository(NAME, cache) / "snapshots" / COMMIT
    shutil.copytree(encoder, snapshot)
    need = ModelNeed("encoder", ENCODER, NAME)
    monkeypatch.setattr(ModelNeed, "folder", lambda _: snapshot)
    folder, status = gather(need, tmp_path / "to")
    assert (status, folder.name) == ("copied", COMMIT)
    assert (repository(NAME, tmp_path / "to") / "refs" / "main").read_text() == COMMIT
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        p.name: p.read_bytes() for p in encoder.iterdir()
    }
    assert gather(need, tmp_path / "to") == (folder, "present")
    from huggingface_hub import snapshot_download

    assert Path(snapshot_download(NAME, cache_dir=tmp_path / "to", local_files_only=True)) == folder


def test_a_chat_model_without_one_of_its_shards_is_not_whole(tmp_path, monkeypatch):
    folder = repository("lab/chat", tmp_path / "to") / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model-1.safetensors").write_bytes(b"")
    refs = folder.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text(COMMIT)
    need = ModelNeed("llm.reader", CHAT, "lab/chat")
    with pytest.raises(DependencyError, match=r"chat model 'lab/chat' \(llm.reader\): .*no model-2.safetensors"):
        gather(need, tmp_path / "to")


def test_data_folders_and_models_in_folders_are_copied_and_named(tmp_path, encoder, capsys, monkeypatch):
    root, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    (root / "mine").mkdir(parents=True)
    elsewhere.mkdir()
    (root / "mine" / "docs.jsonl").write_text('{"id": "d1", "text": "Ann sold a goat."}\n')
    (elsewhere / "asked.jsonl").write_text('{"id": "q1", "question": "Who sold a goat?", "gold_doc_ids": ["d1"]}\n')
    monkeypatch.setenv("AEG_DATA", str(root))
    words = [
        f"corpus={{name: jsonl, documents: mine/docs.jsonl, questions: '{elsewhere / 'asked.jsonl'}'}}",
        f"encoder.model={encoder}",
        "extraction={name: recorded, path: lost.jsonl}",
    ]
    to = tmp_path / "to"
    config = tmp_path / "c.yaml"
    config.write_text("name: c\n")
    assert main(["fetch", str(config), "--to", str(to), *words]) == 1
    told = capsys.readouterr().out
    assert "missing: data lost.jsonl" in told
    assert (to / "data" / "mine" / "docs.jsonl").is_file()
    assert (to / "data" / "asked.jsonl").is_file()
    assert "corpus.questions=asked.jsonl" in told
    assert f"encoder.model={to / 'models' / encoder.name}" in told
    items = {item["name"]: item for item in json.loads((to / "fetched.json").read_text())["items"]}
    assert items["minilm"]["status"] == "installed"
    assert items["mine/docs.jsonl"]["files"].keys() == {"data/mine/docs.jsonl"}
    with pytest.raises(DataError, match="nothing was fetched here"):
        damaged(tmp_path)

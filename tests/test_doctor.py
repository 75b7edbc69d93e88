"""`aeg doctor`: each thing that can be missing is found, and it says what to do."""

from __future__ import annotations

import json
import os
import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import torch
from slurm_encoder import make_encoder

from aeg.backends.llm.openai import OpenAI
from aeg.cli.main import main
from aeg.config.load import load_config
from aeg.config.schema import ExperimentConfig
from aeg.preparing import endpoint, machine
from aeg.preparing.doctor import Doctor
from aeg.preparing.size import Estimate, estimate

GIB = 2**30


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture
def words(tmp_path, encoder):
    """Overrides for a config that lacks nothing."""
    (tmp_path / "docs.jsonl").write_text('{"id": "d1", "text": "Ann sold a goat."}\n')
    (tmp_path / "asked.jsonl").write_text('{"id": "q1", "question": "Who sold a goat?", "gold_doc_ids": ["d1"]}\n')
    (tmp_path / "config.yaml").write_text("name: small\n")
    corpus = "corpus={name: jsonl, documents: docs.jsonl, questions: asked.jsonl}"
    return [
        str(tmp_path / "config.yaml"), "device=cpu", f"run_dir={tmp_path / 'runs'}", f"data_root={tmp_path}",
        f"artifacts_dir={tmp_path / 'artifacts'}", corpus,
        "extraction={name: recorded, path: 'builtin:sample'}", f"encoder.model={encoder}", "encoder.pooling=mean",
        f"evaluation.encoder={{name: hf, model: '{encoder}', pooling: mean}}",
    ]  # fmt: skip


def missing(capsys, *given: str) -> dict[str, str]:
    """What the command says is missing: message and remedy by check."""
    capsys.readouterr()
    code = main(["doctor", "--json", *given])
    findings = json.loads(capsys.readouterr().out)
    found = {f["check"]: f"{f['message']}; {f['remedy']}" for f in findings if f["status"] == "missing"}
    assert code == (1 if found else 0)
    return found


def test_nothing_is_missing_and_nothing_is_left_behind(words, tmp_path, capsys):
    before = sorted(path.name for path in tmp_path.iterdir())
    assert missing(capsys, *words) == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert main(["doctor", "--fast", *words]) == 0
    told = capsys.readouterr().out
    assert "ok       device: cpu (as configured)" in told
    assert told.endswith("nothing is missing\n")


@pytest.mark.parametrize(
    ("override", "check", "told"),
    [
        ("encoder.model=lab/nowhere", "encoder lab/nowhere", "aeg fetch"),
        ("encoder.model=/no/such/folder", "encoder /no/such/folder", "no such folder"),
        ("corpus.documents=gone.jsonl", "data", "gone.jsonl is not there; set data_root"),
        ("num_questions=7", "corpus", "num_questions is 7; lower"),
        ("device=cuda:7", "device", "set device: cpu"),
        ("run_dir=/proc/here", "run_dir /proc/here", "set run_dir to a writable folder"),
        ("plugins=[gone.py]", "config", "no file 'gone.py'"),
        ("propagation=[{name: pprr}]", "config", "Did you mean 'ppr'?"),
        ("extraction={name: syntactic, pipeline: xx_none}", "spaCy pipeline", "xx_none"),
        (
            "llm.reader={name: openai, model: m, base_url: 'http://127.0.0.1:9/v1'}",
            "llm.reader endpoint",
            "does not answer",
        ),
        ("llm.reader={name: openai, model: gpt}", "llm.reader endpoint", "OPENAI_API_KEY is not set"),
    ],
)
def test_what_is_missing_is_named_with_a_remedy(words, capsys, monkeypatch, override, check, told):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    more = ["query.decomposition={name: llm}"] if override.startswith("llm") else []
    if override.startswith("device") and torch.cuda.device_count() > 7:
        pytest.skip("there is such a GPU")
    found = missing(capsys, *words, override, *more)
    assert list(found) == [check]
    assert told in found[check]


def test_a_model_that_is_cut_off_does_not_load(words, encoder, tmp_path, capsys):
    broken = tmp_path / "broken"
    shutil.copytree(encoder, broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    found = missing(capsys, *words, f"encoder.model={broken}")
    assert "not a whole safetensors file" in found[f"encoder {broken}"]
    shutil.copyfile(encoder / "model.safetensors", weights)
    (broken / "tokenizer.json").write_text("{}")
    assert "tokenizer" in missing(capsys, *words, f"encoder.model={broken}")[f"encoder {broken}"]


def test_a_login_node_is_not_asked_for_what_a_compute_node_has(words, capsys):
    llm = ["llm.reader={name: openai, model: m, base_url: 'http://127.0.0.1:9/v1'}", "query.decomposition={name: llm}"]
    assert missing(capsys, "--login", *words, "device=cuda:7", *llm) == {}


def test_a_sweep_is_looked_at_whole(words, tmp_path, capsys):
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text("name: s\nsweep: {grid: {encoder.model: [lab/one, lab/two]}}\n")
    own = [word for word in words[1:] if not word.startswith("encoder.model")]
    assert set(missing(capsys, "--fast", str(sweep), *own)) == {"encoder lab/one", "encoder lab/two"}
    assert main(["doctor", str(tmp_path / "nothing.yaml")]) == 2


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.keys.append(self.headers.get("Authorization"))
        code, body = self.server.reply
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(
    ("code", "body", "status", "told"),
    [
        (200, b'{"data": [{"id": "m"}]}', "ok", "serves m"),
        (200, b'{"data": [{"id": "other"}]}', "missing", "serves other, not 'm'"),
        (200, b"<html>", "missing", "does not answer"),
        (401, b"", "missing", "refuses the key (HTTP 401)"),
        (404, b"", "warning", "lists no models"),
        (503, b"", "missing", "fails (HTTP 503)"),
    ],
)
def test_what_an_endpoint_answers(monkeypatch, code, body, status, told):
    monkeypatch.setenv("MY_KEY", "sk-not-to-be-told")
    with HTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.reply, server.keys = (code, body), []
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        address = f"http://127.0.0.1:{server.server_address[1]}/v1"
        found = endpoint.look("llm.reader", OpenAI(model="m", base_url=address, api_key_env="MY_KEY"))
        thread.join()
    assert (found.status, server.keys) == (status, ["Bearer sk-not-to-be-told"])
    assert told in found.message
    assert "sk-not" not in str(found)


def test_an_endpoint_that_hangs_is_not_waited_for():
    with HTTPServer(("127.0.0.1", 0), _Handler) as server:  # nobody handles the request
        address = f"http://127.0.0.1:{server.server_address[1]}/v1"
        found = endpoint.look("llm.reader", OpenAI(model="m", base_url=address), seconds=0.3)
    assert found.status == "missing"
    assert "timed out" in found.message or "TimeoutError" in found.message


def test_memory_and_disk_are_compared_with_the_estimate(tmp_path, monkeypatch):
    needed, cpu = Estimate(host=4 * GIB, device=2 * GIB, disk=0), torch.device("cpu")
    (fits,) = machine.memory(needed, cpu, host=(7 * GIB, "the machine"))
    (lacks,) = machine.memory(needed, cpu, host=(6 * GIB, "the control group"))
    assert (fits.status, lacks.status) == ("ok", "missing")
    assert "6.6 GiB, the control group leaves 6.0 GiB" in lacks.message
    on_gpu = list(machine.memory(needed, torch.device("cuda:0"), (5 * GIB, "the machine"), (1 * GIB, "cuda:0 (A)")))
    assert [finding.status for finding in on_gpu] == ["ok", "missing"]
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: usage)
    (full,) = machine.folders([("run_dir", str(tmp_path / "a" / "b"))], needed=11)
    assert full.status == "missing"
    assert "another disk" in full.remedy


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write(tmp_path):
    tmp_path.chmod(0o500)
    (found,) = machine.folders([("run_dir", str(tmp_path))], 0)
    assert found.status == "missing"


def test_an_index_that_needs_faiss(monkeypatch):
    monkeypatch.setattr(machine, "cpu_fault", lambda: "faiss is not installed")
    approximate = load_config(None, ["retrieval.index={name: hnsw}"])
    assert machine.faiss(approximate, torch.device("cpu"), fast=True).status == "missing"
    assert machine.faiss(ExperimentConfig(), torch.device("cpu"), fast=True).status == "warning"


@pytest.mark.data
def test_the_estimate_is_above_what_medical_takes(data_root: Path):
    config = load_config("medical", [f"data_root={data_root}"])
    findings = {finding.check: finding for finding in Doctor([("", config)]).findings()}
    assert findings["corpus"].message == "1,030 documents, 1,031 questions"
    text = sum(len(chunk) for chunk in json.loads((data_root / "medical" / "chunks.json").read_text()))
    found = estimate(config, text, 1030, 1031, dim=384)
    vectors = 4 * 384 * (5600 + 4453)
    assert vectors < found.disk < 20 * vectors
    assert found.host < 2 * GIB

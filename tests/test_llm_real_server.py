"""The openai backend against a real server: a small model behind llama.cpp, whose replies have shape and no worth."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys

import pytest

from aeg.backends.llm import Failure, Message, OpenAI, Reply, Request
from aeg.errors import AegError, DataError, DependencyError
from experiments.serve_llm import local_server, packaged_model

CONTEXT = 512
SCHEMA = {
    "type": "object",
    "properties": {"entities": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3}},
    "required": ["entities"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def base_url():
    """A server on one thread; skipped where xllamacpp or the model's package is missing."""
    try:
        with local_server(context=CONTEXT) as url:
            yield url
    except DependencyError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def replies(base_url):
    """One reply of each kind, all asked for at once."""
    chat = (Message("user", "Name the entities: Ann Lee founded Bix Labs in Oslo."),)
    requests = [
        Request("ner", "with schema", chat, schema=json.dumps(SCHEMA, sort_keys=True), max_tokens=80),
        Request("free", "free text", chat, max_tokens=12),
        Request("ner", "too long", (Message("user", "word " * 3 * CONTEXT),), max_tokens=12),
    ]
    backend = OpenAI(model="gemma-3-270m-q4_k_m", base_url=base_url, timeout=50, max_concurrency=3)
    with backend.open() as session:
        outcomes = list(session.send(requests))
    assert sorted(position for position, _ in outcomes) == [0, 1, 2]
    return {requests[position].subject: outcome for position, outcome in outcomes}


def test_a_reply_fits_its_schema(replies):
    reply = replies["with schema"]
    assert isinstance(reply, Reply), reply
    value = json.loads(reply.text)
    assert list(value) == ["entities"]
    assert len(value["entities"]) <= 3
    assert all(isinstance(name, str) and len(name) <= 12 for name in value["entities"])
    assert reply.finish == "stop"


def test_tokens_are_counted(replies):
    for reply in (replies["with schema"], replies["free text"]):
        assert 10 < reply.prompt_tokens < 60
        assert reply.seconds > 0
    assert 3 < replies["with schema"].completion_tokens <= 80
    assert 0 < replies["free text"].completion_tokens <= 12


def test_free_text(replies):
    reply = replies["free text"]
    assert isinstance(reply, Reply), reply
    assert reply.text.strip()
    assert reply.finish in ("stop", "length")


def test_longer_than_the_context(replies):
    failure = replies["too long"]
    assert isinstance(failure, Failure)
    assert failure.kind == "context_length"
    assert str(CONTEXT) in failure.message


def test_the_program_prints_its_url_and_ends_on_interrupt():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "experiments.serve_llm", "--port", str(port), "--context", "256"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        line = program.stdout.readline()
        if not line and program.wait() == 2:
            pytest.skip(program.stderr.read().strip())
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=30)
    assert line == f"http://127.0.0.1:{port}/v1\n"
    assert program.returncode == 0, errors
    assert "Traceback" not in errors


def test_a_taken_port_and_a_missing_model_are_named(base_url, tmp_path):
    port = int(base_url.split(":")[2].split("/")[0])
    with pytest.raises(AegError, match=f"port {port} on 127.0.0.1"), local_server(port=port):
        pass
    with pytest.raises(DataError, match=r"none\.gguf: no such file"), local_server(tmp_path / "none.gguf"):
        pass
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    with pytest.raises(DataError, match="cannot serve it"), local_server(broken):
        pass


def test_a_damaged_model_file_is_written_anew(base_url, tmp_path):
    target = packaged_model(tmp_path)
    whole = target.stat().st_size
    target.write_bytes(b"cut")
    assert packaged_model(tmp_path) == target
    assert target.stat().st_size == whole
    assert list(tmp_path.iterdir()) == [target]

"""The cache of replies: keys, many writers, kills, damage, forks."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from llm_fake import Fake, ask, reply

from aeg.backends.llm import Batch, Message, OpenAI, Recorded, ReplyCache
from aeg.backends.llm.cache import replay_key, reply_key
from aeg.backends.llm.lines import Lines
from aeg.errors import DataError

REQUEST = ask("x").request()
FAKE = Fake(model="m")


def found(cache: ReplyCache, request=REQUEST, backend=FAKE) -> list[str]:
    return [reply.text for reply in cache.get(reply_key(backend, request))]


def test_the_key_follows_everything_that_decides_a_reply_and_nothing_else():
    base = OpenAI(model="m", base_url="http://a/v1")
    key = reply_key(base, REQUEST)
    backends = [replace(base, **change) for change in ({"model": "n"}, {"temperature": 0.1}, {"seed": 1})]
    backends += [replace(base, **change) for change in ({"base_url": "http://b/v1"}, {"extra_body": {"top_k": 1}})]
    requests = [
        replace(REQUEST, **change)
        for change in ({"messages": (*REQUEST.messages, Message("user", "y"))}, {"schema": "{}"}, {"sample": 1})
    ]
    requests += [replace(REQUEST, max_tokens=1), replace(REQUEST, messages=(Message("user", "x"),))]
    keys = [reply_key(backend, REQUEST) for backend in backends] + [reply_key(base, request) for request in requests]
    assert len({key, *keys}) == 1 + len(keys)
    assert reply_key(replace(base, max_concurrency=1, timeout=1.0, api_key_env="K"), REQUEST) == key
    assert reply_key(base, replace(REQUEST, task="other", subject="other")) == key
    assert reply_key(Batch(model="m", base_url="http://a/v1", folder="f"), REQUEST) == key
    assert replay_key("m", 0, 0, REQUEST) == replay_key("m", 0.0, 0, REQUEST) != replay_key("m", 0.0, 1, REQUEST)


def test_lone_surrogates_have_a_key():
    assert len(reply_key(FAKE, replace(REQUEST, messages=(Message("user", "\ud800"),)))) == 64


def test_a_record_can_be_audited(tmp_path):
    ReplyCache(tmp_path).put(FAKE, [REQUEST], reply("é\u2028\n"))
    (file,) = tmp_path.iterdir()
    (line,) = file.read_bytes().splitlines()
    record = json.loads(line)
    assert record["messages"] == [{"role": turn.role, "content": turn.content} for turn in REQUEST.messages]
    assert (record["task"], record["subject"], record["model"]) == ("echo", "subject x", "m")
    assert record["key"] == reply_key(FAKE, REQUEST)
    assert record["replay"] == replay_key("m", 0.0, 0, REQUEST)
    assert record["reply"]["text"] == "é\u2028\n"
    assert found(ReplyCache(tmp_path)) == ["é\u2028\n"]


def test_without_requests_only_their_hash_is_kept(tmp_path):
    ReplyCache(tmp_path, requests=False).put(FAKE, [REQUEST], reply("secret free"))
    (file,) = tmp_path.iterdir()
    record = json.loads(file.read_text())
    assert "messages" not in record
    assert len(record["request"]) == 64
    assert found(ReplyCache(tmp_path)) == ["secret free"]


def test_another_processs_records_are_seen_after_a_refresh(tmp_path):
    one, other = ReplyCache(tmp_path), ReplyCache(tmp_path)
    other.put(FAKE, [REQUEST], reply("a"))
    assert found(one) == []
    one.refresh()
    assert found(one) == ["a"]
    second = ask("y").request()
    other.put(FAKE, [second], reply("b"))
    one.refresh()
    one.refresh()
    assert (found(one), found(one, second), len(one)) == (["a"], ["b"], 2)


def test_an_unfinished_line_is_taken_up_when_it_is_whole(tmp_path):
    writer = ReplyCache(tmp_path)
    writer.put(FAKE, [REQUEST], reply("a"))
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for end in (1, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:end])
        reader = ReplyCache(tmp_path)
        assert (found(reader), reader.damaged) == ([], 0)
        file.write_bytes(whole)
        reader.refresh()
        assert found(reader) == ["a"]


@pytest.mark.parametrize("damage", [b"\0" * 40 + b"\n", b"{}\n", b"\n", b'{"key": "short"}\n', b"\xff\xfe\n"])
def test_a_damaged_line_is_passed_over_and_counted(tmp_path, damage):
    writer = ReplyCache(tmp_path)
    writer.put(FAKE, [REQUEST], reply("a"))
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage + file.read_bytes())
    reader = ReplyCache(tmp_path)
    assert (found(reader), reader.damaged) == (["a"], 1)


def test_a_record_damaged_inside_counts_as_absent(tmp_path):
    writer = ReplyCache(tmp_path)
    writer.put(FAKE, [REQUEST], reply("a"))
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes().replace(b'"reply": {', b'"reply": \0\0'))
    reader = ReplyCache(tmp_path)
    assert (found(reader), found(reader), reader.damaged) == ([], [], 1)
    reader.put(FAKE, [REQUEST], reply("b"))
    assert found(reader) == ["b"]


def test_every_instance_has_a_file_of_its_own(tmp_path):
    for n in range(3):
        ReplyCache(tmp_path).put(FAKE, [ask(str(n)).request()], reply("a"))
    names = [file.name for file in tmp_path.iterdir()]
    assert len(names) == 3
    assert all(f"-{os.getpid()}-" in name for name in names)
    ReplyCache(tmp_path).close()
    assert len(list(tmp_path.iterdir())) == 3


def test_a_forked_child_writes_a_file_of_its_own(tmp_path):
    lines = Lines(tmp_path, "test")
    lines.append([{"n": 1}])
    child = os.fork()
    if child == 0:
        lines.append([{"n": 2}])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    lines.append([{"n": 3}])
    assert sorted(file.read_text() for file in tmp_path.iterdir()) == ['{"n": 1}\n{"n": 3}\n', '{"n": 2}\n']


def test_after_a_failed_write_a_new_file_is_begun(tmp_path, monkeypatch):
    lines = Lines(tmp_path, "test")
    lines.append([{"n": 1}])
    write = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) < 5:
            raise OSError(28, "No space left on device")
        return write(file, data[:5])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(DataError, match=r"test cannot be written \(No space left on device\)"):
        lines.append([{"n": 2}])
    monkeypatch.undo()
    lines.append([{"n": 3}])
    assert sorted(file.read_text() for file in tmp_path.iterdir()) == ['{"n": 1}\n{"n":', '{"n": 3}\n']


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(DataError, match="set artifacts_dir"):
        ReplyCache(tmp_path / "cache").put(FAKE, [REQUEST], reply("a"))


WRITER = """
import sys
from pathlib import Path
from llm_fake import Fake, ask, reply
from aeg.backends.llm import ReplyCache
cache = ReplyCache(Path(sys.argv[1]))
start, stop, size = map(int, sys.argv[2:])
print("ready", flush=True)
sys.stdin.readline()
for n in range(start, stop):
    cache.put(Fake(model="m"), [ask(str(n)).request()], reply(f"{n} " + "x" * size))
    print(n, flush=True)
"""


def start(folder, first, last, size, repo_root) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(repo_root), str(repo_root / "tests")])}
    command = [sys.executable, "-c", WRITER, str(folder), str(first), str(last), str(size)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)


def test_two_processes_write_at_once(tmp_path, repo_root):
    writers = [start(tmp_path, first, first + 150, 3000, repo_root) for first in (0, 100)]
    reader = ReplyCache(tmp_path)
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    while any(writer.poll() is None for writer in writers):
        reader.refresh()
        time.sleep(0.005)
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    reader.refresh()
    assert len(reader) == 250
    assert reader.damaged == 0
    for n in range(250):
        texts = found(reader, ask(str(n)).request())
        assert texts == [f"{n} " + "x" * 3000] * (2 if 100 <= n < 150 else 1)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_kill_loses_no_record_that_was_put(tmp_path, repo_root):
    chance = random.Random(4)
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        writer = start(folder, 0, 10**9, 50_000, repo_root)
        writer.stdout.readline()
        writer.stdin.write("go\n")
        writer.stdin.flush()
        time.sleep(chance.uniform(0.05, 0.3))
        writer.send_signal(signal.SIGKILL)
        said, _ = writer.communicate()
        put = [int(line) for line in said.split("\n")[:-1]]
        reader = ReplyCache(folder)
        assert len(reader) >= len(put) > 0
        assert len(reader) <= len(put) + 1
        assert reader.damaged == 0
        for n in put:
            assert found(reader, ask(str(n)).request()) == [f"{n} " + "x" * 50_000]
        (torn,) = folder.iterdir()
        content = torn.read_bytes()
        torn.write_bytes(content[: content.rindex(b"\n") - 7])  # as if the kill had come in mid-write
        after = ReplyCache(folder)
        assert len(after) == len(reader) - 1
        after.put(FAKE, [REQUEST], reply("later"))
        assert len(ReplyCache(folder)) == len(reader)


def test_a_recording_is_found_without_its_endpoint(tmp_path):
    live = OpenAI(model="m", base_url="http://a/v1", temperature=0.7, extra_body={"top_k": 3})
    ReplyCache(tmp_path).put(live, [REQUEST], reply("a"))
    with Recorded(model="m", temperature=0.7, folder=str(tmp_path)).open() as session:
        ((place, outcome),) = session.send([REQUEST])
    assert (place, outcome) == (0, reply("a"))

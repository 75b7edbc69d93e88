"""An extraction that is killed again and again loses nothing, pays for no stored reply twice, and ends the same."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from extraction_child import CONCURRENCY, artifact_of
from llm_server import Received, ScriptedServer, hangs, say, say_json

PASSAGES = 30
KILLS = 20
TEXTS = [f"Ann{n:02d} owns Bix{n:02d}. Bix{n:02d} sleeps in 青岛." for n in range(PASSAGES)]
DELAY = 0.005


class Zygote:
    """The program that forks extractions."""

    def __init__(self) -> None:
        program = Path(__file__).with_name("extraction_child.py")
        self.process = subprocess.Popen(
            [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, *arguments: object) -> int:
        """Start an extraction; return its process's id."""
        self.process.stdin.write(json.dumps(arguments) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def status(self) -> int:
        """Wait for its end; return its exit status."""
        return int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    found = Zygote()
    yield found
    found.close()


@dataclass
class Model:
    """The served model: replies after a moment; in a run that will be killed, only to the first `answers` requests."""

    answers: int | None = None  # None: to all
    asked: list[tuple[str, str]] = field(default_factory=list)  # (task, passage) of this run's requests
    answered: int = 0  # in all runs
    enough: threading.Event = field(default_factory=threading.Event)

    def begin(self, answers: int | None) -> None:
        self.answers, self.asked = answers, []
        self.enough.clear()

    def __call__(self, received: Received) -> object:
        content = received.prompt
        number = re.findall(r"\bAnn(\d\d) owns", content)[-1]
        task = "triples_atoms" if "\nEntities: [" in content else "ner"
        self.asked.append((task, f"p{number}"))
        if self.answers is not None and len(self.asked) >= self.answers:
            self.enough.set()
        if self.answers is not None and len(self.asked) > self.answers:
            return hangs()
        self.answered += 1
        if task == "ner":
            return say_json({"entities": [f"Ann{number}", f"Bix{number}"]}, delay=DELAY)
        triple = f'["ANN{number}", "owns", "Bix{number}"]'
        atoms = f'"Ann{number} owns Bix{number}.", {{"text": "Bix{number} sleeps in 青岛.", "entities": ["青岛"]}}'
        comma = "," if int(number) % 5 == 0 else ""  # some replies need the tolerant parser
        return say(f'{{"triples": [{triple}], "atoms": [{atoms}{comma}]}}', delay=DELAY)


def lines(folder: Path) -> list[dict]:
    """The whole records of a folder's files of JSON lines; a torn last line is no record."""
    found = []
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_bytes().split(b"\n")[:-1]:
            found.append(json.loads(line))
    return found


def cached(folder: Path) -> set[tuple[str, str]]:
    return {(record["task"], record["subject"]) for record in lines(folder / "llm" / "cache")}


def journalled(folder: Path) -> set[str]:
    return {record["extraction"]["passage_id"] for record in artifact_of(str(folder)).journalled()}


def tear(folder: Path, chance: random.Random) -> None:
    """Leave the beginning of a record at the end of a dead process's file, as a kill in mid-write does."""
    files = [*(folder / "llm" / "cache").glob("*.jsonl"), *artifact_of(str(folder)).path.glob("journal-*.jsonl")]
    files = [file for file in sorted(files) if file.read_bytes().endswith(b"\n")]
    if files:
        file = chance.choice(files)
        whole = file.read_bytes().split(b"\n")[0]
        with file.open("ab") as end:
            end.write(whole[: chance.randrange(1, len(whole))])


def content(folder: Path) -> dict[str, bytes]:
    """What the finished artifact holds."""
    return {file.name: file.read_bytes() for file in sorted(artifact_of(str(folder)).path.iterdir())}


@pytest.fixture(scope="module")
def uninterrupted(zygote, tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    model = Model()
    with ScriptedServer(model) as server:
        zygote.start(str(folder), server.url, TEXTS, True)
        assert zygote.status() == 0
    assert len(model.asked) == len(set(model.asked)) == 2 * PASSAGES
    found = content(folder)
    assert sorted(found) == ["extraction.jsonl", "manifest.json"]
    records = [json.loads(line) for line in found["extraction.jsonl"].decode().splitlines()]
    assert [record["entities"] for record in records[:1]] == [["Ann00", "Bix00", "青岛"]]
    return found


@pytest.mark.parametrize("locks", [True, False], ids=["with locks", "without locks"])
def test_killed_at_random_moments(zygote, uninterrupted, tmp_path, locks):
    chance = random.Random(7 + locks)
    model, kills, started = Model(), 0, time.monotonic()
    stored: set[tuple[str, str]] = set()
    done: set[str] = set()
    with ScriptedServer(model) as server:
        while True:
            gated = kills < KILLS
            model.begin(chance.randint(0, 4) if gated else None)
            process = zygote.start(str(tmp_path), server.url, TEXTS, locks)
            if gated and chance.random() < 0.8:
                assert model.enough.wait(30), "no request came"
                time.sleep(chance.uniform(0, 3 * DELAY))
            else:
                time.sleep(chance.uniform(0, 0.15))
            if kills < KILLS + 4:
                kill(process)
            status = zygote.status()
            repeated = stored & set(model.asked)
            assert not repeated, f"paid twice: {sorted(repeated)}"
            assert not {passage for _, passage in model.asked} & done
            assert status in (0, -signal.SIGKILL)
            if status == 0:
                break
            kills += 1
            if chance.random() < 0.3:
                tear(tmp_path, chance)
            before, stored = stored, cached(tmp_path)
            assert before <= stored, "a stored reply was lost"
            before_done, done = done, journalled(tmp_path)
            assert before_done <= done or artifact_of(str(tmp_path)).complete, "a journalled passage was lost"
    assert kills >= KILLS
    assert len(cached(tmp_path)) == 2 * PASSAGES
    assert model.answered <= 2 * PASSAGES + kills * CONCURRENCY
    assert content(tmp_path) == uninterrupted
    print(f"{kills} kills, {model.answered} replies for {2 * PASSAGES}, {time.monotonic() - started:.1f} s")


def kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has finished
        os.kill(process, signal.SIGKILL)


def test_a_run_after_the_end_asks_nothing(zygote, tmp_path):
    model = Model()
    with ScriptedServer(model) as server:
        for _ in range(2):
            zygote.start(str(tmp_path), server.url, TEXTS[:3], True)
            assert zygote.status() == 0
        assert model.answered == 6
        (artifact_of(str(tmp_path)).path / "manifest.json").unlink()  # the cache alone
        zygote.start(str(tmp_path), server.url, TEXTS[:3], True)
        assert zygote.status() == 0
    assert model.answered == 6

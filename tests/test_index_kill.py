"""Whoever is killed, or writes or reads at the same time: an index is in the state before or the state after."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from index_child import change, silent

from aeg import index as indexes
from aeg.claims import Claim
from aeg.core.records import Corpus, Document
from aeg.corpus import CORPORA
from aeg.corpus.base import CorpusLoader
from aeg.errors import DataError
from aeg.index.documents import load_documents

KILLS = 100
TEXTS = {f"d{n}": f"Ann{n} met Bix{n % 3} in Tarn. Bix{n % 3} left the Tarn Laboratory{n % 2} again." for n in range(8)}
NEW = {f"n{n}": f"Cey{n} met Bix{n} near Zürich." for n in range(3)}


class Zygote:
    """The program that forks processes which change an index."""

    def __init__(self) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        path = [str(Path(__file__).parent), *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(path)
        program = [sys.executable, "-c", "import index_child; index_child.main()"]
        self.process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def start(self, operation: str, index: Path, source: object, event: int | None = None) -> int:
        return self._say("start", operation, str(index), source, event)

    def wait(self, process: int) -> tuple[int, str]:
        return tuple(self._say("wait", process))

    def _say(self, *line: object):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    found = Zygote()
    yield found
    found.close()


def write(path: Path, documents: dict[str, str]) -> str:
    path.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in documents.items()))
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with an index, and files of documents to change it with."""
    path = tmp_path_factory.mktemp("index")
    change("build", str(path / "base"), write(path / "base.jsonl", TEXTS))
    write(path / "new.jsonl", NEW)
    write(path / "altered.jsonl", {"d1": "Ann1 left Keswick.", "d2": TEXTS["d2"], "n9": "Bix9 met Ann1."})
    return path


def content(index: Path) -> dict[str, bytes]:
    names = indexes.files(index)
    return {Path(name).name: (index / name).read_bytes() for name in names}


def held(index: Path) -> set[str]:
    return set(indexes.reading(index, lambda view: load_documents(view.path)))


@dataclass
class Change:
    """A change of the index, what it gives, and what it takes."""

    operation: str
    source: object
    after: dict[str, bytes]
    events: int = 0
    seconds: float = 0.0


@pytest.fixture(scope="module")
def changes(folder, zygote) -> list[Change]:
    found = []
    sources = {"add": str(folder / "new.jsonl"), "remove": ["d0", "d5"], "prune": str(folder / "altered.jsonl")}
    for operation, source in sources.items():
        index = folder / f"whole-{operation}"
        shutil.copytree(folder / "base", index)
        started = time.perf_counter()
        status, events = zygote.wait(zygote.start(operation, index, source))
        assert status == 0, events
        found.append(Change(operation, source, content(index), int(events), time.perf_counter() - started))
    return found


def test_killed_at_a_hundred_moments_an_index_is_old_or_new(folder, changes, zygote):
    chance, old = random.Random(0), content(folder / "base")
    assert all(one.after != old and one.events > 20 for one in changes)
    killed, states = 0, {"old": 0, "new": 0}
    for number in range(KILLS):
        one, index = chance.choice(changes), folder / f"killed{number}"
        shutil.copytree(folder / "base", index)
        if number % 2:  # half of them at a change of a file, half at any time
            process = zygote.start(one.operation, index, one.source, chance.randrange(one.events))
        else:
            process = zygote.start(one.operation, index, one.source)
            time.sleep(chance.uniform(0, one.seconds))
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        status, message = zygote.wait(process)
        assert status in (0, -signal.SIGKILL), message
        killed += status != 0
        found = content(index)
        assert found in (old, one.after), f"{number}: {one.operation} left a mixture"
        states["old" if found == old else "new"] += 1
        if number % 4 == 1:  # the same command again finishes, and clears away what the dead one left
            status, message = zygote.wait(zygote.start(one.operation, index, one.source))
            again = found == one.after and one.operation == "remove"
            assert (status == 2 and "no document" in message) if again else status == 0, message
            assert content(index) == one.after
            if found == old:
                assert sorted(p.name for p in index.iterdir()) == ["generations", "index.json"]
                assert all(not p.name.startswith(".") for p in (index / "generations").iterdir())
        shutil.rmtree(index)
    assert killed > KILLS // 2
    assert states["old"] > 10
    assert states["new"] > 3


def test_killed_while_building_it_is_incomplete_then_whole(folder, zygote):
    index, source = folder / "young", str(folder / "base.jsonl")
    assert zygote.wait(zygote.start("build", index, source, 12))[0] == -signal.SIGKILL
    with pytest.raises(DataError, match="index incomplete"):
        indexes.open_index(index)
    assert zygote.wait(zygote.start("build", index, source))[0] == 0
    assert content(index) == content(folder / "base")


def test_two_writers_make_the_union_or_one_is_refused(folder, zygote):
    refused = 0
    for number in range(6):
        index = folder / f"two{number}"
        shutil.copytree(folder / "base", index)
        writers = []
        for name in ("left", "right"):
            source = write(folder / f"{name}.jsonl", {f"{name}{number}": f"Dax{number} met {name.title()}."})
            writers.append((f"{name}{number}", zygote.start("add", index, source)))
        expected = set(TEXTS)
        for name, process in writers:
            status, message = zygote.wait(process)
            if status == 0:
                expected.add(name)
            else:
                assert status == 2
                assert "is changing this index; run this again afterwards" in message
                refused += 1
        assert held(index) == expected
        assert len(expected) > len(TEXTS)
        for name, _ in writers:
            if name not in expected:
                side = name.rstrip("0123456789")
                assert zygote.wait(zygote.start("add", index, str(folder / f"{side}.jsonl")))[0] == 0
        assert held(index) == {*TEXTS, *(name for name, _ in writers)}
    assert refused > 0


def test_a_claim_held_elsewhere_is_respected(folder):
    index = folder / "claimed"
    shutil.copytree(folder / "base", index)
    with Claim(index / "claim"):
        holder = json.loads((index / "claim").read_text())
        with pytest.raises(DataError, match=f"process {os.getpid()} on .* is changing this index"):
            change("remove", str(index), ["d1"])
    (index / "claim").write_text(json.dumps(holder | {"host": "elsewhere"}))  # its heartbeat is now
    with pytest.raises(DataError, match=f"process {os.getpid()} on elsewhere is changing this index"):
        change("remove", str(index), ["d1"])
    assert content(index) == content(folder / "base")


@dataclass(frozen=True)
class Overtaken(CorpusLoader):
    """While it loads, somebody takes the claim over, as happens to a process that is suspended for minutes."""

    index: str = ""

    def load(self, root: Path | None) -> Corpus:
        path = Path(self.index) / "claim"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"token": "another"}))
        return Corpus((Document("n1", "Cey met Ann."),))


def test_a_writer_that_lost_its_claim_changes_nothing(folder):
    index = folder / "lost"
    shutil.copytree(folder / "base", index)
    with pytest.raises(DataError, match="somebody else changed the index meanwhile"):
        indexes.add(index, Overtaken(str(index)), silent)
    assert content(index) == content(folder / "base")
    assert (index / "claim").exists()  # the other's


def test_readers_see_whole_states_while_the_index_changes(folder, zygote):
    index, whole = folder / "read", folder / "states"
    shutil.copytree(folder / "base", index)
    shutil.copytree(folder / "base", whole)
    jobs = [("add", str(folder / "new.jsonl")), ("remove", ["d1"]), ("prune", str(folder / "altered.jsonl"))] * 2
    jobs = [*jobs[:1], ("remove", ["d0"]), *jobs[2:4], ("remove", ["d2", "n0"])]
    states = [content(whole)]
    for operation, source in jobs:
        assert zygote.wait(zygote.start(operation, whole, source))[0] == 0
        states.append(content(whole))

    def read(view: indexes.View) -> dict[str, bytes]:
        names = {path.name: path.read_bytes() for path in sorted(view.path.iterdir())}
        pointer = json.dumps(view.content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        return names | {"index.json": pointer.encode()}

    seen = set()
    for operation, source in jobs:
        process = zygote.start(operation, index, source)
        for _ in range(60):
            seen.add(states.index(indexes.reading(index, read)))
        assert len(indexes.open_index(index)[1].passages) > 0
        assert zygote.wait(process)[0] == 0
        seen.add(states.index(indexes.reading(index, read)))
    assert seen == set(range(len(states)))


def test_a_reader_overtaken_by_two_changes_reads_again(folder):
    index, calls = folder / "overtaken", []
    shutil.copytree(folder / "base", index)

    def read(view: indexes.View) -> set[str]:
        calls.append(view.generation)
        if len(calls) == 1:
            change("remove", str(index), ["d1"])
            assert set(load_documents(view.path)) == set(TEXTS)  # one change later its generation is still there
            change("remove", str(index), ["d2"])
        return set(load_documents(view.path))

    assert indexes.reading(index, read) == set(TEXTS) - {"d1", "d2"}
    assert len(calls) == 2
    assert len(list((index / "generations").iterdir())) == 2
    loader = replace(CORPORA.make("jsonl", documents=str(folder / "new.jsonl")))
    indexes.add(index, loader, silent)
    assert held(index) == set(TEXTS) - {"d1", "d2"} | set(NEW)

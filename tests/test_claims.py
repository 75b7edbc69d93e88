"""Claims: one holder at a time, dead holders are replaced by one of those who wait, live ones are never."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from aeg.artifacts import Store
from aeg.claims import Claim, Holder, holder_of

HOLDING = """
import sys, time
from pathlib import Path
from aeg.claims import Claim
claim = Claim(Path(sys.argv[1]))
assert claim.try_acquire()
print("held", flush=True)
time.sleep(600)
"""

COUNTING = """
import sys, time
from pathlib import Path
from aeg.claims import Claim
counter = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    claim = Claim(counter.with_name("claim"))
    while not claim.try_acquire():
        time.sleep(0.001)
    with claim:
        value = int(counter.read_text())
        time.sleep(0.0005)
        counter.write_text(str(value + 1))
"""


def holder(**changes: object) -> Holder:
    """A holder on another machine."""
    other = Holder("elsewhere", "boot/pid:[1]", "4711", 12, 34, "other", time.time(), expiry=0.4)
    return dataclasses.replace(other, **changes)  # type: ignore[arg-type]


def placed(path: Path, who: Holder, age: float = 0.0) -> Path:
    path.write_text(json.dumps(dataclasses.asdict(who)))
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def mine(path: Path) -> Holder:
    with Claim(path):
        found = holder_of(path)
    assert found is not None
    return found


def test_one_holds_it_and_gives_it_back(tmp_path):
    path = tmp_path / "deep" / "claim"
    with Claim(path) as claim:
        assert claim.held
        assert not Claim(path).try_acquire()
        found = holder_of(path)
        assert found is not None
        assert (found.pid, found.here, found.gone) == (os.getpid(), True, False)
        assert set(json.loads(path.read_text())) >= {"host", "job", "pid", "expiry", "since"}
    assert not path.exists()
    assert holder_of(path) is None
    with pytest.raises(ValueError, match="broken"), Claim(path):
        raise ValueError("broken")
    assert list(path.parent.iterdir()) == []


def test_the_slurm_job_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "123")
    assert "job 123" in str(mine(tmp_path / "claim"))


def test_processes_exclude_each_other(tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    command = [sys.executable, "-c", COUNTING, str(counter), "100"]
    workers = [subprocess.Popen(command) for _ in range(3)]
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0, 0]
    assert counter.read_text() == "300"


def test_a_killed_process_does_not_block(tmp_path):
    path = tmp_path / "claim"
    child = subprocess.Popen([sys.executable, "-c", HOLDING, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    assert not Claim(path).try_acquire()
    child.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    taken = Claim(path, (lines := []).append, "stage")
    while not taken.try_acquire():  # not waited for: a zombie is dead as well
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "no longer runs" in lines[0]
    child.wait()
    child.stdout.close()
    taken.release()
    assert list(tmp_path.iterdir()) == []


def test_a_process_number_that_is_used_again_is_another_process(tmp_path):
    path = tmp_path / "claim"
    alive = mine(path)
    placed(path, alive)
    assert not Claim(path).try_acquire()
    placed(path, dataclasses.replace(alive, started=alive.started - 1))
    assert holder_of(path) is None
    assert Claim(path).try_acquire()


def test_another_hosts_claim_holds_while_its_heart_beats(tmp_path):
    path = placed(tmp_path / "claim", holder())
    claim, end = Claim(path), time.monotonic() + 1.2
    while time.monotonic() < end:
        os.utime(path)
        assert not claim.try_acquire()
        time.sleep(0.05)


def test_another_hosts_dead_claim_is_taken_over_after_its_expiry(tmp_path):
    path = placed(tmp_path / "claim", holder())
    began, lines = time.monotonic(), []
    with Claim(path, lines.append, "extraction") as claim:
        assert time.monotonic() - began > 0.4
        assert not claim.lost
    assert "extraction: waiting for process 12 on elsewhere, job 4711" in lines[0]
    assert list(tmp_path.iterdir()) == []


def test_clocks_that_differ_a_little_take_nothing_away_but_an_old_claim_is_dead_at_once(tmp_path):
    path = placed(tmp_path / "claim", holder(expiry=60), age=90)
    assert not Claim(path).try_acquire()
    placed(path, holder(expiry=60), age=601)
    assert Claim(path).try_acquire()


def test_a_claim_that_was_cut_off_while_it_was_written_does_not_block_for_ever(tmp_path):
    path = tmp_path / "claim"
    path.write_text('{"host": "els')
    assert not Claim(path).try_acquire()
    os.utime(path, (time.time() - 200, time.time() - 200))
    assert Claim(path).try_acquire()


def test_of_many_that_wait_for_a_dead_one_a_single_one_gets_it(tmp_path):
    for attempt in range(20):
        path = placed(tmp_path / f"claim{attempt}", holder(), age=3600)
        claims, barrier = [Claim(path) for _ in range(8)], threading.Barrier(8)
        got: list[bool] = []

        def take(claim: Claim, barrier: threading.Barrier = barrier, got: list[bool] = got) -> None:
            barrier.wait()
            got.append(claim.try_acquire())

        threads = [threading.Thread(target=take, args=(claim,)) for claim in claims]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(got) == sum(claim.held and not claim.lost for claim in claims) == 1
        for claim in claims:
            claim.release()
    assert list(tmp_path.iterdir()) == []


def test_a_tombstone_that_was_left_behind_does_not_block_for_ever(tmp_path):
    path = placed(tmp_path / "claim", holder(), age=3600)
    tombstone = tmp_path / ".claim.dead-other"
    tombstone.touch()
    assert not Claim(path).try_acquire()
    os.utime(tombstone, (time.time() - 10, time.time() - 10))
    claim = Claim(path)
    assert [claim.try_acquire(), claim.try_acquire()] == [False, True]


def test_who_was_wrongly_taken_for_dead_finds_out_and_leaves_the_other_alone(tmp_path):
    path = tmp_path / "claim"
    claim = Claim(path, beat=0.02)
    assert claim.try_acquire()
    before = path.stat().st_mtime_ns
    time.sleep(0.2)
    assert path.stat().st_mtime_ns > before  # the heart beats
    draft = placed(tmp_path / "draft", holder(), age=5)
    draft.replace(path)
    assert claim.lost
    before = path.stat().st_mtime_ns
    time.sleep(0.2)
    assert path.stat().st_mtime_ns == before  # and touches no other's file
    claim.release()
    assert json.loads(path.read_text())["token"] == "other"


def test_an_artifact_is_waited_for_and_then_used(tmp_path):
    artifact = Store(tmp_path).artifact("graph", of="x")
    lines: list[str] = []
    other = Claim(artifact.path / "claim")
    assert other.try_acquire()

    def finish() -> None:
        time.sleep(0.3)
        artifact.finish(counts={})
        other.release()

    thread = threading.Thread(target=finish)
    thread.start()
    with artifact.claimed(lines.append):
        assert artifact.complete
        assert not (artifact.path / "claim").exists()
    thread.join()
    assert "graph" in lines[0]
    assert "waiting for process" in lines[0]
    placed(artifact.path / "claim", holder(expiry=60))
    with artifact.claimed(lines.append):  # complete: nobody is waited for
        assert len(lines) == 1
    assert (artifact.path / "claim").exists()


def test_an_incomplete_artifact_is_claimed_while_it_is_made(tmp_path):
    artifact = Store(tmp_path).artifact("graph", of="y")
    with artifact.claimed():
        assert holder_of(artifact.path / "claim") is not None
    assert not (artifact.path / "claim").exists()

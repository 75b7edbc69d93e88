"""Tracking online, against a small server of W&B on this machine: watched live, requeued, uploaded later, refused."""

from __future__ import annotations

import re
import time

import pytest
from tracking_folder import ROWS, finish
from wandb_server import KEY, serving

from aeg.config.tracking import TrackingConfig
from aeg.tracking import process, tracker
from aeg.tracking.journal import read_journal
from aeg.tracking.sync import sync
from aeg.tracking.tracker import tracked
from experiments.sync import main

pytest.importorskip("wandb", reason="the extra 'track' is not installed")


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "runs" / "small-12345678"
    place.mkdir(parents=True)
    return place


@pytest.fixture
def server(monkeypatch, request):
    with serving(getattr(request, "param", "ok")) as state:
        monkeypatch.setenv("WANDB_BASE_URL", state.url)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        for name in ("WANDB_MODE", "WANDB_PROJECT", "WANDB_ENTITY"):
            monkeypatch.delenv(name, raising=False)
        yield state


def online(timeout: float = 40.0) -> TrackingConfig:
    return TrackingConfig(name="wandb", mode="online", project="lab", tags=["t"], timeout=timeout)


def steps(server, folder) -> list[int]:
    return [row["_step"] for row in server.runs[folder.name].history]


def until(true, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_a_run_is_watched_live_and_goes_on_after_a_requeue(folder, server, monkeypatch, capsys):
    monkeypatch.setattr(tracker, "_HASTE", 60.0)
    lines: list[str] = []

    def stopped() -> None:
        with tracked(folder, online(), {"seeds": [0]}, "s", lines.append) as told:
            told.advanced(1, 4)
            told.advanced(2, 4)
            until(lambda: folder.name in server.runs and steps(server, folder)[:1] == [1])  # before the run has ended
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert steps(server, folder) == [1, 2]
    assert server.runs[folder.name].exit_codes == [1]
    with tracked(folder, online(), {"seeds": [0]}, None, lines.append) as told:
        for done in (1, 2, 3, 4):
            told.advanced(done, 4)
        told.part(4, {"ppr/recall@5": 0.5})
        finish(folder)
    run = server.runs[folder.name]
    assert steps(server, folder) == [1, 2, 3, 4, 5]
    assert run.history[3]["ppr/recall@5"] == 0.5
    assert run.exit_codes == [1, 0]
    assert (run.tells["project"], run.tells["groupName"], run.tells["tags"]) == ("lab", "s", ["t"])
    assert run.config["seeds"] == [0]
    assert run.summary["bm25/recall@5"] == 0.25
    assert f"{folder.name}-files" in server.artifacts
    assert "wandb (online), 4 steps" in lines[-1]

    asked = server.requests
    assert main([str(folder)]) == 0  # once
    assert "was uploaded on" in capsys.readouterr().out
    assert server.requests == asked
    (folder / "metrics.json").write_text("[]")
    assert main([str(folder)]) == 1
    assert "metrics have changed since; --again sends it anew" in capsys.readouterr().out
    assert not any(KEY.encode() in body for body in server.bodies)


def test_a_finished_folder_is_uploaded_later_and_once(folder, server, capsys):
    with tracked(folder, TrackingConfig(), {"seeds": [0]}, None, print) as told:
        told.part(4, {"ppr/recall@5": 0.5})
        finish(folder)
    assert not server.requests
    assert main([str(folder), "--timeout", "60"]) == 0
    assert steps(server, folder) == [4, 5]
    assert sync(folder, print)
    assert steps(server, folder) == [4, 5]
    finish(folder, rows=[{**ROWS[0], "value": 0.75}])
    assert sync(folder, print, again=True)
    assert steps(server, folder) == [4, 5, 6]  # the tables anew; no step twice
    assert server.runs[folder.name].summary["ppr/recall@5"] == 0.75
    assert capsys.readouterr().out.count("wandb (online)") == 2


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("401", "refused"),
        ("500", "500|gave up"),
        ("hang", "imed out|status|gave up"),
        ("refuse_history", "not all was taken"),
    ],
    indirect=["server"],
)
def test_a_server_that_refuses_or_hangs_stops_nothing(folder, server, told, monkeypatch):
    monkeypatch.setattr(process, "_START", 20.0)
    lines: list[str] = []
    with tracked(folder, online(40.0 if server.how == "refuse_history" else 2.0), {}, None, lines.append) as run:
        run.part(4, {"ppr/recall@5": 0.5})
        finish(folder)
    assert len(lines) == 1
    assert re.search(told, lines[0])
    assert "the run folder is whole without it" in lines[0]
    assert not (folder / "tracking.json").exists()
    assert read_journal(folder).status == "finished"
    if server.how == "401":
        server.how = "ok"
        assert sync(folder, lines.append)
        assert steps(server, folder) == [4, 5]

"""Tracking: the log in the run folder, W&B offline read back, requeued runs, sweeps, secrets, a tracker that fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from slurm_encoder import make_encoder
from sweep_helpers import Place
from tracking_folder import ROWS, finish
from tracking_reader import offline_runs

from aeg.config.load import load_config
from aeg.config.tracking import TrackingConfig
from aeg.errors import ConfigError, DataError
from aeg.experiment.run import run, run_folder
from aeg.experiment.sweep import load_sweep, run_sweep
from aeg.tracking import process
from aeg.tracking.content import content_of_run
from aeg.tracking.journal import FILE, Identity, Writer, read_journal
from aeg.tracking.secrets import Redactor, is_secret_name
from aeg.tracking.sync import sync
from aeg.tracking.tracker import tracked

pytest.importorskip("wandb", reason="the extra 'track' is not installed")
HALTING = '''
"""PPR that is interrupted before its third block while a file is there."""
import os
from dataclasses import dataclass
from pathlib import Path
from aeg.config.ranges import param
from aeg.propagation import METHODS
from aeg.propagation.ppr import PPR

done = 0

@METHODS.register("halting")
@dataclass(frozen=True)
class Halting(PPR):
    engine: str = param("iterate", choices=("iterate",))

    def propagate(self, op, seeds, context):
        global done
        done += 1
        if done > 2 and Path(os.environ["SWEEP_PLACE"], "halt").exists():
            raise KeyboardInterrupt
        return super().propagate(op, seeds, context)
'''
KEY = "sk-proj-1234567890abcdefgh"


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """Nothing of the machine's own account of W&B; and no server there is to be asked."""
    for name in ("WANDB_MODE", "WANDB_PROJECT", "WANDB_ENTITY", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("encoder"))


def small(place: Place, encoder: Path, *more: str):
    own = [f"encoder.model={encoder}", f"evaluation.encoder.model={encoder}", "retrieval.block=1"]
    return load_config(place.file, [*own, "tracking={name: wandb, mode: offline, tags: [quick]}", *more])


def test_a_requeued_run_is_one_run_and_no_step_comes_twice(tmp_path, encoder, monkeypatch):
    monkeypatch.setenv("LAB_API_TOKEN", "tok-abcdefgh-42")
    place = Place(tmp_path, "")
    (tmp_path / "halting.py").write_text(HALTING)
    (tmp_path / "halt").touch()
    secret = f"llm.reader={{name: openai, model: m, extra_body: {{api_key: {KEY}, note: tok-abcdefgh-42}}}}"
    plugins = f"plugins=['{tmp_path / 'told.py'}', '{tmp_path / 'halting.py'}']"
    config = small(place, encoder, plugins, "propagation=[{name: halting}]", secret)
    lines: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run(config, lines.append, group="a-sweep")
    folder = run_folder(config)
    cut = read_journal(folder)
    assert (list(cut.steps), cut.status) == ([1, 2], "interrupted")
    assert not offline_runs(folder)
    (tmp_path / "halt").unlink()
    run(config, lines.append)
    log = read_journal(folder)
    assert (list(log.steps), log.status, log.attempts) == ([1, 2, 3, 4, 5, 6], "finished", 2)
    assert any("wandb (offline), 6 steps" in line for line in lines)

    (kept,) = offline_runs(folder)
    assert (kept.run.run_id, kept.run.run_group, kept.run.project) == (folder.name, "a-sweep", "aeg")
    assert (list(kept.run.tags), kept.run.job_type, kept.exit_code) == (["quick"], "run", 0)
    assert kept.steps == [1, 2, 3, 4, 5, 6, 7]
    metrics = json.loads((folder / "metrics.json").read_text())
    means = {f"{row['method']}/{row['metric']}": row["value"] for row in metrics if row["group"] == "all"}
    assert means["bm25/recall@5"] > 0
    assert {key: kept.summary[key] for key in means} == pytest.approx(means)
    assert {key: kept.history[5][key] for key in means} == pytest.approx(means)
    table = kept.table("metrics")
    assert [dict(zip(table["columns"], row, strict=True))["value"] for row in table["data"]] == [
        r["value"] for r in metrics
    ]
    assert len(kept.table("questions")["data"]) == 6 * 2
    assert kept.config["propagation"] == [{"name": "halting"}]
    assert kept.config["retrieval"]["block"] == 1
    assert {"metrics.json", "manifest.json", "results.parquet", "plot.png"} <= set(
        kept.artifacts[f"{folder.name}-files"]
    )
    assert kept.history[6]["plot"]["_type"] == "image-file"
    for path in (p for p in folder.rglob("*") if p.is_file() and (p.name == FILE or "wandb" in p.parts)):
        assert KEY.encode() not in path.read_bytes(), path
        assert b"tok-abcdefgh-42" not in path.read_bytes(), path
    assert KEY in (folder / "manifest.json").read_text()
    assert KEY not in content_of_run(folder).files["manifest.json"].read_text()

    run(config, lines.append)  # a finished run that is repeated is logged anew
    assert (list(read_journal(folder).steps), read_journal(folder).attempts) == ([1, 2, 3, 4, 5, 6], 1)
    assert len(offline_runs(folder)) == 1


def test_a_sweep_is_a_run_whose_steps_are_its_runs(tmp_path, encoder):
    sweep = "sweep: {grid: {propagation.0.restart: [0.1, 0.5]}}"
    more = f"encoder: {{name: hf, model: '{encoder}'}}\ntracking: {{name: wandb, mode: offline, artifacts: false}}"
    place = Place(tmp_path, sweep, more)
    loaded = load_sweep(place.file, [f"evaluation.encoder.model={encoder}"])
    lines: list[str] = []
    assert run_sweep(loaded, lines.append, only=(loaded.runs[1].id,)) == 0
    assert list(read_journal(loaded.folder).steps) == [1]
    assert not offline_runs(loaded.folder)
    assert run_sweep(loaded, lines.append) == 0
    (whole,) = offline_runs(loaded.folder)
    assert whole.run.run_id == whole.run.run_group == loaded.folder.name
    assert whole.run.job_type == "sweep"
    assert whole.steps == [0, 1, 2]
    assert [row["axis/propagation"]["0"]["restart"] if "axis/propagation" in row else row["axis/propagation.0.restart"]
            for row in whole.history[:2]] == [0.1, 0.5]  # fmt: skip
    for step, item in enumerate(loaded.runs):
        (one,) = offline_runs(item.folder)
        assert (one.run.run_group, one.artifacts.get(f"{item.folder.name}-files")) == (loaded.folder.name, None)
        assert whole.history[step]["ppr/recall@5"] == one.summary["ppr/recall@5"]
    before = [path.stat().st_mtime_ns for path in loaded.folder.glob("wandb/*/*.wandb")]
    assert run_sweep(loaded, lines.append) == 0
    assert [path.stat().st_mtime_ns for path in loaded.folder.glob("wandb/*/*.wandb")] == before


def test_what_is_tracked_does_not_name_the_run(tmp_path):
    plain, followed = (load_config(None, [f"run_dir={tmp_path}", *more]) for more in ([], ["tracking.name=wandb"]))
    assert run_folder(plain) == run_folder(followed)
    with pytest.raises(ConfigError, match=r"tracking.*mode"):
        load_config(None, ["tracking.mode=sometimes"])


@pytest.mark.parametrize(
    ("package", "told"),
    [
        ("raise ImportError('no such wheel')", "wandb cannot be imported"),
        ("import os; os._exit(9)", "ended with code 9"),
        ("raise RuntimeError('it is broken')", "it is broken"),
        ("import time; time.sleep(60)", "gave up after"),
    ],
)
def test_a_tracker_that_is_missing_or_broken_stops_nothing(tmp_path, monkeypatch, package, told):
    (tmp_path / "wandb.py").write_text(package)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    if "sleep" in package:
        monkeypatch.setattr(process, "_START", 6.0)
    folder, lines = tmp_path / "runs" / "small-12345678", []
    folder.mkdir(parents=True)
    config = TrackingConfig(name="wandb", mode="offline", timeout=1.0)
    with tracked(folder, config, {}, None, lines.append) as tracker:
        tracker.advanced(2, 4)
        tracker.part(4, {"ppr/recall@5": 0.5, "ppr/mrr": float("nan")})
        finish(folder)
    assert len(lines) == 1
    assert told in lines[0]
    assert "experiments.sync" in lines[0]
    assert read_journal(folder).steps[4]["ppr/recall@5"] == 0.5
    assert "ppr/mrr" not in read_journal(folder).steps[4]


def test_without_a_tracker_the_log_is_kept_and_nothing_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr(process.subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    for name, mode in (("none", None), ("wandb", "disabled")):
        folder = tmp_path / f"{name}-12345678"
        folder.mkdir()
        with tracked(folder, TrackingConfig(name=name, mode=mode), {"seeds": [0]}, None, pytest.fail) as tracker:
            tracker.part(4, {"a/b": 1.0})
        assert read_journal(folder).config == {"seeds": [0]}


def test_the_log_survives_being_cut_off(tmp_path):
    writer = Writer(tmp_path)
    writer.begin(Identity("i", "n"), {}, "now")
    assert writer.step(3, {"x": 1})
    assert not writer.step(3, {"x": 2})
    with (tmp_path / FILE).open("a") as file:
        file.write('{"kind": "step", "step": 4, "val')
    again = Writer(tmp_path)
    assert again.last == 3
    again.begin(Identity("another", "n"), {"later": 1}, "then")
    assert again.step(4, {"x": 4})
    log = read_journal(tmp_path)
    assert log.steps == {3: {"x": 1}, 4: {"x": 4}}
    assert (log.identity.id, log.config, log.attempts) == ("i", {}, 2)


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {KEY}",
        "hf_abcdefghijklmnop",
        "https://ann:hunter22@host/v1",
        "GET https://host/v1?api-key=abc123&x=1",
        "Authorization: Bearer abcdefgh.ijkl",
        "key is env-held-secret!",
    ],
)
def test_secrets_are_taken_out_of_texts(text):
    redact = Redactor(
        {"SOME_PASSWORD": "env-held-secret!", "TOKENIZERS_PARALLELISM": "false", "KEY_FILE": "/etc/a-path"}
    )
    clean = redact.text(text)
    assert "[redacted]" in clean
    for secret in (KEY, "hf_abc", "hunter22", "abc123", "abcdefgh.ijkl", "env-held"):
        assert secret not in clean
    assert (
        redact.text("commit 99521c5, /etc/a-path, prompt_tokens=12, false")
        == "commit 99521c5, /etc/a-path, prompt_tokens=12, false"
    )


def test_names_of_secrets():
    assert all(
        map(is_secret_name, ("api_key", "openai-api-key", "HF_TOKEN", "password", "client.secret", "Authorization"))
    )
    assert not any(map(is_secret_name, ("max_tokens", "api_key_env", "keyword", "monkey", "prompt_tokens", "seeds")))
    kept = Redactor({}).value({"key": "x", "nested": [{"token": {"a": "b"}, "max_tokens": 3, "secret": None}]})
    assert kept == {"key": "[redacted]", "nested": [{"token": "[redacted]", "max_tokens": 3, "secret": None}]}


def test_a_table_that_holds_a_secret_is_left_out_and_that_is_said(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    finish(tmp_path, log=f"failed: {KEY}")
    pq.write_table(pa.table({"a": [{"b": ["fine", f"no: {KEY}"]}]}), tmp_path / "answers.parquet")
    shown = content_of_run(tmp_path)
    assert "answers.parquet" not in shown.files
    assert "results.parquet" in shown.files
    assert shown.notes == ["answers.parquet is left out: something in it looks like a secret"]
    assert KEY not in shown.files["log.txt"].read_text()


def test_a_folder_from_before_any_tracking_is_written_offline(tmp_path):
    folder = tmp_path / "old-12345678"
    finish(folder)
    lines: list[str] = []
    assert sync(folder, lines.append, mode="offline")
    (one,) = offline_runs(folder)
    assert (one.run.run_id, one.steps) == ("old-12345678", [4, 5])
    assert one.summary["ppr/recall@5"] == ROWS[0]["value"]
    with pytest.raises(DataError, match="no finished run"):
        sync(tmp_path, lines.append)

"""A sweep on a real Slurm controller: killed, signalled, failed, requeued, reported; nothing waits for ever."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from slurm_controller import cluster, missing, wait
from slurm_encoder import make_encoder

from aeg.cluster.status import status
from aeg.cluster.submission import Submission, submissions

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"Slurm is not installed: {', '.join(missing())}")
HERE = Path(__file__).resolve().parent
PATIENCE = 900  # seconds, on a machine that does much else
QUESTIONS, BLOCK = 40, 8

_SWEEP = """\
extends: {base}
name: slurm
plugins: [{plugin}]
device: cpu
workers: 1
num_questions: {questions}
encoder: {{name: hf, model: "{encoder}", pooling: mean}}
graph: {{synonym: false}}
retrieval: {{block: {block}}}
propagation: [{{name: gated}}, {{name: none}}]
evaluation:
  encoder: {{name: hf, model: "{encoder}", pooling: mean}}
  budgets: [256]
  baselines: [dense_passages]
  resamples: 100
sweep:
  variants:
    - {{name: first, set: {{propagation.0.restart: 0.1}}}}
    - {{name: second, set: {{propagation.0.restart: 0.2}}}}
    - {{name: third, set: {{propagation.0.restart: 0.3}}}}
    - {{name: fourth, set: {{propagation.0.restart: 0.5}}}}
    - {{name: fifth, set: {{propagation.0.restart: 0.7}}}}
    - {{name: broken, set: {{propagation.0.fails: true}}}}
"""
KILLED, SIGNALLED, BROKEN = 0, 1, 5


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A controller with two nodes; its environment is the process's while the module runs."""
    folder = tmp_path_factory.mktemp("slurm")
    with pytest.MonkeyPatch.context() as patch, cluster(folder, nodes=2, pause=3600) as found:
        for name, value in found.env.items():
            patch.setenv(name, value)
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("AEG_TEST_GATE", str(folder))
        found.env.update(OMP_NUM_THREADS="1", AEG_TEST_GATE=str(folder))
        yield found


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """The sweep's file: on Medical where the data are there, else on the sample."""
    folder = tmp_path_factory.mktemp("sweep")
    data = Path(os.environ.get("AEG_DATA", HERE.parent.parent / "shared" / "data"))
    medical = (data / "medical" / "extraction.jsonl").is_file()
    text = _SWEEP.format(
        base="medical" if medical else "quickstart",
        plugin=shutil.copy(HERE / "slurm_gate.py", folder),
        encoder=make_encoder(folder / "encoder"),
        questions=QUESTIONS,
        block=BLOCK,
    )
    file = folder / "sweep.yaml"
    file.write_text(text + (f"data_root: {data}\n" if medical else ""))
    return file


def program(module: str, *arguments: object, code: int | None = 0, cwd: Path | None = None) -> str:
    """Run a program and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def submit(config: Path, *arguments: object) -> Path:
    """Submit a sweep and return its folder."""
    options = ["--partition", "main", "--time", "30", "--cpus", "1", "--mem", "1G", "--no-doctor"]
    text = program("experiments.submit", config, *options, *arguments, f"run_dir={config.parent / 'runs'}")
    return Path(next(line.removeprefix("sweep: ") for line in text.splitlines() if line.startswith("sweep: ")))


def run_of(sweep: Path, task: int):
    return status(sweep).runs[task]


def until(sweep: Path, task: int, *wanted: str, beyond: int = -1):
    """Wait until a run has one of these states, and more than so many questions done; return it."""
    found = []

    def ready() -> bool:
        found.append(run_of(sweep, task))
        return found[-1].status in wanted and found[-1].done > beyond

    try:
        wait(ready, PATIENCE, f"run {task} to be {' or '.join(wanted)}")
    except TimeoutError as error:
        raise AssertionError(f"{error}; it is {found[-1]}") from None
    return found[-1]


def blocks_kept(sweep: Path, artifacts: Path) -> int:
    """Blocks of questions that lie in files of unfinished rankings."""
    return len(list(artifacts.glob("ranking/*/blocks/*.safetensors")))


def start_now(slurm, element: str) -> None:
    """Start a requeued job, which this controller would do in an hour: the test sees it in the queue for certain."""
    wait(lambda: slurm.states().get(element) == "PENDING", PATIENCE, f"{element} in the queue")
    slurm.run("scontrol", "update", f"JobId={element}", "StartTime=now")


def metrics(folder: Path) -> dict[tuple[str, ...], dict[str, object]]:
    rows = json.loads((folder / "metrics.json").read_text())
    return {(row["method"], row["metric"], str(row.get("group")), str(row.get("part"))): row for row in rows}


@contextmanager
def references(config: Path, sweep: Path, tasks: tuple[int, ...]) -> Iterator[list[subprocess.Popen[str]]]:
    """The same runs without Slurm and interruptions, by the same code; extraction and graph are taken over."""
    place = config.parent / "reference"
    for stage in ("extraction", "graph"):
        shutil.copytree(config.parent / "artifacts" / stage, place / "artifacts" / stage)
    snapshot = next((sweep / "snapshots").iterdir())
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "AEG_TEST"))}
    environment |= {"PYTHONPATH": f"{snapshot}/code/plugins:{snapshot}/code", "PYTHONSAFEPATH": "1"}
    places = [f"run_dir={place / 'runs'}", f"artifacts_dir={place / 'artifacts'}"]
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "aeg", "run", str(snapshot / f"task-{task}.yaml"), *places],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
            for task in tasks
        ]


def test_a_sweep_survives_kills_signals_and_a_failure(slurm, config):
    artifacts = config.parent / "artifacts"
    for task in (KILLED, SIGNALLED):
        (slurm.folder / f"hold-{task}").touch()
    slurm.run("scontrol", "update", "PartitionName=main", "State=DOWN")
    sweep = submit(config, f"artifacts_dir={artifacts}")
    sent = submissions(sweep)[-1]
    killed, signalled = (f"{sent.array}_{task}" for task in (KILLED, SIGNALLED))

    # Nothing has started: all runs are in the queue, and nothing is submitted twice.
    found = status(sweep)
    assert found.counts == {"queued": 6}, found
    assert {run.job for run in found.runs} == {f"{sent.array}_{task}" for task in range(6)}
    assert found.jobs["index"].startswith(f"{sent.index} PENDING")
    assert "nothing to submit: 6 in the queue" in program("experiments.submit", sweep, "--dry-run", code=2)

    slurm.run("scontrol", "update", "PartitionName=main", "State=UP")
    wait(lambda: slurm.states()[str(sent.index)] == "COMPLETED", PATIENCE, "the index")
    with references(config, sweep, (KILLED, SIGNALLED)) as alone:
        interrupted(slurm, sweep, artifacts, killed, signalled)
        reported(slurm, sweep, sent)
        for process in alone:
            output, _ = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, output
    for task in (KILLED, SIGNALLED):
        compare(sweep, config.parent / "reference" / "runs", status(sweep).runs[task].id)


def interrupted(slurm, sweep: Path, artifacts: Path, killed: str, signalled: str) -> None:
    """Kill one run twice and signal another twice, with some of the questions done and some not."""
    done = {KILLED: 0, SIGNALLED: 0}
    for attempt in (1, 2):
        for task in (KILLED, SIGNALLED):
            before = 2 * BLOCK * (attempt - 1)
            run = until(sweep, task, "running", beyond=before)
            wait(lambda: blocks_kept(sweep, artifacts) > 0, PATIENCE, "blocks on disk")
            assert before < run.done <= before + 2 * BLOCK < run.total == QUESTIONS, run
            assert run.attempts == attempt
            done[task] = run.done
        slurm.run("scancel", "--signal=KILL", "--batch", killed)
        slurm.run("scancel", "--signal=USR1", "--batch", signalled)
        run = until(sweep, KILLED, "failed")
        assert run.slurm.startswith("FAILED")
        assert done[KILLED] <= run.done <= 2 * BLOCK * attempt
        slurm.run("scontrol", "requeue", killed)
        run = until(sweep, SIGNALLED, "queued")
        assert done[SIGNALLED] <= run.done <= 2 * BLOCK * attempt
        assert until(sweep, KILLED, "queued").done >= done[KILLED]
        if attempt == 2:
            for task in (KILLED, SIGNALLED):
                (slurm.folder / f"hold-{task}").unlink()
        for element in (killed, signalled):
            start_now(slurm, element)

    for task in (KILLED, SIGNALLED):
        run = until(sweep, task, "finished")
        assert (run.done, run.attempts) == (QUESTIONS, 3)


def reported(slurm, sweep: Path, sent: Submission) -> None:
    """The broken run has failed, the report is there, nothing is left in the queue, and the status says so."""
    run = until(sweep, BROKEN, "failed")
    assert "this run is made to fail" in run.error
    assert any("this run is made to fail" in line for line in run.log)
    wait(lambda: slurm.states()[str(sent.report)] == "COMPLETED", PATIENCE, "the report")
    assert (sweep / "report" / "index.html").is_file(), (sweep / "logs" / f"report-{sent.report}.log").read_text()

    states = slurm.states(*sent.numbers)
    assert Counter(states.values()) == {"COMPLETED": 7, "FAILED": 1}, states
    assert slurm.run("squeue", "--noheader") == ""
    for arguments in ((), ("--no-slurm",)):
        told = json.loads(program("experiments.status", sweep, "--json", *arguments, code=1))
        assert told["counts"] == {"finished": 5, "failed": 1}
    assert "this run is made to fail" in program("experiments.status", sweep, code=1)


def compare(sweep: Path, alone: Path, run: str) -> None:
    """The interrupted run has each question once, and the values of the uninterrupted one."""
    import pyarrow.parquet as pq

    ours, theirs = (folder / f"slurm-{run}" for folder in (sweep.parent, alone))
    assert len(list(sweep.parent.glob(f"slurm-{run}*"))) == 1
    tables = [pq.read_table(folder / "results.parquet").to_pylist() for folder in (ours, theirs)]
    keys = Counter((row["method"], row["question_id"]) for row in tables[0])
    assert len(keys) == 3 * QUESTIONS
    assert set(keys.values()) == {1}
    for mine, other in zip(*tables, strict=True):
        for name in ("method", "question_id", "units", "unit_scores", "documents", "document_scores", "iterations"):
            assert mine[name] == other[name], (name, mine["question_id"])
    mine, other = metrics(ours), metrics(theirs)
    assert mine.keys() == other.keys()
    for key, row in mine.items():
        assert row == other[key], key


def test_an_index_that_fails_leaves_nothing_waiting(slurm, tmp_path, config):
    file = tmp_path / "lost.yaml"
    shutil.copytree(config.parent / "encoder", tmp_path / "encoder")
    text = _SWEEP.format(
        base="quickstart",
        plugin=shutil.copy(HERE / "slurm_gate.py", tmp_path),
        encoder=tmp_path / "encoder",
        questions=QUESTIONS,
        block=BLOCK,
    )
    file.write_text(
        text.replace("name: slurm", f"name: slurm\ncorpus: {{name: jsonl, documents: {tmp_path}/gone.jsonl}}")
    )
    sweep = submit(file, f"artifacts_dir={tmp_path / 'artifacts'}")
    sent = submissions(sweep)[-1]
    wait(lambda: slurm.states()[str(sent.report)] == "COMPLETED", PATIENCE, "the report")
    found = status(sweep)
    assert found.counts == {"cancelled": 6}, found
    assert found.jobs["index"].startswith(f"{sent.index} FAILED")
    assert slurm.run("squeue", "--noheader") == ""
    assert "gone.jsonl" in (sweep / "logs" / f"index-{sent.index}.log").read_text()
    assert program("experiments.status", sweep, code=1).count("cancelled") == 7
    # The same command submits them again.
    assert "6 of 6 runs to submit" in program("experiments.submit", sweep, "--no-doctor", "--mem", "1G", "--cpus", "1")
    slurm.run("scancel", "--user", "root")
    wait(lambda: not slurm.run("squeue", "--noheader"), PATIENCE, "an empty queue")


def test_two_nodes_share_one_run(slurm, tmp_path, config):
    """`evaluate.sbatch` by hand: a process on each of two nodes; the results are the bytes of one process."""
    encoder = f"{{name: hf, model: '{config.parent / 'encoder'}', pooling: mean}}"
    overrides = ["device=cpu", "workers=1", "num_questions=22", "retrieval.block=5", "graph.synonym=false"]
    overrides += ["propagation=[{name: ppr}]", "evaluation.baselines=[]", "evaluation.resamples=100"]
    overrides += [f"encoder={encoder}", f"evaluation.encoder={encoder}"]
    results = []
    for name in ("two", "one"):
        places = [f"run_dir={tmp_path / name}", f"artifacts_dir={tmp_path / name / 'artifacts'}"]
        if name == "one":
            program("aeg", "run", "quickstart", *overrides, *places)
        else:
            sbatch = ["sbatch", "--parsable", "--nodes=2", "--mem=1G", "--cpus-per-task=1", "--time=30"]
            sbatch += [f"--output={tmp_path}/log", f"--chdir={HERE.parent}", "slurm/evaluate.sbatch", "quickstart"]
            slurm.env["AEG_PYTHON"] = sys.executable
            job = slurm.run(*sbatch, *overrides, *places, cwd=HERE.parent).strip()
            wait(lambda job=job: slurm.states(int(job)).get(job) in ("COMPLETED", "FAILED"), PATIENCE, "the job")
            log = (tmp_path / "log").read_text()
            assert slurm.states(int(job))[job] == "COMPLETED", log
        (run,) = (tmp_path / name).glob("quickstart-*")
        results.append([(run / file).read_bytes() for file in ("results.parquet", "metrics.json")])
    assert results[0] == results[1]

"""Job scripts, snapshots, signals and status, without a controller (a few of them with its commands)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from slurm_controller import missing

from aeg.artifacts import write_text
from aeg.cluster.queue import Job, jobs_of
from aeg.cluster.script import filled, template, templates
from aeg.cluster.signals import Stopped, stoppable
from aeg.cluster.snapshot import configs, snapshot, source_code
from aeg.cluster.status import described, status
from aeg.cluster.submission import Submission, record, submissions
from aeg.cluster.submit import Wishes, plan
from aeg.errors import ConfigError, DataError
from aeg.experiment.sweep import load_sweep

TEMPLATES = ("index", "array", "report", "evaluate", "vllm_server", "vllm_batch")
PLUGIN = """
from dataclasses import dataclass
from aeg.propagation import METHODS
from aeg.propagation.none import NoPropagation


@METHODS.register("plugged_for_slurm")
@dataclass(frozen=True)
class Plugged(NoPropagation):
    pass
"""


@pytest.fixture
def sweep(tmp_path):
    """A sweep of three runs."""
    file = tmp_path / "three.yaml"
    places = f"run_dir: {tmp_path / 'runs'}\nartifacts_dir: {tmp_path / 'artifacts'}\n"
    file.write_text(f"name: three\n{places}sweep:\n  grid: {{propagation.0.restart: [0.1, 0.2, 0.3]}}\n")
    return load_sweep(file, ["propagation=[{name: ppr}]"])


# Scripts


def test_templates_are_valid_bash_and_shellcheck_finds_nothing():
    files = sorted(templates().glob("*.sbatch"))
    assert [file.stem for file in files] == sorted(TEMPLATES)
    for file in [*files, templates() / "common.sh"]:
        subprocess.run(["bash", "-n", file], check=True)
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    root = templates().parent
    command = ["shellcheck", "-x", *(str(file.relative_to(root)) for file in files), "slurm/common.sh"]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


def test_options_and_settings_are_filled_in():
    text = filled(
        template("array"), {"time": "1:00", "mem": None, "exclusive": "", "comment": "two words"}, {"AEG_SITE": "a b"}
    )
    assert "#SBATCH --time=1:00\n" in text
    assert "--mem" not in text
    assert "#SBATCH --exclusive\n" in text
    assert '#SBATCH --comment="two words"\n' in text
    assert "AEG_SITE='a b'\n" in text
    assert "--open-mode=append" in text
    with pytest.raises(ConfigError, match="no setting AEG_OTHER"):
        filled(text, {}, {"AEG_OTHER": "x"})
    with pytest.raises(ConfigError, match="without quotes"):
        filled(text, {"comment": 'a"\nrm -rf'}, {})
    with pytest.raises(DataError, match="Did you mean 'array'"):
        template("aray")


@pytest.mark.parametrize(
    ("wishes", "kind", "lines"),
    [
        (Wishes(), "array", ["#SBATCH --array=0-2\n"]),
        (Wishes(gpus="1", max_parallel=2), "array", ["#SBATCH --array=0-2%2\n", "#SBATCH --gpus-per-node=1\n"]),
        (Wishes(gpus="a100:4"), "evaluate", ["#SBATCH --gpus-per-node=a100:4\n"]),
        (Wishes(gpus="1", nodes=2), "evaluate", ["#SBATCH --nodes=2\n"]),
        (Wishes(processes=3), "evaluate", ["AEG_PROCESSES=3\n"]),
        (Wishes(server="m/x", gpus="2"), "vllm_server", ["AEG_MODEL=m/x\n", "#SBATCH --gpus-per-node=2\n"]),
    ],
)
def test_the_template_suits_what_is_asked_for(sweep, wishes, kind, lines):
    planned = plan(sweep, wishes)
    assert list(planned.scripts) == ["index", "array", "report"]
    first = template(kind).splitlines()[1]
    assert planned.scripts["array"].splitlines()[1] == first
    for line in [*lines, "#SBATCH --signal=B:USR1@120\n", "#SBATCH --requeue\n"]:
        assert line in planned.scripts["array"]
    assert "--gpus" not in planned.scripts["report"].replace("#   by hand", "")
    assert not (sweep.folder).exists()


def bash(script: str, **variables: str) -> subprocess.Popen[str]:
    head = f'AEG_HOME={templates().parent}\n. "$AEG_HOME/slurm/common.sh"\n'
    environment = {**os.environ, **variables}
    return subprocess.Popen(["bash", "-c", head + script], env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("state", "requeued"), [("RUNNING", True), ("COMPLETING", False), ("CANCELLED", False), ("", False)]
)
def test_a_stopped_command_is_requeued_only_while_its_job_runs(tmp_path, state, requeued):
    shown = f"JobId=9 JobState={state} Reason=None"
    (tmp_path / "scontrol").write_text(
        f'#!/bin/bash\nif [ "$1" = show ]; then echo "{shown}"; else echo "$@" > {tmp_path}/asked; fi\n'
    )
    (tmp_path / "sleep").write_text("#!/bin/bash\nexit 0\n")
    for name in ("scontrol", "sleep"):
        (tmp_path / name).chmod(0o755)
    child = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); "
        "print('up', flush=True); time.sleep(60)"
    )
    with bash(
        f"""aeg_run {sys.executable} -c "{child}"; echo "code $?" """,
        PATH=f"{tmp_path}:{os.environ['PATH']}",
        SLURM_JOB_ID="9",
        SLURM_ARRAY_JOB_ID="7",
        SLURM_ARRAY_TASK_ID="3",
    ) as run:
        assert run.stdout.readline() == "up\n"
        run.send_signal(signal.SIGUSR1)
        assert run.communicate(timeout=60)[0] == "code 143\n"
    asked = tmp_path / "asked"
    assert (asked.read_text().split() if asked.is_file() else None) == (["requeue", "7_3"] if requeued else None)


def test_a_command_that_ends_by_itself_keeps_its_exit_code():
    for code in (0, 3, 75):
        with bash(f'aeg_run bash -c "exit {code}"; echo "code $?"') as run:
            assert run.communicate(timeout=60)[0] == f"code {code}\n"


# Signals


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_stops_once_and_handlers_come_back(number):
    before = signal.getsignal(number)

    def work() -> None:
        with stoppable():
            try:
                os.kill(os.getpid(), number)
            finally:
                os.kill(os.getpid(), number)  # while it stops: without effect

    with pytest.raises(Stopped) as stopped:
        work()
    assert stopped.value.exit_code == 128 + number
    assert isinstance(stopped.value, KeyboardInterrupt)
    assert signal.getsignal(number) is before


def test_the_command_line_stops_with_the_signal_s_exit_code(tmp_path, monkeypatch):
    from aeg.cli import main, run

    def stopped(_):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(run, "main", stopped)
    assert main.main(["run", "quickstart"]) == 143


# Snapshots


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path, repo_root):
    """A checkout of its own with an uncommitted change, a new file, an ignored one and a large one."""
    root = tmp_path / "checkout"
    for name in ("aeg", "experiments", "configs", "slurm"):
        shutil.copytree(repo_root / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".gitignore").write_text("__pycache__/\n/runs/\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    with (root / "aeg" / "version_of_mine.py").open("w") as file:
        file.write("VALUE = 1\n")
    with (root / "aeg" / "errors.py").open("a") as file:
        file.write("\nEDITED = True\n")
    (root / "runs").mkdir()
    (root / "runs" / "ignored.txt").write_text("x")
    (root / "large.bin").write_bytes(b"0" * 10_000_001)
    return root


_TAKE = """
import sys, json
from pathlib import Path
from aeg.cluster.snapshot import snapshot
from aeg.cluster.submit import fixed
from aeg.experiment.sweep import load_sweep

sweep = fixed(load_sweep(sys.argv[1], sys.argv[3:]))
taken = snapshot(sweep, Path(sys.argv[2]))
taken.write()
print(json.dumps([str(taken.folder), taken.code.described(), [str(p) for p in taken.code.left_out]]))
"""


def take(root: Path, cwd: Path, config: Path, into: Path, *overrides: str) -> list:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-P", "-c", _TAKE, config, into, *overrides]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_snapshot_has_the_code_as_it_is_and_plugins(checkout, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "mine.py").write_text(PLUGIN)
    config = work / "c.yaml"
    config.write_text("name: c\nplugins: [mine.py]\npropagation: [{name: plugged_for_slurm}]\nrun_dir: runs\n")
    folder, words, left_out = take(checkout, work, config, tmp_path / "snapshots")
    taken = Path(folder)
    commit = git(checkout, "rev-parse", "HEAD").strip()
    assert words == f"commit {commit[:12]} with uncommitted changes"
    assert left_out == ["large.bin"]
    facts = json.loads((taken / "snapshot.json").read_text())
    assert (facts["commit"], facts["dirty"], facts["left_out"]) == (commit, True, ["large.bin"])
    assert (taken / "code" / "aeg" / "errors.py").read_text().endswith("EDITED = True\n")
    assert (taken / "code" / "aeg" / "version_of_mine.py").is_file()
    assert not (taken / "code" / "runs").exists()
    patch = (taken / "difference.patch").read_text()
    assert "+EDITED = True" in patch
    assert "+VALUE = 1" in patch
    # The patch on the commit gives the code of the snapshot.
    git(checkout, "stash", "-q", "-u")
    git(checkout, "apply", str(taken / "difference.patch"))
    assert (checkout / "aeg" / "version_of_mine.py").read_text() == "VALUE = 1\n"
    # What runs later is the snapshot: neither the checkout's later edits nor the plugin's reach it.
    (checkout / "aeg" / "errors.py").write_text("raise RuntimeError('a later edit')\n")
    (work / "mine.py").write_text("raise RuntimeError('a later edit')\n")
    code = (
        "import sys; from pathlib import Path; from aeg.cluster.snapshot import configs; import aeg.errors\n"
        "from aeg.pipeline.methods import resolve; from aeg.experiment.manifest import git_state; import aeg\n"
        "run, config = configs(Path(sys.argv[1]))[0]\n"
        "print(resolve(config).propagation[0].name, config.run_dir, aeg.errors.EDITED,"
        " git_state(Path(aeg.__file__).parent.parent))"
    )
    environment = {**os.environ, "PYTHONPATH": f"{taken}/code/plugins:{taken}/code", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, taken], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert (
        done.stdout.split() == f"plugged_for_slurm {work / 'runs'} True {{'commit': '{commit}', 'dirty': True}}".split()
    ), done.stderr


def test_without_git_the_installed_package_is_taken(tmp_path, repo_root):
    site = tmp_path / "site"
    shutil.copytree(repo_root / "aeg", site / "aeg", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(repo_root / "configs", site / "aeg" / "_configs")
    shutil.copytree(repo_root / "slurm", site / "aeg" / "_slurm")
    folder, words, _ = take(site, tmp_path, Path("quickstart"), tmp_path / "snapshots", "num_questions=5")
    assert words.startswith("installed package, version ")
    assert (Path(folder) / "code" / "aeg" / "errors.py").is_file()
    assert (Path(folder) / "code" / "slurm" / "common.sh").is_file()
    assert (Path(folder) / "difference.patch").read_bytes() == b""


def test_a_snapshot_s_name_is_its_content(sweep, tmp_path):
    first, again = (snapshot(sweep, tmp_path / "s").folder for _ in range(2))
    other = load_sweep(sweep.source, ["propagation=[{name: ppr, tol: 0.001}]"])
    assert first == again
    assert snapshot(other, tmp_path / "s").folder != first
    with pytest.raises(DataError):
        configs(tmp_path)


def test_the_code_is_the_checkout_s(repo_root):
    code = source_code()
    if code.commit is None:
        pytest.skip("the tests do not run from a git checkout")
    assert {Path("aeg/errors.py"), Path("slurm/common.sh")} <= set(code.files)
    assert not any("__pycache__" in path.parts for path in code.files)


# Status


@pytest.fixture
def folder(sweep):
    """The sweep's folder: one run finished, one failed, one not begun."""
    from aeg.experiment.sweep.record import write_sweep

    place = write_sweep(sweep)
    done, broken, _ = (run.folder for run in sweep.runs)
    for run, state in ((done, "finished"), (broken, "failed")):
        run.mkdir(parents=True)
        questions = {"part": "", "done": 10 if state == "finished" else 4, "total": 10}
        error = None if state == "finished" else "DataError: gone"
        content = {"status": state, "error": error, "questions": questions, "parts": [1, 1], "job": "", "pid": 1}
        write_text(run / "state.json", json.dumps(content))
        lines = [f"line {at}" for at in range(9)] + ["2026-01-01Z INFO begun by process 1 on a", "the end"]
        write_text(run / "log.txt", "\n".join(lines))
    write_text(done / "manifest.json", "{}")
    return place


def test_status_without_slurm_reads_the_folders(folder, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    found = status(folder)
    assert [run.status for run in found.runs] == ["finished", "failed", "missing"]
    assert found.slurm is False
    text = described(found)
    assert "10 of 10 questions" in text
    assert "DataError: gone" in text
    assert "| the end" in text
    assert "| line 0" not in text


def test_status_of_one_run(folder, sweep, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert status(sweep.runs[0].folder).counts == {"finished": 1}
    assert status(sweep.runs[1].folder).runs[0].attempts == 1
    with pytest.raises(DataError, match="neither a sweep's folder nor a run's"):
        status(folder.parent / "nothing")


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("COMPLETED", "FAILED", "PENDING"), ["finished", "failed", "queued"]),
        (("COMPLETED", "PENDING", "RUNNING"), ["finished", "queued", "running"]),
        (("COMPLETED", "RUNNING", "CANCELLED"), ["finished", "running", "cancelled"]),
        (("FAILED", "COMPLETING", "OUT_OF_MEMORY"), ["finished", "running", "failed"]),
        (("COMPLETED", "TIMEOUT", "NODE_FAIL"), ["finished", "failed", "failed"]),
    ],
)
def test_status_with_a_queue(folder, sweep, monkeypatch, states, expected):
    from aeg.cluster import status as module

    record(folder, [], Submission("x", 1, 2, 3, {str(at): run.id for at, run in enumerate(sweep.runs)}))
    jobs = {f"2_{at}": Job(f"2_{at}", state) for at, state in enumerate(states)}
    monkeypatch.setattr(module, "jobs_of", lambda numbers: jobs if numbers == [1, 2, 3] else None)
    found = status(folder)
    assert [run.status for run in found.runs] == expected
    assert found.jobs["index"] == "1 not known to Slurm"
    assert submissions(folder)[0].element(sweep.runs[1].id) == "2_1"


def test_the_last_submission_of_a_run_counts(folder, sweep, monkeypatch):
    from aeg.cluster import status as module

    first = Submission("x", 1, 2, 3, {str(at): run.id for at, run in enumerate(sweep.runs)})
    record(folder, [], first)
    record(folder, submissions(folder), Submission("y", 4, 5, 6, {"1": sweep.runs[1].id}))
    jobs = {"2_1": Job("2_1", "FAILED"), "5_1": Job("5_1", "PENDING", "Priority")}
    monkeypatch.setattr(module, "jobs_of", lambda numbers: jobs)
    run = status(folder).runs[1]
    assert (run.status, run.job, run.slurm, run.error) == ("queued", "5_1", "PENDING (Priority)", "")


# Slurm's commands, answered by scripts


def commands(folder: Path, **texts: tuple[str, int]) -> None:
    for name, (text, code) in texts.items():
        file = folder / name
        file.write_text(f"#!/bin/bash\ncat <<'END'\n{text}END\nexit {code}\n")
        file.chmod(0o755)


def test_jobs_by_squeue_scontrol_and_accounts(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    queue = "12|11|0|RUNNING|None|n1\n11|11|1|PENDING|Dependency|\n14|14|N/A|PENDING|Priority|\n"
    commands(tmp_path, squeue=(queue, 0), sacct=("", 1))
    found = jobs_of([11, 14])
    assert found is not None
    assert {name: (job.state, job.reason) for name, job in found.items()} == {
        "11_0": ("RUNNING", ""),
        "11_1": ("PENDING", "Dependency"),
        "14": ("PENDING", "Priority"),
    }
    accounts = "11_0|COMPLETED|None|n1\n11_1|CANCELLED by 1000|None|n1\n11_[2-3]|PENDING|None|\n"
    commands(tmp_path, squeue=("", 0), sacct=(accounts, 0))
    assert {name: job.state for name, job in (jobs_of([11]) or {}).items()} == {
        "11_0": "COMPLETED",
        "11_1": "CANCELLED",
    }
    shown = (
        "JobId=12 ArrayJobId=11 ArrayTaskId=0 JobState=FAILED Reason=NonZeroExitCode NodeList=n1\n"
        "JobId=11 ArrayJobId=11 ArrayTaskId=2-3%1 JobState=PENDING Reason=Resources NodeList=\n"
    )
    commands(tmp_path, squeue=("", 1), scontrol=(shown, 0), sacct=("", 1))
    assert {name: job.state for name, job in (jobs_of([11]) or {}).items()} == {
        "11_0": "FAILED",
        "11_2": "PENDING",
        "11_3": "PENDING",
    }


def test_no_slurm_at_all(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert jobs_of([1]) is None
    assert jobs_of([]) == {}


def test_submitting_without_slurm_says_so(sweep, tmp_path, monkeypatch, capsys):
    from experiments import submit

    monkeypatch.setenv("PATH", "/nowhere")
    assert submit.main([str(sweep.source), "--no-doctor", "propagation=[{name: ppr}]"]) == 2
    assert "sbatch: not found" in capsys.readouterr().err


@pytest.mark.skipif(bool(missing()), reason="Slurm is not installed")
def test_nothing_of_slurm_answers_without_a_controller(tmp_path, monkeypatch):
    (tmp_path / "slurm.conf").write_text("ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    assert jobs_of([1]) == {}

"""The job scripts on a real controller, with work in the place of ours that takes no time."""

from __future__ import annotations

import json
import shutil
import stat
import sys
import urllib.request
from pathlib import Path

import pytest
from slurm_controller import cluster, missing, wait

from aeg.cluster.script import templates
from aeg.cluster.submit import Wishes, plan
from aeg.experiment.sweep import load_sweep

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"Slurm is not installed: {', '.join(missing())}")
PATIENCE = 600  # seconds

WORK = '''
"""Stands in for aeg.cluster.job: it says who it is, and waits for a signal where it is told to."""
import json, os, signal, sys, time
from pathlib import Path

place = Path(os.environ["AEG_WORK"])
attempt = int(os.environ.get("SLURM_RESTART_COUNT", "0"))


def stop(number, frame):
    sys.exit(128 + number)


signal.signal(signal.SIGTERM, stop)
who = {"arguments": sys.argv[1:], "attempt": attempt, "rank": os.environ.get("RANK", "0")}
if "RANK" in os.environ:
    import torch
    from torch import distributed

    distributed.init_process_group("gloo")
    total = torch.tensor([float(distributed.get_rank() + 1)])
    distributed.all_reduce(total)
    who |= {"sum": total.item(), "node": os.environ["SLURMD_NODENAME"], "threads": os.environ["OMP_NUM_THREADS"]}
for argument in sys.argv[1:]:
    if "base_url=" in argument:
        import urllib.request

        with urllib.request.urlopen(argument.split("=", 1)[1] + "/models") as reply:
            who.setdefault("models", []).append(json.load(reply))
name = f"{os.environ['SLURM_JOB_NAME']}-{os.environ.get('SLURM_ARRAY_TASK_ID', 'x')}-{attempt}-{who['rank']}"
(place / f"{name}.json").write_text(json.dumps(who))
while (place / f"wait-{attempt}").exists():
    time.sleep(0.05)
'''

SERVER = """#!{python}
import json, os, sys, http.server
from pathlib import Path

if sys.argv[1] == "run-batch":
    given = dict(zip(sys.argv[2::2], sys.argv[3::2]))
    Path(given["-o"]).write_text("results of " + Path(given["-i"]).read_text())
    sys.exit(0)
if sys.argv[2] == "broken":
    sys.exit("no such model: broken")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps([sys.argv[2], self.path, os.getpid()]).encode())


http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("slurm"), nodes=2, cpus=16) as found:
        yield found


@pytest.fixture
def work(tmp_path, slurm):
    """A folder of code that jobs run, and what a test sees of it."""
    home = tmp_path / "home"
    package = home / "aeg" / "cluster"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package / "job.py").write_text(WORK)
    shutil.copytree(templates(), home / "slurm")
    server = tmp_path / "vllm"
    server.write_text(SERVER.format(python=sys.executable))
    server.chmod(server.stat().st_mode | stat.S_IXUSR)
    seen = tmp_path / "seen"
    seen.mkdir()
    slurm.env.update(AEG_HOME=str(home), AEG_PYTHON=sys.executable, AEG_WORK=str(seen), AEG_VLLM=str(server))
    yield seen
    for file in seen.glob("wait-*"):
        file.unlink()
    slurm.run("scancel", "--user", "root", check=False)
    wait(lambda: not slurm.run("squeue", "--noheader"), PATIENCE, "an empty queue")


def submitted(slurm, work: Path, template: str, *arguments: str) -> int:
    options = [
        f"--job-name={template}",
        f"--output={work}/{template}-%a.log",
        f"--chdir={work}",
        "--mem=100M",
        "--time=30",
    ]
    before = [a for a in arguments if a.startswith("--")]
    after = [a for a in arguments if not a.startswith("--")]
    script = work.parent / "home" / "slurm" / f"{template}.sbatch"
    return int(slurm.run("sbatch", "--parsable", *options, "--cpus-per-task=1", *before, str(script), *after).strip())


def ended(slurm, job: int, state: str, element: str = "") -> None:
    found: list[str] = []

    def ready() -> bool:
        found.append(slurm.states(job).get(f"{job}{element}", ""))
        return found[-1] == state

    wait(ready, PATIENCE, f"job {job} to be {state}")


def told(work: Path, name: str) -> dict:
    wait((work / name).exists, PATIENCE, name)
    return json.loads((work / name).read_text())


def test_sbatch_accepts_the_templates_and_what_submit_makes_of_them(slurm, work, tmp_path):
    for file in sorted((work.parent / "home" / "slurm").glob("*.sbatch")):
        slurm.run("sbatch", "--test-only", "--mem=1G", "--cpus-per-task=1", str(file))
    for wishes in (Wishes(options={"mem": "1G", "time": "10"}), Wishes(options={"mem": "1G"}, nodes=2, processes=2)):
        sweep = load_sweep("quickstart", [f"run_dir={tmp_path}", f"artifacts_dir={tmp_path}"])
        for name, text in plan(sweep, wishes).scripts.items():
            file = tmp_path / f"{name}.sbatch"
            file.write_text(text)
            slurm.run("sbatch", "--test-only", "--cpus-per-task=1", str(file))


def test_time_limit_preemption_requeue_and_cancel(slurm, work):
    """Each end that a scheduler can put to a job: it saves and comes back, but for the one that its owner cancels."""
    (work / "wait-0").touch()
    limit = submitted(slurm, work, "index", "--time=1", "--signal=B:USR1@5", "anything")
    array = submitted(slurm, work, "array", "--time=30", "--array=0-2", "anything", "key=value")
    assert told(work, "array-1-0-0.json")["arguments"] == ["run", "anything", "--task", "1", "key=value"]
    for task in (0, 2):
        told(work, f"array-{task}-0-0.json")
    slurm.run("scancel", f"{array}_0")
    slurm.run("scancel", "--signal=USR1", "--batch", f"{array}_2")
    ended(slurm, array, "CANCELLED", "_0")
    ended(slurm, array, "COMPLETED", "_2")
    assert told(work, "array-2-1-0.json")["attempt"] == 1
    told(work, "index-x-0-0.json")
    told(work, "index-x-1-0.json")  # SIGUSR1 before the limit: requeued
    ended(slurm, limit, "COMPLETED")
    text = (work / "index-0.log").read_text() if (work / "index-0.log").exists() else ""
    text += "".join(file.read_text() for file in work.glob("index-*.log"))
    assert "asked to stop" in text
    assert "goes back into the queue" in text
    assert "DUE TO TIME LIMIT" not in text
    urgent = slurm.run(
        *("sbatch", "--parsable", "--partition=urgent", "--exclusive", "--nodes=2", "--wrap=true", "--output=/dev/null")
    )
    ended(slurm, int(urgent), "COMPLETED")
    ended(slurm, array, "COMPLETED", "_1")
    assert told(work, "array-1-1-0.json")["attempt"] == 1
    assert "DUE TO PREEMPTION" in (work / "array-1.log").read_text()
    assert slurm.states(array)[f"{array}_0"] == "CANCELLED"
    assert "not requeued from here: its state is" in (work / "array-0.log").read_text()


def test_two_nodes_by_torchrun_saved_and_requeued(slurm, work):
    (work / "wait-0").touch()
    job = submitted(slurm, work, "evaluate", "--nodes=2", "--time=30", "--cpus-per-task=2", "config.yaml", "a=b")
    ranks = [told(work, f"evaluate-x-0-{rank}.json") for rank in (0, 1)]
    assert [rank["arguments"] for rank in ranks] == [["run", "config.yaml", "--task", "0", "a=b"]] * 2
    assert {rank["sum"] for rank in ranks} == {3.0}
    assert {rank["node"] for rank in ranks} == set(slurm.nodes)
    assert {rank["threads"] for rank in ranks} == {"2"}
    slurm.run("scancel", "--signal=USR1", "--batch", str(job))
    for rank in (0, 1):
        assert told(work, f"evaluate-x-1-{rank}.json")["sum"] == 3.0
    ended(slurm, job, "COMPLETED")


def test_a_server_and_its_client(slurm, work):
    slurm.env.update(AEG_ROLES="reader judge", AEG_MODEL="some/model")
    job = submitted(slurm, work, "vllm_server", "config.yaml", "a=b")
    ended(slurm, job, "COMPLETED")
    client = told(work, "vllm_server-x-0-0.json")
    port = 20000 + job % 20000
    urls = [f"llm.{role}.base_url=http://127.0.0.1:{port}/v1" for role in ("reader", "judge")]
    assert client["arguments"] == ["run", "config.yaml", "--task", "0", *urls, "a=b"]
    assert [model[:2] for model in client["models"]] == [["some/model", "/v1/models"]] * 2

    def stopped() -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=1)
        except OSError:
            return True
        return False

    wait(stopped, 60, "the server to stop with its client")


def test_a_server_that_does_not_start_fails_the_job(slurm, work):
    slurm.env.update(AEG_MODEL="broken")
    job = submitted(slurm, work, "vllm_server", "config.yaml")
    ended(slurm, job, "FAILED")
    text = "".join(file.read_text() for file in work.glob("vllm_server-*.log"))
    assert "no such model: broken" in text
    assert not list(work.glob("*.json"))


def test_run_batch_over_the_files_that_have_no_results(slurm, work):
    folder = work / "llm_batch"
    folder.mkdir()
    for name in ("001-a", "002-b"):
        (folder / f"requests-{name}.jsonl").write_text(name)
    (folder / "results-001-a.jsonl").write_text("known")
    job = submitted(slurm, work, "vllm_batch", str(folder))
    ended(slurm, job, "COMPLETED")
    assert {file.name: file.read_text() for file in folder.glob("results*")} == {
        "results-001-a.jsonl": "known",
        "results-002-b.jsonl": "results of 002-b",
    }

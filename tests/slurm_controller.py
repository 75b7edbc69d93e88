"""A Slurm controller of the tests' own: munged, slurmctld and slurmds on this machine, in one temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")

_CONF = """\
ClusterName=aegtest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={pause}
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
MinJobAge=3600
KillWait={kill_wait}
OverTimeLimit=0
ReturnToService=2
SlurmdParameters=config_overrides
JobRequeue=1
GresTypes=gpu
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=60 State=UP PriorityTier=10 PreemptMode=OFF
"""


@dataclass(frozen=True)
class Cluster:
    """A running controller.

    Attributes:
        folder: holds everything that the daemons write.
        env: what its commands need.
        nodes: names of its nodes.
    """

    folder: Path
    env: dict[str, str]
    nodes: tuple[str, ...]

    def run(self, *command: str, check: bool = True, **more: object) -> str:
        """Return what a Slurm command prints."""
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, **more)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    def states(self, *jobs: int) -> dict[str, str]:
        """Return the state of each job (array elements apart) that the controller remembers."""
        found = {}
        text = self.run("scontrol", "show", "job", "--oneliner", check=False)
        for line in text.splitlines():
            fields = dict(part.partition("=")[::2] for part in line.split() if "=" in part)
            if "JobId" not in fields:
                continue
            array, element = fields.get("ArrayJobId", fields["JobId"]), fields.get("ArrayTaskId")
            if not jobs or int(array) in jobs:
                found[array if element is None else f"{array}_{element}"] = fields["JobState"]
        return found


def missing() -> list[str]:
    """Return the programs that are not installed."""
    places = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
    return [name for name in PROGRAMS if shutil.which(name, path=places) is None]


@contextmanager
def cluster(
    folder: Path, nodes: int = 1, cpus: int = 8, gpus: int = 0, kill_wait: int = 5, pause: int = 6
) -> Iterator[Cluster]:
    """Start a controller in `folder`, yield it when its nodes are idle, and stop it.

    Args:
        folder: of the daemons, empty.
        nodes: how many slurmds.
        cpus: that each node says it has.
        gpus: that each node says it has (device files are made up).
        kill_wait: seconds between SIGTERM and SIGKILL.
        pause: seconds before a requeued job may start again, at least 6.
    """
    env = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"}
    env = {key: value for key, value in env.items() if not key.startswith("SLURM_")}
    names = tuple(f"aeg{at}" for at in range(nodes))
    ports = free_ports(nodes + 1)
    lines = []
    for name, port in zip(names, ports[1:], strict=True):
        gres = f" Gres=gpu:{gpus}" if gpus else ""
        lines.append(
            f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} "
            f"RealMemory=16000 State=UNKNOWN{gres}"
        )
    for part in ("state", *(f"spool-{name}" for name in names)):
        (folder / part).mkdir(parents=True)
    conf = folder / "slurm.conf"
    values = {"host": socket.gethostname(), "port": ports[0], "folder": folder, "kill_wait": kill_wait, "pause": pause}
    conf.write_text(_CONF.format(nodes="\n".join(lines), **values))
    (folder / "gres.conf").write_text(f"Name=gpu Count={gpus}\n" if gpus else "")
    env["SLURM_CONF"] = str(conf)
    with ExitStack() as stack:
        stack.enter_context(munge(folder, env))
        stack.enter_context(daemon(["slurmctld", "-D", "-i", "-f", str(conf)], env, folder / "slurmctld.out"))
        for name in names:
            stack.enter_context(daemon(["slurmd", "-D", "-N", name, "-f", str(conf)], env, folder / f"{name}.out"))
        found = Cluster(folder, env, names)
        listed = ("sinfo", "--noheader", "--Node", "--format=%N %T")
        idle = {f"{name} idle" for name in names}
        wait(lambda: set(found.run(*listed, check=False).splitlines()) == idle, 60, "nodes")
        try:
            yield found
        finally:
            found.run("scancel", "--user", "root", "--signal=KILL", "--full", check=False)
            found.run("scancel", "--user", "root", check=False)


@contextmanager
def munge(folder: Path, env: dict[str, str]) -> Iterator[None]:
    """Run a munged with a key and a socket of its own."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    parts = {
        "key-file": key,
        "socket": folder / "munge.socket",
        "pid-file": folder / "munged.pid",
        "log-file": folder / "munged.log",
        "seed-file": folder / "munged.seed",
    }
    command = ["munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in parts.items())]
    with daemon(command, env, folder / "munged.out"):
        wait(parts["socket"].exists, 20, "munged")
        yield


@contextmanager
def daemon(command: Sequence[str], env: dict[str, str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in the foreground of a process of its own, and stop it."""
    with output.open("wb") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        time.sleep(0.1)
        if process.poll() is not None:
            raise RuntimeError(f"{command[0]}: ended at once: {output.read_text()}")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def wait(ready: object, seconds: float, what: str) -> None:
    """Wait until `ready()` is true.

    Raises:
        TimeoutError: after so many seconds.
    """
    end = time.monotonic() + seconds
    while not ready():  # type: ignore[operator]
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not there after {seconds:.0f} s")
        time.sleep(0.2)

"""Whether the machine has what a run needs: device, memory, disk, folders that can be written, packages."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import torch

from aeg.backends.device import choose_device
from aeg.backends.memory import MARGIN, free_memory, host_memory, size
from aeg.backends.nearest.probe import cpu_fault, gpu_fault
from aeg.config.schema import ExperimentConfig
from aeg.errors import DeviceError
from aeg.preparing.finding import MISSING, OK, WARNING, Finding, told
from aeg.preparing.size import Estimate

_APPROXIMATE = ("hnsw", "ivf")
_PAIR = "pip install 'atom-entity-graph[cpu]' (or [gpu] on a CUDA machine, never both)"


def device(name: str, login: bool) -> tuple[torch.device | None, Finding]:
    """Return the device that a config's `device` means here, None where it is not here, and the finding."""
    try:
        found, why = choose_device(name)
    except DeviceError as error:
        if login:
            return None, Finding("device", OK, f"{name}: not on this machine; looked at again where the job runs")
        return None, told("device", error)
    return found, Finding("device", OK, f"{found} ({why})")


def faiss(config: ExperimentConfig, found: torch.device | None, fast: bool) -> Finding:
    """Tell whether faiss can do what the config's index asks of it, on the device."""
    name = str(config.retrieval.index["name"])
    fault = cpu_fault() if name in _APPROXIMATE or found is None or found.type != "cuda" or fast else ""
    if not fault and name not in _APPROXIMATE and found is not None and found.type == "cuda" and not fast:
        fault = gpu_fault(found.index or 0)
    if not fault:
        return Finding("faiss", OK, f"works; index {name!r}")
    if name in _APPROXIMATE:
        return Finding("faiss", MISSING, f"{fault}, and index {name!r} needs it", f"{_PAIR}, or set index: flat")
    return Finding("faiss", WARNING, f"{fault}; an exact search by torch takes its place")


def packages(config: ExperimentConfig, found: torch.device | None, endpoints: bool) -> Iterator[Finding]:
    """Tell of packages that the config makes use of, where they are missing."""
    if endpoints and find_spec("openai") is None:
        yield Finding("packages", MISSING, "openai is not installed", "pip install 'openai>=2'")
    if found is not None and found.type == "cpu" and find_spec("numba") is None:
        yield Finding("packages", WARNING, "numba is not installed: propagation on the CPU is slower", _PAIR)
    if found is not None and found.type == "cuda" and find_spec("triton") is None:
        remedy = "pip install 'atom-entity-graph[triton]'"
        yield Finding("packages", WARNING, "triton is not installed: propagation on the GPU is slower", remedy)
    if config.tracking.name == "wandb" and find_spec("wandb") is None:
        remedy = "pip install 'atom-entity-graph[track]', or upload later by experiments.sync"
        yield Finding("packages", WARNING, "wandb is not installed: the run is not shown there", remedy)


def folders(places: Sequence[tuple[str, str]], needed: int) -> Iterator[Finding]:
    """Tell whether folders can be written, and whether their disks have room.

    Args:
        places: key of the config and folder.
        needed: bytes that a run may write.
    """
    for key, name in dict.fromkeys(places):
        folder = Path(name).expanduser()
        there = folder
        while not there.exists():
            there = there.parent
        check = f"{key} {folder}"
        try:
            with tempfile.TemporaryFile(dir=there, prefix=".aeg-doctor-") as file:
                file.write(b"x")
        except OSError as error:
            yield Finding(check, MISSING, f"cannot be written ({error.strerror})", f"set {key} to a writable folder")
            continue
        free = shutil.disk_usage(there).free
        if free < needed:
            remedy = f"free some, or set {key} to a folder on another disk"
            yield Finding(check, MISSING, f"its disk has {size(free)} free, a run may take {size(needed)}", remedy)
        else:
            yield Finding(check, OK, f"can be written; {size(free)} free, a run may take {size(needed)}")


def memory(
    estimate: Estimate,
    found: torch.device | None,
    host: tuple[int, str] | None = None,
    free: tuple[int, str] | None = None,
) -> Iterator[Finding]:
    """Compare what a run takes by estimate with what is free.

    Args:
        estimate: of the run.
        found: its device; None where it is not here.
        host: what `host_memory` told, if it was asked before.
        free: likewise `free_memory` of the device.
    """
    there, bound = host or host_memory()
    on_host = estimate.host + (estimate.device if found is None or found.type == "cpu" else 0)
    yield _compared("memory", on_host, there, bound, "ask for more memory (sbatch --mem), or take a smaller corpus")
    if found is not None and found.type != "cpu":
        left, which = free or free_memory(found)
        yield _compared(f"memory of {found}", estimate.device, left, which, "free it, or set device: cpu")


def _compared(check: str, needed: int, there: int, bound: str, remedy: str) -> Finding:
    wanted = int(MARGIN * needed)
    message = f"a run takes about {size(wanted)}, {bound} leaves {size(there)}"
    return Finding(check, MISSING, message, remedy) if wanted > there else Finding(check, OK, message)

"""How much memory is free, on the machine or a device, and how much a thing will take, asked before it is loaded."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import torch

from aeg.errors import DataError, DeviceError

GIB = 2**30
MARGIN = 1.1  # of an estimate: buffers, fragments, what a library holds for a moment
_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_WIDTHS = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "BF16": 2, "F16": 2, "I16": 2, "U16": 2}


def host_memory(proc: Path = _PROC, groups: Path = _GROUPS) -> tuple[int, str]:
    """Return the bytes of main memory that this process can still take, and what sets the bound.

    That is what the system has available, or what a control group (of a Slurm job, of a container) leaves, whichever
    is less; pages of files that can be dropped count as free.

    Args:
        proc: where the system tells of processes.
        groups: where control groups are mounted, of version 1 or 2.
    """
    bounds = [(_available(proc), "the machine")]
    bounds += [(free, "the control group (of the job or the container)") for free in _group_bounds(proc, groups)]
    return min((free, why) for free, why in bounds if free >= 0)


def free_memory(device: torch.device) -> tuple[int, str]:
    """Return the bytes that can still be taken on a device, and what sets the bound."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return free + cached, f"{device} ({torch.cuda.get_device_name(device)})"
    return host_memory()


def require(
    device: torch.device | str, needed: int, what: str, remedy: str, free: tuple[int, str] | None = None
) -> None:
    """Check, before something is loaded, that it will fit.

    Args:
        device: where it is to lie.
        needed: bytes by estimate; a margin of a tenth is added.
        what: names it.
        remedy: what a person can do.
        free: what `free_memory` told, if it was asked before.

    Raises:
        DeviceError: if it will not fit.

    Example:
        >>> require("cpu", 3 * GIB, "the graph", "take a machine with more memory", free=(2 * GIB, "the machine"))
        Traceback (most recent call last):
        ...
        aeg.errors.DeviceError: the graph needs about 3.3 GiB of memory on cpu, and the machine leaves 2.0 GiB; take a
        machine with more memory
    """
    there, bound = free_memory(torch.device(device)) if free is None else free
    wanted = int(MARGIN * needed)
    if wanted > there:
        raise DeviceError(
            f"{what} needs about {size(wanted)} of memory on {device}, and {bound} leaves {size(there)}; {remedy}"
        )


def size(count: int) -> str:
    """Return a number of bytes in words.

    Example:
        >>> size(300), size(3 * 2**20), size(5 * 2**30)
        ('0.0 MiB', '3.0 MiB', '5.0 GiB')
    """
    return f"{count / GIB:,.1f} GiB" if count >= GIB else f"{count / 2**20:,.1f} MiB"


def weights_bytes(folder: Path, dtype: str = "auto") -> int:
    """Return the bytes that a model's weights take once they are loaded.

    Args:
        folder: with `*.safetensors` (their headers are read), or `pytorch_model*.bin` (their sizes are taken).
        dtype: that they are loaded as, such as `bfloat16`; `auto` is as they are stored.

    Raises:
        DataError: if the header of a file is malformed: a download that was cut off, or a pointer to the file.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        return sum(path.stat().st_size for path in folder.glob("pytorch_model*.bin"))
    width = None if dtype == "auto" else getattr(torch, dtype).itemsize
    return sum(count * (stored if width is None else width) for path in files for count, stored in _tensors(path))


def operator_bytes(nodes: int, edges: int) -> int:
    """Return the bytes of an operator while it is made: a symmetric CSR matrix, its copy in another order, degrees."""
    return 2 * (2 * edges * 8) + nodes * 40


def embedding_bytes(rows: int, dim: int) -> int:
    """Return the bytes of so many float32 vectors."""
    return 4 * rows * dim


def _tensors(path: Path) -> Iterator[tuple[int, int]]:
    """Number of values and their width, of each tensor in a safetensors file."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > path.stat().st_size:
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(length))
            last = max(
                (entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0
            )
            if 8 + length + last != path.stat().st_size:
                raise ValueError(f"it has {path.stat().st_size:,} bytes and should have {8 + length + last:,}")
    except (OSError, ValueError, struct.error, KeyError, TypeError) as error:
        raise DataError(f"{path}: not a whole safetensors file ({error}); copy it again") from None
    for name, entry in header.items():
        if name != "__metadata__":
            start, stop = entry["data_offsets"]
            stored = _WIDTHS.get(entry["dtype"], 1)
            yield (stop - start) // stored, stored


def _available(proc: Path) -> int:
    for line in _lines(proc / "meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 2**62  # a system that does not tell


def _group_bounds(proc: Path, groups: Path) -> Iterator[int]:
    """What each control group above this process leaves."""
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _bounds(groups, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            yield from _bounds(
                groups / "memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
            )


def _bounds(root: Path, path: str, most: str, used: str, cached: str) -> Iterator[int]:
    parts = [part for part in path.strip().split("/") if part and part != ".."]
    for depth in range(len(parts) + 1):
        folder = root.joinpath(*parts[:depth])
        limit, usage = _number(folder / most), _number(folder / used)
        if limit is not None and usage is not None and limit < 2**60:
            stat = dict(line.split(maxsplit=1) for line in _lines(folder / "memory.stat"))
            yield max(limit - usage + int(stat.get(cached, 0)), 0)


def _number(path: Path) -> int | None:
    text = next(iter(_lines(path)), "")
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []

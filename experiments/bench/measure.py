"""How things are measured: alternated timings in one run, copy bandwidth, product rate, peak memory in a child."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Timing:
    """Seconds of one thing, run after run.

    Attributes:
        seconds: of each run, divided by the units (queries) that a run does.
    """

    seconds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """The least."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.seconds)


def alternated(
    runs: Mapping[str, tuple[Callable[[], object], int]], rounds: int, warm_up: bool = True
) -> dict[str, Timing]:
    """Time several things in turns, so that a slow spell of the machine falls on all of them.

    Args:
        runs: by label, what to call and how many units (queries) one call does.
        rounds: how often each is called.
        warm_up: call each once before, untimed.

    Example:
        >>> sorted(alternated({"a": (lambda: None, 1), "b": (lambda: None, 2)}, 3))
        ['a', 'b']
    """
    if warm_up:
        for call, _ in runs.values():
            call()
    timings = {label: Timing() for label in runs}
    for _ in range(rounds):
        for label, (call, units) in runs.items():
            started = time.perf_counter()
            call()
            timings[label].seconds.append((time.perf_counter() - started) / units)
    return timings


def paired_ratio(peer: Timing, ours: Timing) -> float:
    """Return how many times longer the peer took: the median over the rounds of the ratio within a round."""
    return statistics.median(a / b for a, b in zip(peer.seconds, ours.seconds, strict=True))


def copy_bandwidth(megabytes: int = 256, rounds: int = 5, device: str = "cpu") -> float:
    """Return the device's copy bandwidth in bytes a second, read and written bytes both counted, all threads."""
    source = torch.ones(megabytes * (1 << 20) // 4, device=device)
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)
        if source.device.type == "cuda":
            torch.cuda.synchronize(source.device)

    copy()
    best = min(_seconds(copy) for _ in range(rounds))
    return 2 * source.numel() * 4 / best


def product_rate(size: int = 2048, rounds: int = 5) -> float:
    """Return the machine's float32 matrix-product rate in operations a second (2 n³ a product), all threads."""
    left, right, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
    torch.mm(left, right, out=out)
    best = min(_seconds(lambda: torch.mm(left, right, out=out)) for _ in range(rounds))
    return 2 * size**3 / best


def peak_memory(function: str, **arguments: Any) -> tuple[int, int]:
    """Run a function of this package in a fresh process and return (peak, what it held before the work) in bytes.

    Args:
        function: `module:name` under `experiments.bench`; called with the arguments, it returns a callable that
            does the work, so that what comes before (imports, the graph) is told apart from the work.
        arguments: plain values.

    Raises:
        RuntimeError: if the child fails; its last words are in the message.
    """
    command = [sys.executable, "-m", "experiments.bench.child", function, json.dumps(arguments)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if run.returncode:
        raise RuntimeError(f"{function}: the child failed: {run.stderr.strip()[-500:]}")
    peak, before = json.loads(run.stdout.strip().splitlines()[-1])
    return peak, before


def memory_of_process() -> tuple[int, int]:
    """Return the bytes of memory that this process holds now, and its peak (Linux: VmRSS and VmHWM)."""
    found = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    now, peak = (int(found[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return now, peak


def forget_peak() -> None:
    """Let the peak start anew from what is held now.

    `resource.getrusage` would count the parent's memory into a child's peak, and what was needed to prepare.
    """
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def allocate(megabytes: int) -> Callable[[], object]:
    """Return work of a known peak, to hold `peak_memory` against."""
    return lambda: torch.ones(megabytes * (1 << 18)).sum()


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started

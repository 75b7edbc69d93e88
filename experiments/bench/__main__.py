"""`python -m experiments.bench [encoder|propagation|latency|methods|...]`: speeds as ratios against named peers."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.bench.output import Table
from experiments.bench.settings import Settings, report

BENCHES = ("encoder", "propagation", "latency", "methods", "synonyms", "build", "scale")
THREADS = 2

SIZES = (10**5, 10**6, 10**7, 10**8, 2 * 10**8)  # the last: 10 million nodes, 100 million edges


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m experiments.bench", description=__doc__)
    made.add_argument("bench", nargs="*", metavar="BENCH", help=f"which (default: all): {', '.join(BENCHES)}, all")
    made.add_argument("--quick", action="store_true", help="a smoke run on tiny graphs; its ratios mean nothing")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the tables as JSON as well")
    made.add_argument("--shape", action="append", help="a graph: a data set of Table 6, medical-real, or all")
    made.add_argument("--queries", type=int, help="queries a batch (default: 1,000)")
    made.add_argument("--rounds", type=int, help="timed runs of each contender (default: 5)")
    made.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="WORD",
        help="leave out the contenders of propagation, latency and methods whose label contains it; may be repeated",
    )
    made.add_argument("--no-memory", action="store_true", help="leave peak memory out, which takes a process each")
    made.add_argument("--largest", type=float, default=1e7, help="non-zeros of the largest graph of scale (1e7)")
    made.add_argument("--entities", type=int, help="rows of synonyms (default: 90,000)")
    made.add_argument("--atoms", type=int, help="atoms of build (default: 100,000)")
    made.add_argument(
        "--device",
        default="cpu",
        help="where our contenders of propagation, latency and methods compute, peers stay on the CPU (default: cpu)",
    )
    made.add_argument("--threads", type=int, default=THREADS, help="threads of torch (default: 2)")
    return made


def settings_of(given: argparse.Namespace) -> Settings:
    """Return the settings that a command line asks for."""
    from experiments.bench.graphs import NAMES, REAL
    from experiments.bench.medical import data_folder

    real = (REAL,) if data_folder() is not None and not given.quick else ()
    names = given.shape or ["musique", *real]
    if "all" in names:
        names = [name for name in NAMES if name != REAL or real]
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise SystemExit(f"--shape: got {unknown[0]!r}, expected one of {', '.join(NAMES)}, all")
    quick, largest = given.quick, int(given.largest)
    return Settings(
        quick=quick,
        shapes=tuple(names),
        queries=given.queries or (24 if quick else 1000),
        rounds=given.rounds or (1 if quick else 5),
        memory=not (quick or given.no_memory or given.device != "cpu"),
        sizes=(10**4, 10**5) if quick else tuple(size for size in SIZES if size <= largest),
        entities=given.entities or (2_000 if quick else 90_000),
        atoms=given.atoms or (1_000 if quick else 100_000),
        without=tuple(given.without),
        device=given.device,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named benches, or all of them, and print their tables."""
    given = parser().parse_args(arguments)
    names = BENCHES if not given.bench or "all" in given.bench else tuple(given.bench)
    unknown = sorted(set(names) - set(BENCHES))
    if unknown:
        raise SystemExit(f"bench: got {unknown[0]!r}, expected {', '.join(BENCHES)} or all")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch

    from experiments.bench.required import verdicts

    if given.device != "cpu" and not torch.cuda.is_available():
        raise SystemExit(f"--device: got {given.device!r}, but there is no CUDA device here; take cpu")
    torch.set_num_threads(given.threads)
    settings = settings_of(given)
    tables: list[Table] = []
    measured: dict[str, float | None] = {}
    started, load = time.time(), os.getloadavg()
    for name in names:
        report(f"== {name}")
        outcome = importlib.import_module(f"experiments.bench.{name}").bench(settings)
        for table in outcome.tables:
            print(table.text() + "\n", flush=True)
        tables += outcome.tables
        measured |= outcome.measured
    if measured:
        tables.append(verdicts(measured, given.quick))
        print(tables[-1].text())
    facts = machine(given.threads) | {
        "device": given.device,
        "gpu": None if given.device == "cpu" else torch.cuda.get_device_name(given.device),
        "without": given.without,
        "load before": load,
        "load after": os.getloadavg(),
        "seconds": time.time() - started,
    }
    if given.json is not None:
        content = {"machine": facts, "tables": [table.plain() for table in tables], "measured": measured}
        given.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    report(f"load average before {load[0]:.2f}, after {os.getloadavg()[0]:.2f}, {time.time() - started:.0f} s")
    return 0


def machine(threads: int) -> dict[str, Any]:
    """Return what the figures were measured on."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    packages = ("torch", "numpy", "scipy", "igraph", "scikit-network")
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


if __name__ == "__main__":
    sys.exit(main())

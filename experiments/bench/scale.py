"""`scale`: from 10⁵ to 10⁸ non-zeros: build, save, load memory-mapped, and the time of a step a non-zero."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aeg.core.operator import Operator
from aeg.core.seeds import Seeds
from aeg.propagation import make, search
from experiments.bench.measure import ROOT, memory_of_process
from experiments.bench.output import Table
from experiments.bench.settings import Outcome, Settings, report

EDGES_A_NODE = 10
COLUMNS = 16
QUERIES = 8
_FILE = "operator.safetensors"


def bench(settings: Settings) -> Outcome:
    """Measure each size, each part in a process of its own (not in a quick run), so that its peak memory is its own."""
    heads = ["non-zeros", "nodes", "build s", "save s", "load s", "prepare s", "step ms", "step ns/nnz", "step ms, 16"]
    table = Table(
        "growth with the non-zeros (ten edges a node, power-law degrees)",
        [*heads, "ns/nnz/column", "PPR ms/query", "build peak MB", "load and PPR peak MB"],
    )
    for nnz in settings.sizes:
        with tempfile.TemporaryDirectory() as folder:
            part = _part if settings.quick else _child
            built = part("build", nnz, folder, settings.rounds)
            stepped = part("step", nnz, folder, settings.rounds)
        facts = built | stepped
        nonzeros = facts["nnz"]
        table.rows.append(
            [
                nonzeros,
                facts["nodes"],
                *(facts[key] for key in ("build", "save", "load", "prepare")),
                1e3 * facts["one"],
                1e9 * facts["one"] / nonzeros,
                1e3 * facts["many"],
                1e9 * facts["many"] / nonzeros / COLUMNS,
                1e3 * facts["ppr"],
                built["peak"] / 2**20,
                stepped["peak"] / 2**20,
            ]
        )
        report(f"  {nonzeros:,} non-zeros: a step {1e9 * facts['one'] / nonzeros:.2f} ns a non-zero")
    table.notes.append(
        "a step: Pᵀ x for one column and for 16; prepare: node order and kernel; PPR: eight queries, restart 0.3, 1e-3"
    )
    return Outcome([table])


def edges(nnz: int, seed: int = 0) -> tuple[int, torch.Tensor]:
    """Return the number of nodes and edges [2, nnz / 2]: half to near nodes, half to famous ones (power law)."""
    count, generator = nnz // 2, torch.Generator().manual_seed(seed)
    nodes = max(4, count // EDGES_A_NODE)
    left = torch.randint(nodes, (count,), generator=generator)
    step = torch.randint(1, 64, (count,), generator=generator)
    famous = (nodes * torch.rand(count, generator=generator, dtype=torch.float64) ** 2.5).long()
    # A fixed multiplicative shuffle keeps the famous from being neighbours in memory.
    famous = (famous * 2_654_435_761) % nodes
    near = torch.rand(count, generator=generator) < 0.5
    return nodes, torch.stack([left, torch.where(near, (left + step) % nodes, famous)])


def build_and_save(nnz: int, folder: Path) -> dict[str, float]:
    """Build an operator from edges and save it."""
    nodes, index = edges(nnz)
    weight = torch.from_numpy(np.random.default_rng(0).uniform(0.5, 1.5, index.shape[1]).astype(np.float32))
    started = time.perf_counter()
    op = Operator.from_edges(nodes, index, weight)
    built = time.perf_counter()
    op.save(folder / _FILE)
    seconds = {"build": built - started, "save": time.perf_counter() - built}
    return {"nodes": nodes, "nnz": len(op.col), **seconds}


def load_and_step(folder: Path, rounds: int) -> dict[str, float]:
    """Load an operator and time a step for one column and for 16."""
    started = time.perf_counter()
    op = Operator.load(folder / _FILE)
    loaded = time.perf_counter()
    inside = op.arranged.op
    one, many = torch.rand(op.num_nodes, 1), torch.rand(op.num_nodes, COLUMNS)
    inside.pt(one)
    inside.pt(many)
    facts = {"load": loaded - started, "prepare": time.perf_counter() - loaded}
    facts["ppr"] = _ppr(op)
    for name, x in (("one", one), ("many", many)):
        best = float("inf")
        for _ in range(max(2, rounds)):
            started = time.perf_counter()
            inside.pt(x)
            best = min(best, time.perf_counter() - started)
        facts[name] = best
    return facts


def _ppr(op: Operator) -> float:
    """Seconds a query of PPR (restart 0.3, L1 error at most 1e-3) for eight queries with three seeds each."""
    generator = torch.Generator().manual_seed(1)
    nodes = torch.randint(op.num_nodes, (QUERIES * 3,), generator=generator)
    seeds = Seeds(op.num_nodes, torch.arange(0, 3 * QUERIES + 1, 3), nodes, torch.ones(len(nodes)))
    started = time.perf_counter()
    _, _, info = search(make("ppr", restart=0.3, tol=1e-3, engine="iterate"), op, seeds, 25)
    if not bool(info.converged.all()):
        raise RuntimeError(f"scale: PPR did not converge on {op.num_nodes:,} nodes")
    return (time.perf_counter() - started) / QUERIES


def main(arguments: list[str]) -> None:
    """Do one part and print what it took: `build NNZ FOLDER ROUNDS THREADS` or `step ...`."""
    part, nnz, folder, rounds, threads = arguments
    torch.set_num_threads(int(threads))
    print(json.dumps(_part(part, int(nnz), folder, int(rounds))))


def _part(part: str, nnz: int, folder: str, rounds: int) -> dict[str, Any]:
    path = Path(folder)
    facts = build_and_save(nnz, path) if part == "build" else load_and_step(path, rounds)
    return facts | {"peak": memory_of_process()[1]}


def _child(part: str, nnz: int, folder: str, rounds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "experiments.bench.scale", part, str(nnz), folder, str(rounds)]
    run = subprocess.run(
        [*command, str(torch.get_num_threads())], capture_output=True, text=True, cwd=ROOT, check=False
    )
    if run.returncode:
        raise RuntimeError(f"scale, {part}, {nnz:,} non-zeros: {run.stderr.strip()[-500:]}")
    facts: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return facts


if __name__ == "__main__":
    main(sys.argv[1:])

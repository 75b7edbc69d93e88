"""`build`: the graph of 100,000 atoms, step by step."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aeg.config.schema import GraphConfig
from aeg.core.records import ExtractedAtom, Extraction, Passage
from aeg.graph import build, load, operator, save
from experiments.bench import measure
from experiments.bench.output import Table
from experiments.bench.settings import Outcome, Settings, report

ATOMS_A_PASSAGE = 5
_SYLLABLES = ("ka", "lo", "mi", "ren", "tar", "vos", "bel", "dun", "ess", "fi", "gor", "hal", "ix", "jun", "qua", "zu")


def bench(settings: Settings) -> Outcome:
    """Build, save and load a graph from synthetic extractions; igraph builds the same edges beside it."""
    passages, extractions = synthetic(settings.atoms)
    table = Table(f"graph of {settings.atoms:,} atoms ({len(passages):,} passages)", ["step", "seconds", "what"])

    def timed(step: str, call: Callable[[], Any], what: Callable[[Any], str]) -> Any:
        started = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - started
        report(f"  {step}: {seconds:.2f} s")
        table.rows.append([step, seconds, what(result)])
        return result

    config = GraphConfig(synonym=False)
    graph = timed(
        "build (keys, tables, edges)",
        lambda: build(passages, extractions, config),
        lambda g: f"{len(g.atoms):,} atoms, {len(g.entities):,} entities",
    )
    op = timed("operator", lambda: operator(graph), lambda o: f"{len(o.col):,} non-zeros")
    timed("node order and kernel", lambda: op.arranged.op.pt(torch.ones(op.num_nodes, 16)), lambda _: "first product")
    with tempfile.TemporaryDirectory() as folder:
        timed("save", lambda: save(graph, Path(folder)), lambda _: "")
        timed("load", lambda: load(Path(folder)), lambda g: f"{g.num_nodes:,} nodes")
    table.rows.append(["total", sum(row[1] for row in table.rows), ""])
    timed("igraph: Graph from the edge list, weights", lambda: _igraph(op), lambda g: f"{g.ecount():,} edges")
    if settings.memory:
        peak, held = measure.peak_memory("build:one_run", atoms=settings.atoms)
        table.notes.append(f"peak memory {peak / 2**20:.0f} MB, of it {(peak - held) / 2**20:.0f} MB to build")
    return Outcome([table])


def synthetic(atoms: int, seed: int = 0) -> tuple[list[Passage], list[Extraction]]:
    """Return passages with five atoms each, entities known by a power law, a triple for each two atoms."""
    rng = np.random.default_rng(seed)
    count = max(1, atoms // ATOMS_A_PASSAGE)
    pool = max(16, atoms)
    drawn = (pool * rng.random((count, 8)) ** 2.5).astype(np.int64)  # eight entities a passage, some of them famous
    fresh = rng.integers(0, pool, (count, 8))
    drawn = np.where(rng.random((count, 8)) < 0.5, drawn, fresh)
    passages, extractions = [], []
    for row in range(count):
        entities = [_name(number) for number in drawn[row].tolist()]
        found = []
        for at in range(ATOMS_A_PASSAGE):
            some = (entities[at], entities[(at + 1 + row % 3) % 8])
            found.append(ExtractedAtom(f"{some[0]} is tied to {some[1]} by fact {row} of kind {at}.", some))
        triples = tuple((entities[at], f"is tied to {at}", entities[at + 1]) for at in range(6))
        identity = f"passage-{row:07d}"
        passages.append(Passage(identity, f"document-{row:07d}", " ".join(atom.text for atom in found)))
        extractions.append(Extraction(identity, tuple(entities), triples, tuple(found)))
    return passages, extractions


def one_run(atoms: int) -> Callable[[], object]:
    """Return the building, its extractions made: what the child of the memory measurement does."""
    passages, extractions = synthetic(atoms)
    return lambda: operator(build(passages, extractions, GraphConfig(synonym=False)))


def _name(number: int) -> str:
    """A distinct two-word name of each number."""
    parts = []
    while True:
        number, digit = divmod(number, len(_SYLLABLES))
        parts.append(_SYLLABLES[digit])
        if not number:
            break
    half = len(parts) // 2
    return f"{''.join(parts[:half]).capitalize()} {''.join(parts[half:]).capitalize()}".strip()


def _igraph(op: Any) -> Any:
    import igraph

    row = torch.repeat_interleave(torch.arange(op.num_nodes), (op.crow[1:] - op.crow[:-1]).long())
    upper = row < op.col
    edges = torch.stack([row[upper], op.col[upper].long()], dim=1)
    graph = igraph.Graph(n=op.num_nodes, edges=edges.tolist(), directed=False)
    graph.es["weight"] = op.weight[upper].tolist()
    return graph

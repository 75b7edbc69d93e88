"""The graphs and seeds that a name stands for; synthetic ones are made once and kept."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from experiments.bench import medical, seeds, world
from experiments.bench.problem import Problem
from experiments.bench.shapes import SHAPES, Graph, synthetic

REAL = "medical-real"
NAMES = (*SHAPES, REAL)
RESTART = {"dense": 0.3, "sparse": 0.1}
LIMIT = 1e-3
QUICK = 0.002
_TYPES = ("relates", "mentions", "synonym")


def graph_of(name: str, quick: bool = False) -> Graph:
    """Return the graph of a shape (a five-hundredth of it in a quick run), or Medical's real one.

    Raises:
        DataError: if Medical's data is not there.
    """
    if name == REAL:
        found = medical.medical()
        return Graph(REAL, found.num_atoms, {}, found.retriever.operator)
    shape = SHAPES[name].scaled(QUICK) if quick else SHAPES[name]
    return synthetic(shape) if quick else _kept(shape)


def problem_of(
    name: str, kind: str, queries: int, quick: bool = False, graph: Graph | None = None, device: str = "cpu"
) -> Problem:
    """Return a problem: dense seeds at restart 0.3, or sparse ones at restart 0.1, to an L1 error of 1e-3."""
    graph = graph or graph_of(name, quick)
    made = seeds.KINDS[kind](graph, queries)
    return Problem(graph, made, RESTART[kind], LIMIT, sample_of(queries, quick), device=device)


def sample_of(queries: int, quick: bool = False) -> int:
    """Return how many queries are held against the truth."""
    return min(2 if quick else 8, queries)


def described(graph: Graph) -> str:
    """Return a graph's name and size."""
    return f"{graph.name} ({graph.op.num_nodes:,} nodes, {graph.nnz:,} non-zeros)"


def _kept(shape: world.Shape) -> Graph:
    """A synthetic graph from the cache, made first where it is not there."""
    from safetensors.torch import load_file, save_file

    code = hashlib.sha256(Path(world.__file__).read_bytes()).hexdigest()[:12]
    file = medical.cache_folder() / "shapes" / f"{shape.name}-{code}.safetensors"
    if not file.is_file():
        made = synthetic(shape)
        file.parent.mkdir(parents=True, exist_ok=True)
        parts = {
            f"{name}.{what}": part for name, edge in made.edges.items() for what, part in zip("iw", edge, strict=True)
        }
        save_file({key: part.contiguous() for key, part in parts.items()}, f"{file}.{os.getpid()}")
        Path(f"{file}.{os.getpid()}").replace(file)
        return made
    held = load_file(file)
    return Graph.of(shape, {name: (held[f"{name}.i"], held[f"{name}.w"]) for name in _TYPES})

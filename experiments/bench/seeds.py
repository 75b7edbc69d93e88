"""Seeds for the bench: dense on all atoms plus three linked entities, or three random entities alone."""

from __future__ import annotations

import numpy as np
import torch

from aeg.core.seeds import DenseSeeds, Seeds
from experiments.bench.shapes import Graph

ALPHA = 0.1
DIMENSIONS = 384
LINKED = 3
_TOPICS = 200
_LEAST = 1e-6


def dense(graph: Graph, queries: int, seed: int = 0) -> Seeds:
    """Return the paper's seeds: α (0.1) times min-max scaled similarities of all atoms, plus three linked entities.

    Similarities are those of random unit vectors of 384 dimensions around 200 topics, with a shared direction, so
    that cosines spread as an encoder's do (most of 0.1 to 0.4, a few above 0.7).
    """
    generator = torch.Generator().manual_seed(seed)
    shared = torch.randn(DIMENSIONS, generator=generator)
    topics = torch.randn(_TOPICS, DIMENSIONS, generator=generator)

    def vectors(count: int) -> torch.Tensor:
        topic = torch.randint(_TOPICS, (count,), generator=generator)
        noise = torch.randn(count, DIMENSIONS, generator=generator)
        return torch.nn.functional.normalize(0.5 * shared + 0.9 * topics[topic] + 0.8 * noise, dim=1)

    atoms, asked = vectors(graph.num_atoms), vectors(queries)
    scale, offset = _min_max(atoms, asked)
    part = DenseSeeds(atoms, asked, (ALPHA * scale).float(), (ALPHA * offset).float(), clipped=False)
    linked = sparse(graph, queries, seed)
    return Seeds(linked.num_nodes, linked.ptr, linked.nodes, linked.weights, part, linked.keys)


def _min_max(atoms: torch.Tensor, asked: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scale and offset that take each query's similarities to [1e-6, 1].

    With 0 for the least similar atom, rounding would say whether it is a seed, on which weighted BFS depends.
    """
    ends = [torch.aminmax(atoms @ block.T, dim=0) for block in asked.split(64)]
    low, high = torch.cat([end.min for end in ends]), torch.cat([end.max for end in ends])
    scale = (1.0 - _LEAST) / (high - low)
    return scale, _LEAST - low * scale


def sparse(graph: Graph, queries: int, seed: int = 0) -> Seeds:
    """Return three distinct random entities a query, with weights in [0.5, 1]; every query has its own three."""
    rng = np.random.default_rng([seed, queries])
    nodes = graph.op.num_nodes
    linkable = np.flatnonzero(~graph.op.isolated.numpy()[graph.num_atoms :]) + graph.num_atoms
    rows = np.sort(np.stack([rng.choice(linkable, LINKED, replace=False) for _ in range(queries)]), axis=1)
    weights = torch.from_numpy(rng.uniform(0.5, 1.0, queries * LINKED).astype(np.float32))
    ptr = torch.arange(0, queries * LINKED + 1, LINKED)
    return Seeds(nodes, ptr, torch.from_numpy(rows.ravel()), weights, keys=torch.arange(queries))


def columns(seeds: Seeds, start: int, stop: int) -> np.ndarray:
    """Return seeds of some queries as float64 [nodes, queries], columns of sum 1 (0 where there are none)."""
    part = seeds.tile(start, stop).double().numpy()
    total = part.sum(0)
    return part / np.where(total == 0, 1.0, total)


KINDS = {"dense": dense, "sparse": sparse}

"""Synthetic Atom-Entity Graphs with the exact counts of the paper's Table 6.

How like they are, Medical's real graph (recorded extraction, 5,600 atoms, 4,453 entities) against a synthetic one
with its counts (15,380 containment, 5,867 related, 3,407 synonym edges):

    degree in                  mean   none   median  90 %  99 %  largest  top 1 % hold  clustering
    containment of an entity   3.45   21 %   1       7     41    154      21 %
      synthetic                3.45   16 %   2       7     20    154      12 %
    related                    2.64    8 %   1       5     23     96      15 %          0.09
      synthetic                2.64    5 %   2       5     15     82      10 %          0.07
    synonym                    1.53   43 %   1       4     12     22      10 %          0.61
      synthetic                1.53   39 %   1       4     15     21      11 %          0.65
    all                        4.89    0 %   3       8     39    253      16 %          0.48
      synthetic                4.90    1 %   3       10    28    236      10 %          0.45

Outside the largest component: 0.6 % of the nodes, synthetic 0.7 %. Second eigenvalue of the walk, on which the steps
of an iteration depend: 0.984, synthetic 0.988; the least: -0.96, synthetic -0.87. So the synthetic graphs do not mix
faster; their degrees are a little more even, so that fewer gathers fall on the same cached rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from aeg.core.operator import Operator
from experiments.bench.world import Shape, World

SHAPES = {
    shape.name: shape
    for shape in (
        Shape("hotpotqa", 84_592, 28_403, 177_734, 276_577, 25_584),
        Shape("musique", 87_446, 30_772, 175_794, 286_923, 25_780),
        Shape("two_wiki", 44_750, 15_032, 93_446, 125_422, 15_140),
        Shape("medical", 9_087, 5_560, 21_068, 99_707, 23_144),
        Shape("novel", 40_217, 19_590, 75_665, 83_481, 17_802),
    )
}


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph to propagate on: typed edges over atoms (first) and entities, and the operator made of them."""

    name: str
    num_atoms: int
    edges: dict[str, tuple[torch.Tensor, torch.Tensor]]
    op: Operator

    @classmethod
    def of(cls, shape: Shape, edges: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> Graph:
        """Return the graph of these edges, node pairs [2, edges] and weights by type."""
        index = torch.cat([edge[0] for edge in edges.values()], dim=1)
        weight = torch.cat([edge[1] for edge in edges.values()])
        return cls(shape.name, shape.atoms, edges, Operator.from_edges(shape.nodes, index, weight))

    @property
    def nnz(self) -> int:
        """Non-zeros of the operator (both directions of an edge)."""
        return len(self.op.col)


def synthetic(shape: Shape, seed: int = 0) -> Graph:
    """Return a graph with the counts of `shape`, the same for the same seed."""
    rng = np.random.default_rng([seed, shape.entities, shape.atoms])
    world = World(shape, rng)
    drawn = {"relates": world.related(), "mentions": world.containment(), "synonym": world.synonym()}
    edges = {
        name: (torch.from_numpy(index), torch.from_numpy(weight.astype(np.float32)))
        for name, (index, weight) in drawn.items()
    }
    return Graph.of(shape, edges)

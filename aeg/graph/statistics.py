"""Statistics of the Atom-Entity Graph, as in Tables 3 and 6 of the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aeg.config.schema import OperatorConfig
from aeg.graph.graph import EDGE_TYPES, AtomEntityGraph
from aeg.graph.weights import operator

_BLOCK = 2048


@dataclass(frozen=True)
class GraphStatistics:
    """Counts and structure of a graph.

    Attributes:
        average_degree: 2 · edges / nodes, edges of different types counted apart.
        average_clustering: mean local clustering coefficient of the simple graph; 0 for a node of degree < 2.
        isolated_atoms: atoms without any edge.
        mentions_per_atom: containment edges per atom.
    """

    nodes: int
    entities: int
    atoms: int
    edges: int
    relates: int
    synonym: int
    mentions: int
    average_degree: float
    average_clustering: float
    isolated_atoms: int
    mentions_per_atom: float


def statistics(graph: AtomEntityGraph) -> GraphStatistics:
    """Return the statistics of `graph`.

    Source:
        Paper, Tables 3 and 6.
    """
    sizes = {name: int(graph.data[kind].edge_index.shape[1]) for name, kind in EDGE_TYPES.items()}
    atoms, nodes, edges = len(graph.atoms), graph.num_nodes, sum(sizes.values())
    whole = operator(graph, OperatorConfig())
    return GraphStatistics(
        nodes=nodes,
        entities=len(graph.entities),
        atoms=atoms,
        edges=edges,
        **sizes,
        average_degree=2 * edges / nodes,
        average_clustering=_average_clustering(whole.scipy()),
        isolated_atoms=int(whole.isolated[:atoms].sum()),
        mentions_per_atom=sizes["mentions"] / atoms,
    )


def _average_clustering(matrix: object) -> float:
    """Mean of 2 · triangles / (degree · (degree − 1)), by blocks of rows so that A² is never held whole."""
    from scipy.sparse import csr_array

    adjacency = csr_array(matrix)
    adjacency.data = np.ones_like(adjacency.data)
    degree = np.diff(adjacency.indptr)
    total = 0.0
    for start in range(0, adjacency.shape[0], _BLOCK):
        rows = adjacency[start : start + _BLOCK]
        closed = np.asarray((rows @ adjacency).multiply(rows).sum(axis=1)).ravel()
        possible = degree[start : start + _BLOCK] * (degree[start : start + _BLOCK] - 1)
        total += float(np.divide(closed, possible, out=np.zeros_like(closed), where=possible > 0).sum())
    return total / max(adjacency.shape[0], 1)

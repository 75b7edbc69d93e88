"""From the graph to its operator: type factors, entity specificity, and the bound on auxiliary weight."""

from __future__ import annotations

import torch
from torch import Tensor

from aeg.config.schema import OperatorConfig
from aeg.core.operator import Operator
from aeg.graph.graph import EDGE_TYPES, AtomEntityGraph

AUXILIARY = ("relates", "synonym")


def operator(graph: AtomEntityGraph, config: OperatorConfig | None = None) -> Operator:
    """Return the operator W = Σ_type f_type · W_type over atoms (first) and entities.

    With `entity_specificity` an edge is multiplied by s(e) = 1 / (1 + ln(1 + mentions of e)) for each entity e
    at its ends. With `beta` auxiliary edges (relates, synonym) are multiplied by min(s_e, s_e'), where
    s_e = min(1, β · containment weight of e / auxiliary weight of e), and s_e = 1 where e has no containment
    edge (counted as `entities_without_mentions`).

    Source:
        Paper, section 3.1; Assumption C.8.
    """
    config = config or OperatorConfig()
    edges = {name: edge for name, edge in typed_edges(graph, config).items() if len(edge[1])}
    counts = {}
    if config.beta is not None:
        edges, counts["entities_without_mentions"] = _bounded(edges, graph, config.beta)
    index = torch.cat([edge[0] for edge in edges.values()], dim=1) if edges else torch.zeros(2, 0, dtype=torch.int64)
    weight = torch.cat([edge[1] for edge in edges.values()]) if edges else torch.zeros(0)
    built = Operator.from_edges(graph.num_nodes, index, weight)
    built.counts.update(counts)
    return built


def typed_operators(graph: AtomEntityGraph, config: OperatorConfig | None = None) -> dict[str, Operator]:
    """Return one operator for each edge type, for methods that treat the types apart."""
    edges = typed_edges(graph, config or OperatorConfig())
    return {name: Operator.from_edges(graph.num_nodes, *edge) for name, edge in edges.items()}


def typed_edges(graph: AtomEntityGraph, config: OperatorConfig) -> dict[str, tuple[Tensor, Tensor]]:
    """Return (node pairs [2, edges], weights [edges]) of each edge type, in the operator's node numbers."""
    offset = len(graph.atoms)
    specificity = torch.ones(graph.num_nodes)
    if config.entity_specificity:
        specificity[offset:] = graph.entities.specificity()
    edges = {}
    for name, kind in EDGE_TYPES.items():
        store = graph.data[kind]
        shift = torch.tensor([[0 if kind[0] == "atom" else offset], [offset]])
        index = store.edge_index + shift
        factor = getattr(config, name) * specificity[index[0]] * specificity[index[1]]
        edges[name] = (index, store.edge_weight * factor)
    return edges


def _bounded(
    edges: dict[str, tuple[Tensor, Tensor]], graph: AtomEntityGraph, beta: float
) -> tuple[dict[str, tuple[Tensor, Tensor]], int]:
    offset, count = len(graph.atoms), graph.num_nodes
    held = _strength(edges, ("mentions",), count)
    auxiliary = _strength(edges, AUXILIARY, count)
    share = torch.where(auxiliary > 0, beta * held / auxiliary.clamp(min=torch.finfo(torch.float64).tiny), 1.0)
    share = torch.where(held > 0, share.clamp(max=1.0), 1.0)
    bounded = dict(edges)
    for name in AUXILIARY:
        if name in edges:
            index, weight = edges[name]
            bounded[name] = (index, weight * torch.minimum(share[index[0]], share[index[1]]).float())
    return bounded, int((held[offset:] == 0).sum())


def _strength(edges: dict[str, tuple[Tensor, Tensor]], names: tuple[str, ...], count: int) -> Tensor:
    total = torch.zeros(count, dtype=torch.float64)
    for name in names:
        if name in edges:
            index, weight = edges[name]
            for end in index:
                total.index_add_(0, end, weight.double())
    return total

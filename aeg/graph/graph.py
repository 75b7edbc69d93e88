"""The Atom-Entity Graph: a PyG heterogeneous graph with its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from aeg.config.schema import GraphConfig
from aeg.core.records import Extraction, Passage
from aeg.core.tables import AtomTable, EntityTable
from aeg.errors import DataError
from aeg.graph.growth import embedded, known_pairs
from aeg.graph.inventory import collect

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

EDGE_TYPES = {
    "mentions": ("atom", "mentions", "entity"),
    "relates": ("entity", "relates", "entity"),
    "synonym": ("entity", "synonym", "entity"),
}


@dataclass(frozen=True, eq=False)
class AtomEntityGraph:
    """The Atom-Entity Graph of a corpus (paper, section 3.1).

    Attributes:
        data: `HeteroData` with node types `atom` and `entity` (features `x` where an encoder was given,
            `num_nodes` always) and the edge types `mentions`, `relates`, `synonym`, each undirected edge once
            (atom to entity; entities with the smaller row first), with `edge_index` and `edge_weight`.
        atoms, entities: the tables, row i of a table being node i of its type.
        passages: the passages, ordered by document id and start.
        counts: what was merged, rejected, dropped or cut while building.
        cut: int32 [2, pairs], entity rows of the pairs at or above the synonym threshold that the cap removed, from
            which the edges follow when entities come or go; None where that is not known.
    """

    data: HeteroData
    atoms: AtomTable
    entities: EntityTable
    passages: Sequence[Passage]
    counts: Mapping[str, int] = field(default_factory=dict)
    cut: torch.Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """Atoms and entities together: the rows of the operator, atoms first."""
        return len(self.atoms) + len(self.entities)


def build(
    passages: Sequence[Passage],
    extractions: Iterable[Extraction],
    config: GraphConfig | None = None,
    encoder: Any | None = None,
    device: torch.device | str = "cpu",
    previous: AtomEntityGraph | None = None,
) -> AtomEntityGraph:
    """Return the Atom-Entity Graph of the passages.

    Args:
        passages: ordered by document id and start.
        extractions: one for each passage, in the same order.
        config: what the units are, and which synonym edges to draw.
        encoder: an object with `encode(texts) -> Tensor [n, d]` of unit rows; without one there are no node
            features and no synonym edges.
        device: where nearest neighbours are searched.
        previous: a graph of other passages, built by the same encoder, whose vectors are taken over by text; and if
            its `cut` is not None, by the same config, whose pairs of near entities are. The result is the same as
            without it, bit for bit, as far as the encoder gives a text the same vector whatever it comes with.

    Raises:
        DataError: if extractions and passages do not match, or there is no atom at all.

    Source:
        Paper, eq. 1 to 3.
    """
    config = config or GraphConfig()
    found = collect(passages, extractions, config.units)
    atoms, entities, counts = found.atoms, found.entities, dict(found.counts)
    synonyms, cosine, cut = torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0), None
    if encoder is not None:
        atoms = replace(atoms, embeddings=embedded(atoms.texts, encoder, previous.atoms if previous else None))
        if len(entities):
            entities = replace(
                entities, embeddings=embedded(entities.names, encoder, previous.entities if previous else None)
            )
        if config.synonym and len(entities) > 1:
            synonyms, cosine, counts["synonym_edges_cut"], cut = _synonym_edges(entities, config, device, previous)
    edges = {
        "mentions": (found.mentions, torch.ones(found.mentions.shape[1])),
        "relates": (found.relates, found.relates_weight),
        "synonym": (synonyms, cosine),
    }
    return AtomEntityGraph(hetero_data(atoms, entities, edges), atoms, entities, tuple(passages), counts, cut)


def hetero_data(
    atoms: AtomTable, entities: EntityTable, edges: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
) -> HeteroData:
    """Return the tables and edges as PyG `HeteroData`; an edge whose end has no node is an error."""
    from torch_geometric.data import HeteroData

    data = HeteroData()
    for kind, table in (("atom", atoms), ("entity", entities)):
        data[kind].num_nodes = len(table)
        if table.embeddings is not None:
            data[kind].x = table.embeddings
    sizes = {"atom": len(atoms), "entity": len(entities)}
    for name, (index, weight) in edges.items():
        edge_type = EDGE_TYPES[name]
        for end, nodes in zip((edge_type[0], edge_type[2]), index, strict=True):
            if len(nodes) and int(nodes.max()) >= sizes[end]:
                raise DataError(f"graph: a {name} edge ends at {end} {int(nodes.max())}, there are {sizes[end]}")
        data[edge_type].edge_index = index
        data[edge_type].edge_weight = weight
    return data


def _synonym_edges(
    entities: EntityTable, config: GraphConfig, device: torch.device | str, previous: AtomEntityGraph | None
) -> tuple[torch.Tensor, torch.Tensor, int, torch.Tensor | None]:
    from aeg.backends.nearest.pairs import capped

    assert entities.embeddings is not None
    known = None if previous is None or previous.cut is None else known_pairs(*_pairs(previous), entities)
    found, cut = capped(entities.embeddings, config.synonym_threshold, config.synonym_top_k, device, known)
    return torch.stack([found.src, found.dst]), found.cosine.clamp(max=1.0), found.cut, cut


def _pairs(graph: AtomEntityGraph) -> tuple[EntityTable, torch.Tensor, torch.Tensor]:
    """Return entities, pairs at or above the synonym threshold int64 [2, m], and their cosines where known."""
    assert graph.cut is not None
    edges = graph.data[EDGE_TYPES["synonym"]]
    cosine = torch.cat([edges.edge_weight, torch.full((graph.cut.shape[1],), torch.nan)])
    return graph.entities, torch.cat([edges.edge_index, graph.cut.to(torch.int64)], dim=1), cosine

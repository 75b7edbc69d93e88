"""The Atom-Entity Graph: a PyG heterogeneous graph with its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from aeg.config.schema import GraphConfig
from aeg.core.records import Extraction, Passage
from aeg.core.tables import AtomTable, EntityTable
from aeg.errors import DataError
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
    """

    data: HeteroData
    atoms: AtomTable
    entities: EntityTable
    passages: Sequence[Passage]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        """Atoms and entities together: the rows of the operator, atoms first."""
        return len(self.atoms) + len(self.entities)


def build(
    passages: Sequence[Passage],
    extractions: Sequence[Extraction],
    config: GraphConfig | None = None,
    encoder: Any | None = None,
    device: torch.device | str = "cpu",
) -> AtomEntityGraph:
    """Return the Atom-Entity Graph of the passages.

    Args:
        passages: ordered by document id and start.
        extractions: one for each passage, in the same order.
        config: what the units are, and which synonym edges to draw.
        encoder: an object with `encode(texts) -> Tensor [n, d]` of unit rows; without one there are no node
            features and no synonym edges.
        device: where nearest neighbours are searched.

    Raises:
        DataError: if extractions and passages do not match, or there is no atom at all.

    Source:
        Paper, eq. 1 to 3.
    """
    config = config or GraphConfig()
    found = collect(passages, extractions, config.units)
    atoms, entities, counts = found.atoms, found.entities, dict(found.counts)
    synonyms, cosine = torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0)
    if encoder is not None:
        atoms = replace(atoms, embeddings=encoder.encode(list(atoms.texts)))
        if len(entities):
            entities = replace(entities, embeddings=encoder.encode(list(entities.names)))
        if config.synonym and len(entities) > 1:
            synonyms, cosine, counts["synonym_edges_cut"] = _synonym_edges(entities, config, device)
    edges = {
        "mentions": (found.mentions, torch.ones(found.mentions.shape[1])),
        "relates": (found.relates, found.relates_weight),
        "synonym": (synonyms, cosine),
    }
    return AtomEntityGraph(hetero_data(atoms, entities, edges), atoms, entities, tuple(passages), counts)


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
    entities: EntityTable, config: GraphConfig, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor, int]:
    from aeg.backends.nearest.pairs import neighbours_above

    assert entities.embeddings is not None
    left, right, cosine, cut = neighbours_above(
        entities.embeddings, config.synonym_threshold, config.synonym_top_k, device
    )
    return torch.stack([left, right]), cosine.clamp(max=1.0), cut

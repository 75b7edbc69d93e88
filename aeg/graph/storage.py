"""Saving and loading a graph without pickles: safetensors for tensors, Parquet for records."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from aeg.core.atomic import replacing
from aeg.core.records import Passage
from aeg.core.tables import AtomTable, EntityTable
from aeg.core.tensors import load_tensors, save_tensors
from aeg.errors import DataError
from aeg.graph.graph import EDGE_TYPES, AtomEntityGraph, hetero_data

_TENSORS, _ATOMS, _ENTITIES, _PASSAGES, _COUNTS = (
    "graph.safetensors",
    "atoms.parquet",
    "entities.parquet",
    "passages.parquet",
    "counts.json",
)
_CUT = "cut.safetensors"


def save(graph: AtomEntityGraph, folder: Path) -> None:
    """Write the graph into `folder`; the same graph gives the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        "occurrence_atom": graph.atoms.occurrence_atom,
        "occurrence_passage": graph.atoms.occurrence_passage,
        "occurrence_span": graph.atoms.occurrence_span,
        "entity_mentions": graph.entities.mentions,
    }
    for name, kind in EDGE_TYPES.items():
        tensors[f"{name}.index"] = graph.data[kind].edge_index
        tensors[f"{name}.weight"] = graph.data[kind].edge_weight
    for name, rows in (("atom", graph.atoms), ("entity", graph.entities)):
        if rows.embeddings is not None:
            tensors[f"{name}.x"] = rows.embeddings
    save_tensors(tensors, folder / _TENSORS)
    if graph.cut is not None:
        save_tensors({"pairs": graph.cut}, folder / _CUT)
    keyed = pa.schema([("key", pa.string()), ("name", pa.string())])
    tables = {
        _ATOMS: pa.table({"id": list(graph.atoms.ids), "text": list(graph.atoms.texts)}),
        _ENTITIES: pa.table({"key": list(graph.entities.keys), "name": list(graph.entities.names)}, schema=keyed),
        _PASSAGES: pa.Table.from_pylist([dataclasses.asdict(passage) for passage in graph.passages]),
    }
    for name, table in tables.items():
        with replacing(folder / name) as temporary:
            pq.write_table(table, temporary)
    with replacing(folder / _COUNTS) as temporary:
        temporary.write_text(json.dumps(dict(graph.counts), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def load(folder: Path, cut: bool = False) -> AtomEntityGraph:
    """Return the graph saved in `folder`.

    Args:
        folder: that it was saved in.
        cut: read also the pairs that the cap on synonyms removed, for a graph that is built from this one.

    Raises:
        DataError: if a file is missing or cannot be read.
    """
    tensors = load_tensors(folder / _TENSORS, "graph", "build the index again")
    atoms_read, entities_read = _read_table(folder / _ATOMS), _read_table(folder / _ENTITIES)
    atoms = AtomTable(
        atoms_read["id"],
        atoms_read["text"],
        tensors.get("atom.x"),
        tensors["occurrence_atom"],
        tensors["occurrence_passage"],
        tensors["occurrence_span"],
    )
    entities = EntityTable(
        entities_read["key"], entities_read["name"], tensors["entity_mentions"], tensors.get("entity.x")
    )
    edges = {name: (tensors[f"{name}.index"], tensors[f"{name}.weight"]) for name in EDGE_TYPES}
    columns = _read_table(folder / _PASSAGES)
    passages = tuple(
        Passage(*values) for values in zip(*(columns[f.name] for f in dataclasses.fields(Passage)), strict=True)
    )
    counts = json.loads((folder / _COUNTS).read_text(encoding="utf-8"))
    spare = None
    if cut and (folder / _CUT).exists():
        spare = load_tensors(folder / _CUT, "table of pairs", "build the index again")["pairs"]
    return AtomEntityGraph(hetero_data(atoms, entities, edges), atoms, entities, passages, counts, spare)


def _read_table(path: Path) -> dict[str, list[Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path).to_pydict()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: not a readable table ({error}); build the index again") from None

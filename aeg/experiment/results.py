"""The results of a run, question by question: what was ranked, why, and how good it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from aeg.graph import AtomEntityGraph
from aeg.pipeline.ranking import Ranking
from aeg.pipeline.retrieving import Seeding


def result_rows(
    part: str,
    graph: AtomEntityGraph,
    documents: Sequence[str],
    seeding: Seeding,
    ranking: Ranking,
    values: Mapping[str, np.ndarray],
) -> list[dict[str, Any]]:
    """Return one record a question for one method: ranking, scores, trace and metrics.

    Args:
        part: label of the corpus, empty where there is one only.
        graph: the graph whose rows the ranking names.
        documents: document ids, the rows of `ranking.documents`.
        seeding: the questions with links and seeds.
        ranking: what one method found.
        values: per question arrays by metric; NaN where a metric does not apply.
    """
    names = graph.atoms.ids if ranking.unit == "atom" else [passage.id for passage in graph.passages]
    traces = question_traces(graph, seeding)
    rows = []
    for at, query in enumerate(seeding.queries):
        units, unit_scores = _kept(ranking.units[at], ranking.unit_scores[at])
        docs, doc_scores = _kept(ranking.documents[at], ranking.document_scores[at])
        metrics = [(name, float(array[at])) for name, array in values.items() if not np.isnan(array[at])]
        rows.append(
            {
                "part": part,
                "question_id": query.id,
                "type": query.type,
                "method": ranking.method,
                "seed": ranking.seed,
                "unit": ranking.unit,
                "units": [names[row] for row in units],
                "unit_scores": unit_scores,
                "documents": [documents[row] for row in docs],
                "document_scores": doc_scores,
                "iterations": int(ranking.iterations[at]),
                "residual": float(ranking.residual[at]),
                "flags": [name for name, flag in ranking.flags.items() if bool(flag[at])],
                "metrics": metrics,
                **traces[at],
            }
        )
    return rows


def question_traces(graph: AtomEntityGraph, seeding: Seeding) -> list[dict[str, Any]]:
    """Return for each question what its effective queries were seeded with."""
    traces: list[dict[str, Any]] = [{"effective": []} for _ in seeding.queries]
    for at, item in enumerate(seeding.effective):
        traces[item.query]["effective"].append(
            {
                "text": item.text,
                "mentions": list(item.mentions) or [link.mention for link in seeding.links[at]],
                "entities": [graph.entities.keys[link.entity] for link in seeding.links[at]],
                "entity_weights": [float(link.weight) for link in seeding.links[at]],
                "entity_mass": float(seeding.trace.entity_mass[at]),
                "atom_mass": float(seeding.trace.atom_mass[at]),
            }
        )
    return traces


def save_results(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the records as Parquet; the same records give the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = pa.list_(pa.string())
    numbers = pa.list_(pa.float32())
    effective = pa.struct(
        [
            ("text", pa.string()),
            ("mentions", texts),
            ("entities", texts),
            ("entity_weights", numbers),
            ("entity_mass", pa.float64()),
            ("atom_mass", pa.float64()),
        ]
    )
    schema = pa.schema(
        [
            ("part", pa.string()),
            ("question_id", pa.string()),
            ("type", pa.string()),
            ("method", pa.string()),
            ("seed", pa.int64()),
            ("unit", pa.string()),
            ("units", texts),
            ("unit_scores", numbers),
            ("documents", texts),
            ("document_scores", numbers),
            ("iterations", pa.int64()),
            ("residual", pa.float64()),
            ("flags", texts),
            ("metrics", pa.map_(pa.string(), pa.float64())),
            ("effective", pa.list_(effective)),
        ]
    )
    temporary = path.with_name(f".{path.name}.tmp")
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), temporary, compression="zstd")
    temporary.replace(path)


def _kept(rows: Tensor, scores: Tensor) -> tuple[list[int], list[float]]:
    there = rows >= 0
    return rows[there].tolist(), scores[there].tolist()

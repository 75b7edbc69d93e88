"""The results of a run, question by question: what was ranked, why, and how good it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from aeg.artifacts import MANIFEST
from aeg.errors import DataError
from aeg.graph import AtomEntityGraph
from aeg.pipeline.ranking import Ranking
from aeg.pipeline.seeding import Seeding
from aeg.query.seeds import SeedTrace


def result_rows(
    part: str,
    graph: AtomEntityGraph,
    documents: Sequence[str],
    seeding: Seeding,
    trace: SeedTrace | None,
    ranking: Ranking,
    values: Mapping[str, np.ndarray],
) -> list[dict[str, Any]]:
    """Return one record a question for one method: ranking, scores, trace and metrics.

    Args:
        part: label of the corpus, empty where there is one only.
        graph: the graph whose rows the ranking names.
        documents: document ids, the rows of `ranking.documents`.
        seeding: the questions with their links.
        trace: what the method's seeds were made of; None for a method without seeds.
        ranking: what one method found.
        values: per question arrays by metric; NaN where a metric does not apply.
    """
    names = graph.atoms.ids if ranking.unit == "atom" else [passage.id for passage in graph.passages]
    traces = question_traces(graph, seeding, trace)
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


def question_traces(graph: AtomEntityGraph, seeding: Seeding, trace: SeedTrace | None) -> list[dict[str, Any]]:
    """Return for each question what its effective queries were linked to and seeded with."""
    traces: list[dict[str, Any]] = [{"effective": []} for _ in seeding.queries]
    for at, (item, links) in enumerate(zip(seeding.effective, seeding.links, strict=True)):
        traces[item.query]["effective"].append(
            {
                "text": item.text,
                "mentions": list(item.mentions) or [link.mention for link in links],
                "entities": [graph.entities.keys[link.entity] for link in links],
                "entity_weights": [link.weight for link in links],
                "entity_mass": None if trace is None else float(trace.entity_mass[at]),
                "atom_mass": None if trace is None else float(trace.atom_mass[at]),
            }
        )
    return traces


class ResultsWriter:
    """Writes records to a Parquet file, one row group a ranking, so that only one is held.

    Without records there is no file; one that an earlier run left is deleted. The file appears under its name when
    it is closed; the same records give the same bytes.
    """

    def __init__(self, path: Path, schema: Any) -> None:
        self._schema = schema
        self._path, self._temporary = path, path.with_name(f".{path.name}.tmp")
        self._writer: Any = None

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the records of one ranking."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist(list(rows), schema=self._schema)
        if self._writer is None:
            self._begin()
            self._writer = pq.ParquetWriter(self._temporary, table.schema, compression="zstd")
        self._writer.write_table(table)

    def _begin(self) -> None:
        """Make the run folder; from now on it is incomplete until its manifest is written again."""
        folder = self._path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{folder}: cannot be made ({error.strerror}); set run_dir to a writable folder") from None
        (folder / MANIFEST).unlink(missing_ok=True)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is None:
            self._path.unlink(missing_ok=True)
        else:
            self._writer.close()
            self._temporary.replace(self._path)


def result_schema() -> Any:
    """Return the Arrow schema of the records."""
    import pyarrow as pa

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
    return pa.schema(
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


def _kept(rows: Tensor, scores: Tensor) -> tuple[list[int], list[float]]:
    there = rows >= 0
    return rows[there].tolist(), scores[there].tolist()

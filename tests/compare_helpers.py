"""Run folders with results as a run writes them, made of given values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from aeg.evaluation.trec import write_qrels
from aeg.experiment.results import result_schema
from aeg.experiment.texts import text_schema

Values = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By method and metric, the value of each question."""


def write_run(
    folder: Path,
    values: Values,
    types: Mapping[str, str] | None = None,
    documents: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    gold: Mapping[str, Sequence[str]] | None = None,
    corpus: str = "data",
    content: str = "x",
) -> Path:
    """Write the folder of a finished run."""
    folder.mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    texts: dict[tuple[str, str], str] = {}
    for method, metrics in values.items():
        questions = list(dict.fromkeys(question for of in metrics.values() for question in of))
        for question in questions:
            ranked = list((documents or {}).get(method, {}).get(question, ()))
            texts["question", question] = f"Who is {question}?"
            texts |= {("passage", doc): f"The text of {doc}." for doc in ranked}
            rows.append(
                {
                    "part": "",
                    "question_id": question,
                    "type": (types or {}).get(question, ""),
                    "method": method,
                    "seed": None,
                    "unit": "passage",
                    "units": ranked,
                    "unit_scores": [1.0 / (1 + at) for at in range(len(ranked))],
                    "documents": ranked,
                    "document_scores": [1.0 / (1 + at) for at in range(len(ranked))],
                    "iterations": 0,
                    "residual": 0.0,
                    "flags": [],
                    "metrics": [(metric, of[question]) for metric, of in metrics.items() if question in of],
                    "effective": [],
                }
            )
    pq.write_table(pa.Table.from_pylist(rows, schema=result_schema()), folder / "results.parquet")
    told = [{"part": "", "kind": kind, "id": name, "text": text} for (kind, name), text in texts.items()]
    pq.write_table(pa.Table.from_pylist(told, schema=text_schema()), folder / "texts.parquet")
    if gold:
        (folder / "trec").mkdir()
        write_qrels(folder / "trec" / "qrels.txt", {q: dict.fromkeys(docs, 1) for q, docs in gold.items()})
    manifest = {"config": {"corpus": {"name": "jsonl", "path": corpus}}, "parts": {"corpus": {"data": content}}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def write_sweep(folder: Path, runs: Sequence[tuple[Mapping[str, Any], str, Path]], baseline: str | None = None) -> Path:
    """Write a sweep's folder: for each run its axes, its system, and its folder, which lies beside."""
    folder.mkdir(parents=True)
    items = [
        {
            "id": f"{at:08x}",
            "name": system or path.name,
            "system": system,
            "axes": dict(axes),
            "folder": f"../{path.name}",
        }
        for at, (axes, system, path) in enumerate(runs)
    ]
    content = {"format": 1, "name": folder.name, "config": "c", "overrides": [], "baseline": baseline, "runs": items}
    (folder / "sweep.json").write_text(json.dumps(content))
    return folder

"""Runs of the whole pipeline over a few documents and questions of the shipped sample, with a model of one's choice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from aeg.config.load import load_config
from aeg.corpus import CORPORA
from aeg.experiment.run import Outcome, run

PRICES = "{m: {prompt: 1.0, completion: 2.0}}"


def few(folder: Path, documents: int, questions: int) -> str:
    """Write the sample's first documents, and questions that they answer; return the corpus section."""
    corpus = CORPORA.make("sample").load(None)
    docs = corpus.documents[:documents]
    known = {doc.id for doc in docs}
    chosen = [q for q in corpus.queries if set(q.gold_doc_ids) & known][:questions]
    assert len(chosen) == questions
    records = {
        "documents": [{"id": d.id, "title": d.title, "text": " ".join(d.text.split()[:60])} for d in docs],
        "questions": [
            {
                "id": q.id,
                "question": q.question,
                "answer": q.answer,
                "type": q.type,
                "gold_doc_ids": sorted(set(q.gold_doc_ids) & known),
            }
            for q in chosen
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in records.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"{{name: jsonl, documents: '{folder}/documents.jsonl', questions: '{folder}/questions.jsonl'}}"


def endpoint(url: str, **fields: Any) -> str:
    """A backend section for a local server; it names no key."""
    more = "".join(f", {key}: {json.dumps(value)}" for key, value in fields.items())
    return f"{{name: openai, model: m, base_url: '{url}', api_key_env: AEG_TEST_NO_KEY, max_attempts: 1{more}}}"


def settings(folder: Path, corpus: str, model: str, *more: str) -> list[str]:
    """Overrides for a run in which a model does everything that one can do."""
    return [
        f"corpus={corpus}",
        f"artifacts_dir={folder / 'artifacts'}",
        f"run_dir={folder / 'runs'}",
        "device=cpu",
        "workers=1",
        f"llm={{extractor: {model}, reader: {model}, judge: {model}, prices: {PRICES}}}",
        "extraction={name: llm}",
        "query.decomposition={name: llm}",
        "query.mentions={name: llm}",
        "query.linking={name: embedding}",
        "retrieval.top_k=4",
        "sieve={name: llm}",
        "evidence.align=false",
        "answer={name: llm}",
        "evaluation.resamples=100",
        "evaluation.baselines=[dense_atoms, dense_passages]",
        *more,
    ]


def go(overrides: list[str], log: list[str] | None = None) -> Outcome:
    """Run with these overrides."""
    return run(load_config(None, overrides), (log if log is not None else []).append)


def answers(outcome: Outcome) -> list[dict[str, Any]]:
    return pq.read_table(outcome.folder / "answers.parquet").to_pylist()


def usage(outcome: Outcome, reused: bool = False) -> dict[str, dict[str, Any]]:
    """Modules of `usage.json` by name."""
    found = json.loads((outcome.folder / "usage.json").read_text())
    return {row["module"]: row for row in found["modules"] if row["reused"] == reused}


def content(outcome: Outcome) -> dict[str, bytes]:
    """What a run found, byte by byte; times left out."""
    names = ("metrics.json", "results.parquet", "answers.parquet")
    return {name: (outcome.folder / name).read_bytes() for name in names}

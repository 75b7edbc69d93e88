"""The answers of a run, question by question: what was kept, what was shown, what was said, how good it was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from aeg.core.records import Query
from aeg.experiment.scoring import Scored
from aeg.graph import AtomEntityGraph
from aeg.pipeline.generating import Generated


def answer_rows(
    part: str, graph: AtomEntityGraph, queries: Sequence[Query], generated: Generated, scored: Scored
) -> list[dict[str, Any]]:
    """Return one record a question for one ranking.

    Args:
        part: label of the corpus, empty where there is one only.
        graph: the graph whose rows the units name.
        queries: the questions.
        generated: what became of the ranking.
        scored: the measures of its answers.
    """
    ranking, ids = generated.ranking, graph.atoms.ids
    rows = []
    for at, query in enumerate(queries):
        sieved, evidence, answer = generated.sieved[at], generated.evidence[at], generated.answers[at]
        names = {candidate.row: candidate.atom_id for candidate in generated.candidates[at]}
        flags = {
            "sieve_fallback": sieved.fallback,
            "evidence_cut": evidence.cut,
            "no_evidence": answer.no_evidence,
            "abstained": answer.abstained,
            "failed": answer.failed,
            "judge_failed": scored.judged is not None and scored.judged[at]["failed"],
        }
        rows.append(
            {
                "part": part,
                "question_id": query.id,
                "type": query.type,
                "method": ranking.method,
                "seed": ranking.seed,
                "question": query.question,
                "unit": ranking.unit,
                "candidates": list(names.values()),
                "kept": [names[row] for row in sieved.kept],
                "units": [
                    {
                        "doc_id": unit.doc_id,
                        "start": unit.start,
                        "end": unit.end,
                        "text": unit.text,
                        "atoms": [ids[row] for row in unit.atoms],
                        "score": unit.score,
                        "tokens": unit.tokens,
                    }
                    for unit in evidence.units
                ],
                "answer": None if answer.failed else answer.text,
                "reference": query.answer,
                "cited": list(answer.cited),
                "reasoning": answer.reasoning,
                "failure": answer.failure,
                "flags": [name for name, flag in flags.items() if flag],
                "metrics": [(name, float(a[at])) for name, a in scored.values.items() if not np.isnan(a[at])],
                "judgement": None if scored.judged is None else json.dumps(scored.judged[at], ensure_ascii=False),
            }
        )
    return rows


def answer_schema() -> Any:
    """Return the Arrow schema of the records."""
    import pyarrow as pa

    texts = pa.list_(pa.string())
    unit = pa.struct(
        [
            *(("doc_id", pa.string()), ("start", pa.int64()), ("end", pa.int64()), ("text", pa.string())),
            *(("atoms", texts), ("score", pa.float64()), ("tokens", pa.int64())),
        ]
    )
    return pa.schema(
        [
            *((name, pa.string()) for name in ("part", "question_id", "type", "method")),
            ("seed", pa.int64()),
            *((name, pa.string()) for name in ("question", "unit")),
            *((name, texts) for name in ("candidates", "kept")),
            ("units", pa.list_(unit)),
            *((name, pa.string()) for name in ("answer", "reference")),
            ("cited", pa.list_(pa.int64())),
            *((name, pa.string()) for name in ("reasoning", "failure")),
            ("flags", texts),
            ("metrics", pa.map_(pa.string(), pa.float64())),
            ("judgement", pa.string()),
        ]
    )

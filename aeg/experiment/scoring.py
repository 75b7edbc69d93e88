"""The measures of answers, question by question: against references, and by a judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aeg.artifacts import fingerprint
from aeg.core.records import Query
from aeg.evaluation import accuracy as accuracy_module
from aeg.evaluation.accuracy import ACCURACY, CORRECTNESS, SIMILARITY, AccuracyMeasure, AccuracyScores
from aeg.evaluation.answers import answer_metrics, references_of
from aeg.evaluation.judgement import Judgement
from aeg.pipeline.asking import Pending
from aeg.pipeline.generating import Generated
from aeg.pipeline.keeping import keep
from aeg.pipeline.stages import Pipeline

ANSWER_METRICS = (ACCURACY, CORRECTNESS, SIMILARITY, "exact_match", "token_f1", "rouge_l")


@dataclass
class Scored:
    """The measures of one ranking's answers.

    Attributes:
        values: by measure, float64 [questions]; NaN where a question was skipped or failed.
        failed: by measure, whether a question failed: there is a reference, and no answer or no usable verdict.
        judged: what the judge said of each question, as plain values; None where there is no judge.
        notes: lines that belong under the table.
    """

    values: dict[str, np.ndarray] = field(default_factory=dict)
    failed: dict[str, np.ndarray] = field(default_factory=dict)
    judged: list[dict[str, Any]] | None = None
    notes: list[str] = field(default_factory=list)


def score(pipeline: Pipeline, queries: Sequence[Query], generated: Sequence[Generated]) -> list[Scored]:
    """Return the measures of each ranking's answers.

    Exact match, token F1 and ROUGE-L wherever there is a reference; answer accuracy where `llm.judge` is set.

    Raises:
        PendingBatch: if the judge's requests wait for an offline job: those of all rankings.
    """
    if pipeline.config.answer["name"] == "none":
        return [Scored() for _ in generated]
    found, pending = [], Pending()
    for one in generated:
        scored = Scored()
        answers = [None if item.failed else item.text for item in one.answers]
        references = [references_of(query) for query in queries]
        if any(references):
            plain = answer_metrics(answers, references)
            scored.values, scored.failed = dict(plain.values), dict(plain.failures())
        if "judge" in pipeline.methods.models:
            with pending.gathered():
                _judge(pipeline, queries, answers, scored)
        found.append(scored)
    pending.raise_any()
    return found


def _judge(pipeline: Pipeline, queries: Sequence[Query], answers: Sequence[str | None], scored: Scored) -> None:
    config, llm = pipeline.config.evaluation.accuracy, pipeline.askers.role("judge")
    measure = AccuracyMeasure(config, pipeline.judge.encode)
    inputs = {
        "llm": llm.identity(*measure.prompts),
        "questions": fingerprint([(query.id, query.question, query.answer) for query in queries]),
        "answers": fingerprint(list(answers)),
        "config": dataclasses.asdict(config),
        "encoder": pipeline.judge.fingerprint,
    }

    def make() -> tuple[list[dict[str, Any]], dict[str, int]]:
        scores = measure.score(queries, answers, llm=llm)
        return [_record(query, scores, row) for row, query in enumerate(queries)], scores.details

    kept = keep(pipeline, "verdicts", [], make, code=[accuracy_module], **inputs)
    scores = _scores(kept.records, config.note())
    scored.values |= scores.values
    scored.failed |= scores.failures()
    scored.judged = kept.records
    scored.notes.append(scores.note)
    for name, count in kept.counts.items():
        if count:
            pipeline.counts.setdefault("evaluation", {})[name] = count
    if config.repeat:

        def again() -> tuple[list[dict[str, Any]], dict[str, int]]:
            return [{"agreement": str(measure.agreement(queries, scores, llm=llm))}], {}

        repeated = keep(pipeline, "agreement", [], again, code=[accuracy_module], **inputs)
        scored.notes.append(repeated.records[0]["agreement"])


def _record(query: Query, scores: AccuracyScores, row: int) -> dict[str, Any]:
    said = scores.judgements[row]
    values = {name: None if np.isnan(array[row]) else float(array[row]) for name, array in scores.values.items()}
    return {
        "question": query.id,
        "values": values,
        "failed": bool(scores.failed[row]),
        "reason": scores.reasons.get(row, ""),
        "judgement": None if said is None else dataclasses.asdict(said),
    }


def _scores(records: Sequence[dict[str, Any]], note: str) -> AccuracyScores:
    names = (ACCURACY, CORRECTNESS, SIMILARITY)
    values = {name: np.array([r["values"][name] for r in records], dtype=np.float64) for name in names}
    said = [
        None if (j := r["judgement"]) is None else Judgement(**{k: _tuple(v) for k, v in j.items()}) for r in records
    ]
    failed = np.array([r["failed"] for r in records], dtype=bool)
    return AccuracyScores(values=values, failed=failed, judgements=tuple(said), note=note)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value

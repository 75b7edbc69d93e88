"""The measures of each ranking, question by question."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aeg.core.records import Query
from aeg.evaluation.evidence import EvidenceMeasure
from aeg.evaluation.ranking import ranking_metrics
from aeg.graph import AtomEntityGraph
from aeg.pipeline.ranking import Ranking
from aeg.pipeline.stages import Pipeline

Values = dict[str, np.ndarray]


def evaluate(
    pipeline: Pipeline,
    graph: AtomEntityGraph,
    documents: Sequence[str],
    queries: Sequence[Query],
    rankings: Sequence[Ranking],
) -> list[Values]:
    """Return for each ranking its measures, float64 [questions] by metric name; NaN where one does not apply.

    Passages are measured where questions have gold documents, evidence where they have gold statements; what
    could not be measured is counted in `pipeline.counts["evaluation"]`.
    """
    values: list[Values] = [{} for _ in rankings]
    counts = pipeline.counts.setdefault("evaluation", {})
    gold = [query.gold_doc_ids for query in queries]
    statements = [query.evidence for query in queries]
    counts["questions_without_gold_documents"] = sum(not ids for ids in gold)
    counts["questions_without_gold_statements"] = sum(not texts for texts in statements)
    if any(gold):
        for measured, ranking in zip(values, rankings, strict=True):
            ranked = [[documents[row] for row in rows if row >= 0] for rows in ranking.documents.tolist()]
            measured.update(_kept(ranking_metrics(ranked, gold, pipeline.config.evaluation.ks)))
    if any(statements):
        judge = pipeline.judge
        measure = EvidenceMeasure(
            [passage.text for passage in graph.passages],
            judge.encode,
            judge.token_spans,
            pipeline.config.evaluation.budgets,
            pipeline.config.evaluation.partial,
        )
        texts = {str(at): _texts(graph, ranking) for at, ranking in enumerate(rankings)}
        for at, scores in measure.score(statements, texts).items():
            values[int(at)].update(scores.metrics())
            counts["statements_skipped"] = scores.skipped
            largest = max(scores.unfilled)
            label = f"budget_{largest}_unfilled.{rankings[int(at)].method}"
            if scores.unfilled[largest]:
                counts[label] = scores.unfilled[largest]
    return values


def mean_over_seeds(rankings: Sequence[Ranking], values: Sequence[Values]) -> dict[str, Values]:
    """Return one set of values a method: a stochastic method's mean over its seeds of chance."""
    grouped: dict[str, list[Values]] = {}
    for ranking, measured in zip(rankings, values, strict=True):
        grouped.setdefault(ranking.method, []).append(measured)
    return {
        method: {metric: np.mean([run[metric] for run in runs], axis=0) for metric in runs[0]}
        for method, runs in grouped.items()
    }


def _kept(measures: dict[str, np.ndarray]) -> Values:
    """The measures that are reported: recall@k, nDCG@k and MRR over the whole ranking."""
    return {name: array for name, array in measures.items() if not name.startswith("mrr@")}


def _texts(graph: AtomEntityGraph, ranking: Ranking) -> list[list[str]]:
    source = graph.atoms.texts if ranking.unit == "atom" else [passage.text for passage in graph.passages]
    return [[source[row] for row in rows if row >= 0] for rows in ranking.units.tolist()]

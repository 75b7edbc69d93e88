"""Other systems' rankings, read from TREC run files, so that they enter the same tables."""

from __future__ import annotations

from pathlib import Path

import torch

from aeg.errors import DataError
from aeg.evaluation.trec import read_run
from aeg.pipeline.ranking import Ranking
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.seeding import Seeding
from aeg.pipeline.stages import Pipeline


def external(path: str, pipeline: Pipeline, retriever: Retriever, seeding: Seeding) -> Ranking:
    """Return the ranking in a TREC run file, under its tag.

    Its units are the passages of the ranked documents, in order. Questions that the run lacks rank nothing and
    are counted.

    Raises:
        DataError: if the file is malformed, or ranks a document that the corpus does not have.
    """
    run = read_run(_located(path, pipeline.root))
    settings = pipeline.config.retrieval
    row = {doc_id: at for at, doc_id in enumerate(retriever.documents.ids)}
    passages: dict[int, list[int]] = {}
    for at, passage in enumerate(retriever.graph.passages):
        passages.setdefault(row[passage.doc_id], []).append(at)
    questions = len(seeding.queries)
    documents, scores = (
        torch.full((questions, settings.passage_top_k), -1),
        torch.zeros(questions, settings.passage_top_k),
    )
    units, unit_scores = documents.clone(), scores.clone()
    missing = 0
    for at, query in enumerate(seeding.queries):
        ranked = run.rankings.get(query.id, [])[: settings.passage_top_k]
        missing += not ranked
        unknown = next((doc_id for doc_id, _ in ranked if doc_id not in row), None)
        if unknown is not None:
            raise DataError(
                f"{path}: document {unknown!r} is not in the corpus; use the ids of this corpus's documents"
            )
        spread = [(unit, score) for doc_id, score in ranked for unit in passages[row[doc_id]]]
        for place, (doc_id, score) in enumerate(ranked):
            documents[at, place], scores[at, place] = row[doc_id], score
        for place, (unit, score) in enumerate(spread[: settings.passage_top_k]):
            units[at, place], unit_scores[at, place] = unit, score
    pipeline.counts.setdefault("runs", {})[f"{run.method}.questions_missing"] = missing
    nothing = torch.zeros(questions, dtype=torch.int64)
    candidates = units[:, : settings.top_k], unit_scores[:, : settings.top_k]
    return Ranking(
        run.method, "passage", None, units, unit_scores, documents, scores, *candidates, nothing, nothing.double()
    )


def _located(path: str, root: Path | None) -> Path:
    given = Path(path).expanduser()
    return given if given.is_absolute() or given.exists() or root is None else root / given

"""Where the gold evidence of a question ended up: documents by id, statements by the atoms nearest to them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from aeg.evaluation.evidence import EvidenceMeasure
from aeg.explain.records import CoverRecord, DocumentRecord, StatementRecord
from aeg.explain.view import View, rank_of

_NEAREST = 100  # atoms compared with a statement, beside the ranked ones
_WHOLE = 1_000_000  # a budget that no atom fills


def documents(view: View, top: int) -> tuple[DocumentRecord, ...]:
    """Return the best documents of the ranking."""
    rows = [row for row in view.ranking.documents[0].tolist()[:top] if row >= 0]
    return _Documents(view).records(rows)


def gold_documents(view: View) -> tuple[DocumentRecord, ...]:
    """Return the gold documents of the question, in the benchmark's order; ids that the corpus lacks are left out."""
    row = {doc_id: at for at, doc_id in enumerate(view.subject.retriever.documents.ids)}
    return _Documents(view).records(row[doc_id] for doc_id in view.subject.query.gold_doc_ids if doc_id in row)


class _Documents:
    def __init__(self, view: View) -> None:
        retriever = view.subject.retriever
        self._view, self._ids = view, retriever.documents.ids
        atoms = view.scores[: view.num_atoms].to(retriever.operator.device)
        self._scores: Tensor = retriever.documents.scores(atoms).cpu().max(dim=1).values
        rows, scores = view.ranking.documents[0].tolist(), view.ranking.document_scores[0].tolist()
        pairs = enumerate(zip(rows, scores, strict=True), start=1)
        self._ranked = {row: (rank, score) for rank, (row, score) in pairs if row >= 0}

    def records(self, rows: Iterable[int]) -> tuple[DocumentRecord, ...]:
        return tuple(self._record(row) for row in rows)

    def _record(self, row: int) -> DocumentRecord:
        view, doc_id = self._view, self._ids[row]
        passages = [at for at, passage in enumerate(view.graph.passages) if passage.doc_id == doc_id]
        table = view.graph.atoms
        here = torch.isin(table.occurrence_passage, torch.tensor(passages, dtype=torch.int64))
        atoms = table.occurrence_atom[here].unique()
        rank, score = self._ranked.get(row, (None, None))
        ranked = sorted((view.ranked[atom][0], atom) for atom in atoms.tolist() if atom in view.ranked)
        return DocumentRecord(
            doc_id=doc_id,
            title=view.graph.passages[passages[0]].title,
            gold=doc_id in view.subject.query.gold_doc_ids,
            rank=rank,
            score=score,
            propagated_rank=rank_of(self._scores, row),
            propagated_score=float(self._scores[row]),
            mass=float(view.best[0][atoms].sum(dtype=torch.float64)),
            atoms=len(atoms),
            best_atom=ranked[0] if ranked else None,
        )


def statements(view: View) -> tuple[StatementRecord, ...]:
    """Return each gold statement with the atoms that cover it best, by the measures of the evaluation.

    Compared are the atoms nearest to the statement by embedding, and all that are ranked.
    """
    retriever, pipeline = view.subject.retriever, view.subject.retriever.pipeline
    texts = list(view.subject.query.evidence)
    judge = pipeline.judge
    measure = EvidenceMeasure(
        [passage.text for passage in view.graph.passages], judge.encode, judge.token_spans, (_WHOLE,)
    )
    k = min(_NEAREST, view.num_atoms)
    _, near = retriever.index.search(pipeline.encoder.encode(texts, kind="query"), k)
    found = []
    for text, rows in zip(texts, near.tolist(), strict=True):
        compared = sorted({row for row in rows if row >= 0} | set(view.ranked))
        scored = measure.score([[text]], {str(row): [[view.graph.atoms.texts[row]]] for row in compared})
        best = {}
        for name in ("coverage", "similarity"):
            values = {row: float(getattr(scored[str(row)], name)[_WHOLE][0]) for row in compared}
            usable = [row for row, value in values.items() if value == value]
            row = max(usable, key=lambda row: (values[row], -(view.propagated_rank(row) or 10**9)), default=None)
            best[name] = None if row is None else _cover(view, row, values[row])
        found.append(StatementRecord(text, best["coverage"], best["similarity"], len(compared)))
    return tuple(found)


def _cover(view: View, row: int, value: float) -> CoverRecord:
    rank, _ = view.ranked.get(row, (None, 0.0))
    return CoverRecord(row, value, rank, view.propagated_rank(row), float(view.best[0][row]))

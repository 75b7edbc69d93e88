"""From propagation scores to ranked atoms and documents, streamed tile by tile (paper, eq. 8 to 10)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from aeg.config.schema import RetrievalConfig
from aeg.core.kernels.threads import compiled_threads
from aeg.core.operator import Operator
from aeg.core.ranking import TopK
from aeg.core.records import Passage
from aeg.core.seeds import Seeds
from aeg.core.tables import AtomTable
from aeg.retrieval.diversity import diversified
from aeg.retrieval.incidence import Incidence
from aeg.retrieval.merge import merge_effective
from aeg.retrieval.mixing import Mixed

_TILE = 64
_POOL = 2  # atoms that diversity chooses from, for each that is kept


class Scorer(Protocol):
    """What retrieval needs of a propagation method: scores and info, tile by tile."""

    def tiles(self, op: Operator, seeds: Seeds, context: Any, rows: int | None) -> Iterator[tuple[int, Tensor, Any]]:
        """Yield (first query, scores [rows, columns] of the first nodes, info)."""


@dataclass(frozen=True, eq=False)
class Retrieved:
    """The ranked atoms and documents of each question, candidates of its effective queries united.

    Attributes:
        atoms, atom_scores: [questions, depth], rows of atoms; −1 and 0 where there are fewer.
        documents, document_scores: [questions, passage_top_k], rows of `DocumentMap.ids`; likewise.
        candidates, candidate_scores: [questions, width], the union of each effective query's `top_k` best atoms, each
            with its best score (eq. 9 and 10); likewise.
        infos: the method's info of each tile of effective queries, in order.
        seconds: wall time of propagation and ranking, all questions together.
    """

    atoms: Tensor
    atom_scores: Tensor
    documents: Tensor
    document_scores: Tensor
    candidates: Tensor
    candidate_scores: Tensor
    infos: list[Any]
    seconds: float


class DocumentMap:
    """Turns scores of atoms into scores of documents.

    A passage's score is the best or the sum of its atoms' scores (an atom counts once a passage), or that of the
    entity that it is about; a split document scores its best passage. Documents are ordered by id, which breaks ties.

    Args:
        atoms: of the graph.
        passages: of the graph.
        how: `max`, `sum` or `topic`.
        device: where scores are.
        topics: with `topic`, the row of each passage's entity, int64 [passages]; −1 where its best atom is to count.
    """

    def __init__(
        self,
        atoms: AtomTable,
        passages: Sequence[Passage],
        how: str,
        device: torch.device | str = "cpu",
        topics: Tensor | None = None,
    ) -> None:
        self.ids = sorted({passage.doc_id for passage in passages})
        row = {doc_id: at for at, doc_id in enumerate(self.ids)}
        document = torch.tensor([row[passage.doc_id] for passage in passages], dtype=torch.int64)
        self.of_passage = document
        pairs = torch.stack([atoms.occurrence_passage, atoms.occurrence_atom])
        self._of_atoms = Incidence(torch.stack([document[pairs[0]], pairs[1]]), len(self.ids), len(atoms), device)
        self._of_passages = Incidence(
            torch.stack([document, torch.arange(len(passages))]), len(self.ids), len(passages), device
        )
        whole = torch.equal(document, torch.arange(len(passages)))  # a passage is a document, in the same order
        self._split = None if whole else self._of_passages
        self._passages = Incidence(pairs, len(passages), len(atoms), device) if how == "sum" else None
        self._topics = (
            _Topics(topics, document, len(self.ids), device) if how == "topic" and topics is not None else None
        )

    @property
    def needs_entities(self) -> bool:
        """Whether `scores` wants the entities' scores after those of the atoms."""
        return self._topics is not None

    def scores(self, scores: Tensor, num_atoms: int | None = None) -> Tensor:
        """Return the documents' scores [documents, columns].

        Args:
            scores: of atoms, then where `needs_entities` of entities, [nodes, columns], not negative.
            num_atoms: how many of the rows are atoms; all where left out.
        """
        of_atoms = scores[:num_atoms]
        if self._passages is not None:
            passages = self._passages.total(of_atoms)
            return passages if self._split is None else self._split.largest(passages)
        best = self._of_atoms.largest(of_atoms)
        return best if self._topics is None else self._topics.scores(scores[num_atoms:], best)

    def from_atoms(self, rows: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k best documents of ranked atoms [queries, n] (row −1: none), each by its best atom."""
        return self._from(self._of_atoms, rows, scores, k)

    def from_passages(self, rows: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k best documents of ranked passages [queries, n] (row −1: none), each by its best passage."""
        return self._from(self._of_passages, rows, scores, k)

    def _from(self, members: Incidence, rows: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
        best = TopK(k)
        for some, values in zip(rows.split(_TILE), scores.split(_TILE), strict=True):
            spread = torch.zeros(members.columns + 1, len(some), device=members.device)
            index = some.T.to(spread.device).remainder(members.columns + 1)
            spread.scatter_(0, index, values.T.to(spread))
            best.add(members.largest(spread[: members.columns]))
        return best.result()


class _Topics:
    """The entities that documents are about."""

    def __init__(self, topics: Tensor, document: Tensor, documents: int, device: torch.device | str) -> None:
        known = topics >= 0
        self._entities, at = torch.unique(topics[known], return_inverse=True)
        pairs = torch.stack([document[known], at])
        self._of_topics = Incidence(pairs, documents, len(self._entities), device)
        self._without = torch.ones(documents, dtype=torch.bool).index_fill(0, document[known], False).to(device)
        self._entities = self._entities.to(device)

    def scores(self, entities: Tensor, otherwise: Tensor) -> Tensor:
        """Return the documents' scores by their topics', `otherwise` where a document has none."""
        found = self._of_topics.largest(entities[self._entities])
        return torch.where(self._without.unsqueeze(1), otherwise, found)


def retrieve(
    method: Scorer,
    op: Operator,
    seeds: Seeds,
    effective_to_query: Tensor,
    num_queries: int,
    documents: DocumentMap,
    num_atoms: int,
    config: RetrievalConfig,
    context: Any = None,
    mixed: Mixed | None = None,
    vectors: Tensor | None = None,
) -> Retrieved:
    """Return the ranked atoms and documents of each question.

    Scores of all effective queries are never held at once: each tile goes straight to its top k.

    Args:
        method: the propagation method.
        op: the operator.
        seeds: of the effective queries.
        effective_to_query: int64 [effective].
        num_queries: the number of questions.
        documents: what makes scores of documents.
        num_atoms: the first nodes are atoms.
        config: what is kept.
        context: for the method.
        mixed: mixes similarity and words into the scores; None leaves them as propagated.
        vectors: the atoms' embeddings, which `config.diversity` compares.

    Source:
        Paper, eq. 8 to 10.
    """
    started = time.perf_counter()
    pool = config.depth if not config.diversity else _POOL * config.depth
    best_atoms, best_documents = TopK(pool), TopK(config.passage_top_k)
    infos = []
    with compiled_threads():
        for start, scores, info in method.tiles(op, seeds, context, None if documents.needs_entities else num_atoms):
            of_atoms, of_documents = scores[:num_atoms], documents.scores(scores, num_atoms)
            if mixed is not None:
                of_atoms, of_documents = mixed.tile(start, of_atoms, of_documents)
            best_atoms.add(of_atoms)
            best_documents.add(of_documents)
            infos.append(info)
    ranked = best_atoms.result()
    if config.diversity and vectors is not None:
        ranked = diversified(*ranked, vectors, config.diversity, config.depth)
    atoms = merge_effective(*ranked, effective_to_query, num_queries, config.depth)
    found = merge_effective(*best_documents.result(), effective_to_query, num_queries, config.passage_top_k)
    candidates = united(*ranked, effective_to_query, num_queries, config.top_k)
    return Retrieved(*atoms, *found, *candidates, infos=infos, seconds=time.perf_counter() - started)


def united(rows: Tensor, scores: Tensor, effective_to_query: Tensor, num_queries: int, k: int) -> tuple[Tensor, Tensor]:
    """Return the candidates of each question: the union of the k best of its effective queries.

    Args:
        rows: int64 [effective, n], best first; −1 where there is none.
        scores: [effective, n].
        effective_to_query: int64 [effective].
        num_queries: the number of questions.
        k: candidates that an effective query brings.

    Source:
        Paper, eq. 9 and 10.

    Example:
        >>> rows, scores = torch.tensor([[4, 7, 1], [7, 2, 3]]), torch.tensor([[0.5, 0.25, 0.2], [0.75, 0.3, 0.1]])
        >>> united(rows, scores, torch.tensor([0, 0]), 1, 2)[0].tolist()
        [[7, 4, 2, -1]]
    """
    most = int(torch.bincount(effective_to_query, minlength=1).max())
    return merge_effective(rows[:, :k], scores[:, :k], effective_to_query, num_queries, max(k * most, 1))

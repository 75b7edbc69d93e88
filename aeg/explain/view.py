"""The scores of one question, before and after everything that is done to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from aeg.core.operator import Operator
from aeg.explain.records import Node, SourceRecord
from aeg.explain.subject import Subject
from aeg.graph import AtomEntityGraph
from aeg.pipeline.ranking import Ranking
from aeg.pipeline.seeding import Seeding
from aeg.propagation.base import Context
from aeg.query.seeds import SeedTrace


@dataclass(frozen=True, eq=False)
class View:
    """What a question's propagation gave, all on the CPU.

    Attributes:
        subject: the question.
        seeding: its effective queries with their links.
        trace: what the seeds are made of.
        ranking: what the sieve and the measures see.
        op: the operator.
        seeds: float32 [nodes, effective], columns of sum 1 (or 0).
        scores: float32 [nodes, effective], by propagation alone.
        iterations: int64 [effective].
        flags: bool [effective] by name.
    """

    subject: Subject
    seeding: Seeding
    trace: SeedTrace
    ranking: Ranking
    op: Operator
    seeds: Tensor
    scores: Tensor
    iterations: Tensor
    flags: Mapping[str, Tensor]

    @property
    def graph(self) -> AtomEntityGraph:
        """The graph."""
        return self.subject.retriever.graph

    @property
    def num_atoms(self) -> int:
        """Rows below this are atoms."""
        return len(self.graph.atoms)

    @cached_property
    def best(self) -> tuple[Tensor, Tensor]:
        """The best propagated score over the effective queries of each atom, and which query gave it."""
        values, which = self.scores[: self.num_atoms].max(dim=1)
        return values, which

    @cached_property
    def ranked(self) -> dict[int, tuple[int, float]]:
        """Rank from 1 and score of each atom in the ranking."""
        rows, scores = self.ranking.units[0].tolist(), self.ranking.unit_scores[0].tolist()
        pairs = zip(rows, scores, strict=True)
        return {row: (rank, score) for rank, (row, score) in enumerate(pairs, start=1) if row >= 0}

    def propagated_rank(self, atom: int) -> int | None:
        """Return the rank of an atom by propagated scores, equal ones by row; None where its score is 0."""
        return rank_of(self.best[0], atom)

    def sources(self, atom: int) -> tuple[SourceRecord, ...]:
        """Return where an atom stands."""
        table, found = self.graph.atoms, []
        for at in (table.occurrence_atom == atom).nonzero().squeeze(1).tolist():
            passage = self.graph.passages[int(table.occurrence_passage[at])]
            start, end = table.occurrence_span[at].tolist()
            found.append(SourceRecord(passage.doc_id, passage.title, passage.id, (start, end) if start >= 0 else None))
        return tuple(found)

    def node(self, row: int) -> Node:
        """Return what is told of a node."""
        if row < self.num_atoms:
            return Node(row, "atom", self.graph.atoms.texts[row], self.graph.atoms.ids[row])
        entity = row - self.num_atoms
        return Node(row, "entity", self.graph.entities.names[entity], self.graph.entities.keys[entity])


def propagated(subject: Subject, seeding: Seeding, ranking: Ranking) -> View:
    """Return the view of a question that was seeded and ranked."""
    retriever, item = subject.retriever, subject.item
    seeds, trace = retriever.seeds(seeding, item.seeds)
    method = retriever.settled(item, seeding)
    context = Context(
        seed=subject.seed or 0,
        operators=retriever.operators if "operators" in method.wants else {},
        features=retriever.features if "features" in method.wants else None,
        query_embeddings=seeding.embeddings,
    )
    scores, info = method(retriever.operator, seeds, context)
    pi = seeds.tile(0, seeds.num_queries).cpu()
    total = pi.sum(0)
    flags = {"not_converged": ~info.converged, **info.flags, **trace.flags}
    return View(
        subject,
        seeding,
        trace,
        ranking,
        retriever.operator.to("cpu"),
        pi / torch.where(total > 0, total, 1.0),
        scores.cpu(),
        info.iterations,
        {name: flag.cpu() for name, flag in flags.items()},
    )


def rank_of(scores: Tensor, row: int) -> int | None:
    """Return the rank, from 1, of a row by scores, equal ones by row; None where its score is 0.

    Example:
        >>> scores = torch.tensor([0.2, 0.5, 0.2, 0.0])
        >>> [rank_of(scores, row) for row in range(4)]
        [2, 1, 3, None]
    """
    own = scores[row]
    if own <= 0:
        return None
    return 1 + int((scores > own).sum()) + int((scores[:row] == own).sum())

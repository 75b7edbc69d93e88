"""One corpus of a run: the facts of every miss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from aeg.core.records import Query
from aeg.corpus.base import CorpusLoader
from aeg.errors import DataError
from aeg.evaluation.diagnosis import (
    Facts,
    Terrain,
    cause_of,
    distinct_rank,
    lift,
    rank_of,
    uncrowded_rank,
    walk_length,
)
from aeg.evaluation.reading import Reader
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.stages import Pipeline
from aeg.retrieval.search import DocumentMap
from experiments.diagnose.finished import FinishedRun
from experiments.diagnose.gold import Gold, Names, Passages, Statements, atoms_by_document
from experiments.diagnose.settings import Settings
from experiments.diagnose.walks import Walk, Walks


@dataclass(frozen=True)
class Miss:
    """One missed gold passage or statement.

    Attributes:
        part: label of the corpus.
        query: the question.
        gold: what was missed.
        facts: what decides the cause.
        cause: a key of `CAUSES`.
        mass: share of the walk's mass on its atoms.
        named: the entity of its own that the question names, where no linked entity lies on it.
        found_by: baselines that have it within k.
    """

    part: str
    query: Query
    gold: Gold
    facts: Facts
    cause: str
    mass: float
    named: str | None
    found_by: tuple[str, ...]


class Part:
    """The graph and questions of one corpus, rebuilt from artifacts.

    Attributes:
        golds: the gold of each question, in the order of `seeding.queries`.
        relinked: questions that are linked otherwise now than in the run.
    """

    def __init__(
        self, pipeline: Pipeline, label: str, loader: CorpusLoader, run: FinishedRun, settings: Settings, what: str
    ) -> None:
        corpus = pipeline.corpus(loader)
        self.graph, name = pipeline.graph(pipeline.passages(corpus))
        self.retriever = Retriever(pipeline, self.graph, name)
        self.seeding = self.retriever.seeding(corpus.queries)
        self.label, self.run, self.settings = label, run, settings
        self.item = next(item for item in pipeline.methods.propagation if item.label == run.method)
        missing = [query.id for query in corpus.queries if (label, query.id) not in run.ranked]
        if missing:
            raise DataError(f"{run.folder}: no results of question {missing[0]!r}; the data changed: run it again")
        self.records = [run.ranked[label, query.id] for query in corpus.queries]
        self.kind = self._kind(pipeline, corpus.queries, what)
        self.golds = [self.kind.of(query, record) for query, record in zip(corpus.queries, self.records, strict=True)]
        self.linked = [set[int]() for _ in corpus.queries]
        self.mentioned = [set[str]() for _ in corpus.queries]
        for item, links in zip(self.seeding.effective, self.seeding.links, strict=True):
            self.linked[item.query] |= {link.entity for link in links}
            self.mentioned[item.query] |= {link.mention for link in links}
        self.relinked = sum(
            {self.graph.entities.keys[row] for row in linked} != {key for e in r["effective"] for key in e["entities"]}
            for linked, r in zip(self.linked, self.records, strict=True)
        )
        self.documents = {doc_id: row for row, doc_id in enumerate(self.retriever.documents.ids)}
        self.row_of_atom = {name: row for row, name in enumerate(self.graph.atoms.ids)}
        self.atoms_of_document = atoms_by_document(self.graph)
        self.walks = Walks(self.retriever, self.seeding, self.item)

    def _kind(self, pipeline: Pipeline, queries: Any, what: str) -> Passages | Statements:
        passages = any(query.gold_doc_ids for query in queries)
        if what == "auto":
            what = Passages.what if passages else Statements.what
        if what == Passages.what:
            if not passages:
                raise DataError("the questions have no gold passages; diagnose --of statements")
            return Passages(self.graph, self.settings)
        if not any(query.evidence for query in queries):
            raise DataError("the questions have no gold statements; diagnose --of passages")
        return Statements(self.graph, self.settings, Reader(pipeline.judge.token_spans))

    def misses(self) -> Iterator[tuple[Miss, Walk]]:
        """Yield every miss with its question's walk, question by question."""
        operator, atoms = self.retriever.operator.to("cpu"), len(self.graph.atoms)
        self.terrain = Terrain(operator, atoms, self.settings.common)
        self._names = Names(self.graph, self.settings)
        self._everywhere = self.walks.everywhere()
        self._document_everywhere = self._document_scores(self._everywhere)
        self._best_atom, self._sum = (DocumentMap(self.graph.atoms, self.graph.passages, how) for how in ("max", "sum"))
        self._sizes = np.array([len(self.atoms_of_document.get(name, ())) or 1 for name in self.documents])
        self._of_atom: list[list[int]] = [[] for _ in range(atoms)]
        occurrences = self.graph.atoms
        pairs = zip(occurrences.occurrence_atom.tolist(), occurrences.occurrence_passage.tolist(), strict=True)
        for atom, passage in pairs:
            self._of_atom[atom].append(passage)
        self._document_vectors = self._vectors()
        for walk in self.walks:
            if not all(gold.found for gold in self.golds[walk.question]):
                for miss in self._of_question(walk):
                    yield miss, walk

    def _of_question(self, walk: Walk) -> Iterator[Miss]:
        at, atoms = walk.question, len(self.graph.atoms)
        query, golds = self.seeding.queries[at], self.golds[at]
        linked = {atoms + row for row in self.linked[at]}
        led = self.terrain.led(linked, [gold.atoms for gold in golds])
        starts = set(walk.seeds) | (set(range(atoms)) if walk.everywhere else set())
        distance = self.terrain.distances(starts)
        length = walk_length(distance, walk.mass, self.settings.faint)
        key = self.label, query.id
        for gold, reached in zip(golds, led, strict=True):
            if gold.found:
                continue
            on = self.terrain.entities(gold.atoms)
            own = {node - atoms for node in self.terrain.own(gold.atoms) - linked} if gold.atoms else set()
            name = None if on & linked else self._names.named(query.question, self.mentioned[at], own)
            steps = [int(distance[atom]) for atom in gold.atoms if distance[atom] >= 0]
            facts = Facts(
                gold.possible,
                bool(gold.atoms),
                len(linked),
                name is not None,
                reached,
                min(steps) if steps else None,
                length,
                gold.rank,
                *self._ranks(gold, walk, self.records[at]),
                gold.k,
            )
            found_by = [
                name
                for name, of in self.run.others.items()
                if self.kind.what == Passages.what and gold.name in of.get(key, [])[: gold.k]
            ]
            mass = float(walk.mass[list(gold.atoms)].sum())
            yield Miss(self.label, query, gold, facts, cause_of(facts), mass, name, tuple(found_by))

    def _ranks(self, gold: Gold, walk: Walk, record: dict[str, Any]) -> tuple[int, int, int]:
        """The ranks of a miss among distinct ones, uncrowded, and by lift; its own where there is none."""
        if not gold.atoms:
            return gold.rank, gold.rank, gold.rank
        if self.kind.what == Passages.what:
            return self._passage_ranks(gold, walk, record)
        lifted = lift(walk.best[: len(self.graph.atoms)], self._everywhere[: len(self.graph.atoms)])
        by_lift = min(rank_of(lifted, atom) for atom in gold.atoms)
        rows = [self.row_of_atom[name] for name in record["units"][: gold.rank]]
        if gold.rank > len(rows) or rows[-1] not in gold.atoms:
            return gold.rank, gold.rank, by_lift
        vectors = self.graph.atoms.embeddings
        assert vectors is not None
        distinct = distinct_rank(vectors[rows].double().numpy(), self.settings.near)
        return distinct, uncrowded_rank([self._of_atom[row] for row in rows], self.settings.crowd), by_lift

    def _passage_ranks(self, gold: Gold, walk: Walk, record: dict[str, Any]) -> tuple[int, int, int]:
        row = self.documents[gold.name]
        scores = torch.from_numpy(walk.best[: len(self.graph.atoms)]).float().unsqueeze(1)
        lifted = rank_of(lift(self._document_scores(walk.best), self._document_everywhere), row)
        uncrowded = gold.rank
        if self.retriever.config.retrieval.passage_score == "sum":
            sums, best = (of.scores(scores)[:, 0].double().numpy() for of in (self._sum, self._best_atom))
            uncrowded = min(rank_of(best, row), rank_of(sums / self._sizes, row))
        above = [self.documents[name] for name in record["documents"][: gold.rank - 1]]
        if gold.rank > len(record["documents"]):
            return gold.rank, uncrowded, lifted
        return distinct_rank(self._document_vectors[[*above, row]], self.settings.near), uncrowded, lifted

    def _document_scores(self, scores: np.ndarray) -> np.ndarray:
        of_atoms = torch.from_numpy(scores[: len(self.graph.atoms)]).float().unsqueeze(1)
        return self.retriever.documents.scores(of_atoms.to(self.retriever.operator.device))[:, 0].double().cpu().numpy()

    def _vectors(self) -> np.ndarray:
        """Unit means of the atoms' vectors, one a document."""
        atoms = self.graph.atoms
        assert atoms.embeddings is not None
        row = torch.tensor([self.documents[passage.doc_id] for passage in self.graph.passages], dtype=torch.int64)
        sums = torch.zeros(len(self.documents), atoms.embeddings.shape[1], dtype=torch.float64)
        sums.index_add_(0, row[atoms.occurrence_passage], atoms.embeddings[atoms.occurrence_atom].double())
        return torch.nn.functional.normalize(sums, dim=1).numpy()

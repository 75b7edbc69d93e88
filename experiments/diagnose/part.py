"""One corpus of a run: the facts of every miss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aeg.core.records import Query
from aeg.corpus.base import CorpusLoader
from aeg.errors import DataError
from aeg.evaluation.diagnosis import (
    Facts,
    Terrain,
    cause_of,
    walk_length,
)
from aeg.evaluation.reading import Reader
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.stages import Pipeline
from experiments.diagnose.finished import FinishedRun
from experiments.diagnose.gold import Gold, Names, Passages, Statements, atoms_by_document
from experiments.diagnose.otherwise import Otherwise, Ranks
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
        self._otherwise = Otherwise(self.retriever, self.seeding, self.walks.everywhere(), self.settings)
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
                *self._ranks(gold, walk),
                gold.k,
            )
            found_by = [
                name
                for name, of in self.run.others.items()
                if self.kind.what == Passages.what and gold.name in of.get(key, [])[: gold.k]
            ]
            mass = float(walk.mass[list(gold.atoms)].sum())
            yield Miss(self.label, query, gold, facts, cause_of(facts), mass, name, tuple(found_by))

    def _ranks(self, gold: Gold, walk: Walk) -> Ranks:
        if not gold.atoms:
            return gold.rank, gold.rank, gold.rank, gold.rank
        ranks = self._otherwise.passage if self.kind.what == Passages.what else self._otherwise.statement
        return ranks(gold, walk, self.records[walk.question])

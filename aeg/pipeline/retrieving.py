"""The stages from questions to rankings: linking, seeds, propagation, baselines."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from aeg.artifacts import code_hash, fingerprint
from aeg.config.schema import SeedsConfig
from aeg.core.operator import Operator
from aeg.core.progress import progress
from aeg.core.records import EffectiveQuery, Query
from aeg.core.seeds import Seeds
from aeg.errors import DataError
from aeg.graph import AtomEntityGraph, operator, typed_operators, weights
from aeg.pipeline.accounts import RETRIEVAL
from aeg.pipeline.keeping import spec
from aeg.pipeline.methods import LabelledMethod
from aeg.pipeline.ranking import Ranking, per_question
from aeg.pipeline.stages import Pipeline
from aeg.propagation.base import Context, Info
from aeg.query import seeds as query_seeds
from aeg.query.links import Links
from aeg.query.seeds import SeedTrace, build_seeds, query_keys
from aeg.retrieval import search as search_module
from aeg.retrieval.baselines import bm25, dense, searchable
from aeg.retrieval.merge import merge_effective
from aeg.retrieval.search import DocumentMap, retrieve, united


@dataclass(frozen=True, eq=False)
class Seeding:
    """The questions of a corpus, ready to be propagated.

    Attributes:
        queries: the questions, ordered by id.
        effective: their effective queries.
        of_query: int64 [effective], rows of `queries`.
        embeddings: [effective, d].
        links: linked entities of each effective query.
        seconds: wall time of embedding and linking.
        seeded: the seeds and what they are made of, by balance, as far as they were asked for.
    """

    queries: Sequence[Query]
    effective: Sequence[EffectiveQuery]
    of_query: Tensor
    embeddings: Tensor
    links: Links
    seconds: float
    seeded: dict[SeedsConfig, tuple[Seeds, SeedTrace]] = field(default_factory=dict)

    @cached_property
    def keys(self) -> Tensor:
        """A stable number of each effective query, int64 [effective]."""
        return query_keys(self.effective)

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of the questions, their effective queries and links, the same for every method."""
        return {
            "queries": fingerprint([(query.id, query.question) for query in self.queries]),
            "effective": fingerprint([dataclasses.astuple(query) for query in self.effective]),
            "links": self.links.digest(),
        }


class Retriever:
    """Ranks the atoms and documents of one graph for a list of questions."""

    def __init__(self, pipeline: Pipeline, graph: AtomEntityGraph, graph_fingerprint: str) -> None:
        self.pipeline, self.graph, self.graph_fingerprint = pipeline, graph, graph_fingerprint
        self.config = pipeline.config
        self.operator: Operator = operator(graph, self.config.operator).to(pipeline.device)
        how = self.config.retrieval.passage_score
        self.documents = DocumentMap(graph.atoms, graph.passages, how, pipeline.device)
        if graph.atoms.embeddings is None:
            raise DataError("the graph has no embeddings; build the index again with an encoder")
        self.index = pipeline.methods.index.build(graph.atoms.embeddings, pipeline.device)
        for note in self.index.notes:
            pipeline.report(f"atom index: {note}")

    @cached_property
    def operators(self) -> dict[str, Operator]:
        """One operator for each edge type, for methods that want them."""
        return {
            name: op.to(self.pipeline.device) for name, op in typed_operators(self.graph, self.config.operator).items()
        }

    @cached_property
    def features(self) -> Tensor | None:
        """Node features [nodes, d], atoms first, for methods that want them."""
        tables = [table.embeddings for table in (self.graph.atoms, self.graph.entities) if table.embeddings is not None]
        whole = torch.cat(tables) if tables else torch.zeros(0, 0)
        return whole.to(self.pipeline.device) if len(whole) == self.graph.num_nodes else None

    def seeding(self, queries: Sequence[Query]) -> Seeding:
        """Embed and link the questions, and seed them by the config's balance."""
        with self.pipeline.accounts.module(RETRIEVAL):
            return self._seeding(queries)

    def _seeding(self, queries: Sequence[Query]) -> Seeding:
        pipeline = self.pipeline
        effective = pipeline.effective(queries)
        started = time.perf_counter()
        embeddings = pipeline.encoder.encode([item.text for item in effective], kind="query")
        links = pipeline.methods.linking.link(effective, self.graph.entities, pipeline.encoder)
        of_query = torch.tensor([item.query for item in effective], dtype=torch.int64)
        seeding = Seeding(queries, effective, of_query, embeddings, links, time.perf_counter() - started)
        _, trace = self.seeds(seeding, self.config.query.seeds)
        counts = {name: int(flag.sum()) for name, flag in trace.flags.items()}
        pipeline.counts["seeds"] = {"effective_queries": len(effective), **counts}
        pipeline.report(
            f"seeds: {len(effective):,} effective queries, {len(links.entities):,} linked entities, "
            f"{int((links.sizes == 0).sum()):,} without a link"
        )
        return seeding

    def seeds(self, seeding: Seeding, config: SeedsConfig) -> tuple[Seeds, SeedTrace]:
        """Return the seeds by one balance, and what they are made of."""
        if config not in seeding.seeded:
            atoms, entities = self.graph.atoms, self.graph.entities
            seeding.seeded[config] = build_seeds(
                seeding.links, atoms, entities, seeding.embeddings, config, self.index, seeding.keys
            )
        return seeding.seeded[config]

    def rankings(self, seeding: Seeding) -> list[Ranking]:
        """Rank by every propagation method of the config, then by every baseline."""
        jobs = [
            (item, seed)
            for item in self.pipeline.methods.propagation
            for seed in (self.config.seeds if item.method.stochastic else [None])
        ]
        with self.pipeline.accounts.module(RETRIEVAL):
            found = [self.propagated(item, seeding, seed) for item, seed in progress(jobs, len(jobs), "propagation")]
            return found + [self.baseline(name, seeding) for name in self.config.evaluation.baselines]

    def propagated(self, item: LabelledMethod, seeding: Seeding, seed: int | None) -> Ranking:
        """Rank by one propagation method (cached)."""
        config = self.config
        artifact = self.pipeline.store.artifact(
            "ranking",
            graph=self.graph_fingerprint,
            **seeding.fingerprints,
            encoder=self.pipeline.encoder.fingerprint,
            seeds=dataclasses.asdict(item.seeds),
            operator=dataclasses.asdict(config.operator),
            retrieval=dataclasses.asdict(config.retrieval),
            device=self.pipeline.device.type,
            method=[item.name, spec(item.method), seed],
            code=code_hash(item.method, *_SCORING_CODE),
        )
        file = artifact.path / "ranking.safetensors"
        if artifact.complete:
            facts = artifact.facts()
            self.pipeline.accounts.reuse(RETRIEVAL, artifact.fingerprint, {"rows": []}, facts["seconds"])
            return Ranking.load(file, item.label, "atom", seed, **facts)
        ranking = self.rank(item, seeding, seed)
        ranking.save(file)
        self.pipeline.accounts.made(artifact.fingerprint)
        artifact.finish(seconds=ranking.seconds, engine=ranking.engine)
        return ranking

    def rank(self, item: LabelledMethod, seeding: Seeding, seed: int | None) -> Ranking:
        """Rank by one propagation method; nothing is read from or written to disk."""
        context = Context(
            seed=seed or 0,
            operators=self.operators if "operators" in item.method.wants else {},
            features=self.features if "features" in item.method.wants else None,
            query_embeddings=seeding.embeddings,
            ranked=self.config.retrieval.depth,
        )
        questions = len(seeding.queries)
        seeds, trace = self.seeds(seeding, item.seeds)
        found = retrieve(
            item.method,
            self.operator,
            seeds,
            seeding.of_query,
            questions,
            self.documents,
            len(self.graph.atoms),
            self.config.retrieval,
            context,
        )
        info = Info.join(found.infos)
        flags = {"not_converged": ~info.converged, **info.flags, **trace.flags}
        return Ranking(
            item.label,
            "atom",
            seed,
            found.atoms,
            found.atom_scores,
            found.documents,
            found.document_scores,
            found.candidates,
            found.candidate_scores,
            per_question(info.iterations, seeding.of_query, questions),
            per_question(info.residual, seeding.of_query, questions),
            {name: per_question(flag.cpu(), seeding.of_query, questions) for name, flag in flags.items()},
            found.seconds,
            info.engine,
        )

    def baseline(self, name: str, seeding: Seeding) -> Ranking:
        """Rank without the graph: nearest atoms, nearest passages, or BM25 over passages.

        Dense baselines take the effective queries and unite what they find (eq. 10); BM25 takes the question
        itself, as its scores of different texts do not compare.
        """
        retrieval, questions = self.config.retrieval, len(seeding.queries)
        passages = self.graph.passages
        if name == "dense_atoms":
            started = time.perf_counter()
            width = max(retrieval.depth, 2 * retrieval.passage_top_k)
            rows, scores = dense(seeding.embeddings, self.index.vectors, width, self.index)
            units = merge_effective(rows, scores, seeding.of_query, questions, retrieval.depth)
            documents = self.documents.from_atoms(rows, scores, retrieval.passage_top_k)
            documents = merge_effective(*documents, seeding.of_query, questions, retrieval.passage_top_k)
            candidates = united(rows, scores, seeding.of_query, questions, retrieval.top_k)
            return self._plain(name, "atom", units, documents, candidates, time.perf_counter() - started)
        texts = [searchable(passage) for passage in passages]
        if name == "dense_passages":
            vectors = self.pipeline.encoder.encode(texts)
            started = time.perf_counter()
            rows, scores = dense(seeding.embeddings, vectors, max(retrieval.passage_top_k, retrieval.top_k))
            candidates = united(rows, scores, seeding.of_query, questions, retrieval.top_k)
            rows, scores = merge_effective(rows, scores, seeding.of_query, questions, retrieval.passage_top_k)
        else:
            started = time.perf_counter()
            width = max(retrieval.passage_top_k, retrieval.top_k)
            rows, scores = bm25(texts, [query.question for query in seeding.queries], width)
            candidates = rows[:, : retrieval.top_k], scores[:, : retrieval.top_k]
        documents = self.documents.from_passages(rows, scores, retrieval.passage_top_k)
        return self._plain(name, "passage", (rows, scores), documents, candidates, time.perf_counter() - started)

    def _plain(
        self,
        name: str,
        unit: str,
        units: tuple[Tensor, Tensor],
        documents: tuple[Tensor, Tensor],
        candidates: tuple[Tensor, Tensor],
        seconds: float,
    ) -> Ranking:
        questions = len(units[0])
        return Ranking(
            name,
            unit,
            None,
            units[0].cpu(),
            units[1].cpu(),
            documents[0].cpu(),
            documents[1].cpu(),
            candidates[0].cpu(),
            candidates[1].cpu(),
            iterations=torch.zeros(questions, dtype=torch.int64),
            residual=torch.zeros(questions, dtype=torch.float64),
            seconds=seconds,
        )


_SCORING_CODE: tuple[Any, ...] = (query_seeds, search_module, weights)

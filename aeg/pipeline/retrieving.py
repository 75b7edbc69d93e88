"""The stages from questions to rankings: linking, seeds, propagation, baselines."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from aeg.artifacts import Artifact, code_hash
from aeg.backends.group import group
from aeg.config.schema import SeedsConfig
from aeg.core.bm25 import Bm25
from aeg.core.idf import Idf
from aeg.core.operator import Operator
from aeg.core.progress import progress
from aeg.core.records import Query
from aeg.core.seeds import Seeds
from aeg.errors import DataError
from aeg.graph import AtomEntityGraph, operator, typed_operators, weights
from aeg.graph import topics as graph_topics
from aeg.graph.topics import topics
from aeg.pipeline.accounts import RETRIEVAL
from aeg.pipeline.blocks import Block, blocks, joined
from aeg.pipeline.keeping import spec
from aeg.pipeline.memory import check_graph
from aeg.pipeline.methods import LabelledMethod
from aeg.pipeline.ranking import Ranking, per_question
from aeg.pipeline.ranking_job import RankingJob, RankingShare
from aeg.pipeline.seeding import Seeding
from aeg.pipeline.stages import Pipeline
from aeg.propagation.base import Context, Info, Propagation
from aeg.query import seeds as query_seeds
from aeg.query import trust as query_trust
from aeg.query.seeds import SeedTrace, build_seeds
from aeg.query.trust import trust
from aeg.retrieval import search as search_module
from aeg.retrieval.baselines import best_texts, bm25, dense, searchable
from aeg.retrieval.merge import merge_effective
from aeg.retrieval.mixing import Mixed, Mixing
from aeg.retrieval.search import DocumentMap, retrieve, united


class Retriever:
    """Ranks the atoms and documents of one graph for a list of questions."""

    def __init__(self, pipeline: Pipeline, graph: AtomEntityGraph, graph_fingerprint: str) -> None:
        self.pipeline, self.graph, self.graph_fingerprint = pipeline, graph, graph_fingerprint
        self.config = pipeline.config
        check_graph(graph, pipeline.device)
        self.operator: Operator = operator(graph, self.config.operator).to(pipeline.device)
        how = self.config.retrieval.passage_score
        about = topics(graph) if how == "topic" else None
        self.documents = DocumentMap(graph.atoms, graph.passages, how, pipeline.device, about)
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

    @cached_property
    def idf(self) -> Idf:
        """What each stemmed word tells, over the graph's passages."""
        return Idf.of(searchable(passage) for passage in self.graph.passages)

    @cached_property
    def atom_words(self) -> Bm25:
        """BM25 over the atoms."""
        return Bm25(self.graph.atoms.texts, device=self.pipeline.device)

    @cached_property
    def mixing(self) -> Mixing | None:
        """What mixes similarity and words into scores; None where the config leaves them out."""
        mix = self.config.retrieval.mix
        if mix is None:
            return None
        documents = self.documents
        graph, device = self.graph, self.pipeline.device
        return Mixing(mix, graph.atoms, graph.passages, documents.of_passage, len(documents.ids), device)

    def mixed(self, seeding: Seeding) -> Mixed | None:
        """Return what mixes the scores of these questions; None where the config leaves them as propagated."""
        if self.mixing is None or seeding.trust is None:
            return None
        return self.mixing.of([item.text for item in seeding.effective], seeding.embeddings, seeding.trust)

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
        trusted = trust(effective, links, self.idf) if self._needs_trust() else None
        seconds = time.perf_counter() - started
        seeding = Seeding(queries, effective, of_query, embeddings, links, seconds, trusted)
        _, trace = self.seeds(seeding, self.config.query.seeds)
        counts = {name: int(flag.sum()) for name, flag in trace.flags.items()}
        pipeline.counts["seeds"] = {"effective_queries": len(effective), **counts}
        pipeline.report(
            f"seeds: {len(effective):,} effective queries, {len(links.entities):,} linked entities, "
            f"{int((links.sizes == 0).sum()):,} without a link"
        )
        return seeding

    def _needs_trust(self) -> bool:
        balances = [self.config.query.seeds, *(item.seeds for item in self.pipeline.methods.propagation)]
        return self.mixing is not None or any(seeds.balance == "trust" for seeds in balances)

    def seeds(self, seeding: Seeding, config: SeedsConfig) -> tuple[Seeds, SeedTrace]:
        """Return the seeds by one balance, and what they are made of."""
        if config not in seeding.seeded:
            atoms, entities = self.graph.atoms, self.graph.entities
            words = None
            if config.lexical_share:
                texts = [item.text for item in seeding.effective]
                words = best_texts(self.atom_words, texts, config.atom_top_k or 1)
            seeding.seeded[config] = build_seeds(
                *(seeding.links, atoms, entities, seeding.embeddings, config, self.index, seeding.keys),
                trust=seeding.trust,
                words=words,
            )
        return seeding.seeded[config]

    def rankings(self, seeding: Seeding) -> list[Ranking]:
        """Rank by every propagation method of the config, block of questions by block, then by every baseline."""
        jobs, parts, team = self.jobs(seeding), self.blocks(seeding), group()
        with self.pipeline.accounts.module(RETRIEVAL):
            if team.size > 1 and len(parts) > 1:
                team.run(RankingShare.of(self, seeding), lambda: self._rank(jobs, parts, team.size))
                self.pipeline.advanced(len(seeding.queries), len(seeding.queries))
            else:
                self._rank(jobs, parts)
            found = [job.finished(parts) for job in jobs]
            return found + [self.baseline(name, seeding) for name in self.config.evaluation.baselines]

    def jobs(self, seeding: Seeding) -> list[RankingJob]:
        """Return a ranking to be made for every propagation method of the config, and every seed of a random one."""
        return [
            RankingJob(self, item, seeding, seed)
            for item in self.pipeline.methods.propagation
            for seed in (self.config.seeds if item.method.stochastic else [None])
        ]

    def _rank(self, jobs: list[RankingJob], blocks: list[Block], processes: int = 1) -> None:
        """Rank this process's blocks, the first of each round; tell how many questions all processes have ranked."""
        mine, done = blocks[::processes], set[Block]()
        for block in progress(mine, len(mine), "propagation", "block"):
            for job in jobs:
                job.rank(block)
            near = blocks[: block.index + processes * processes] if processes > 1 else [block]
            done |= {part for part in near if part not in done and all(job.has(part) for job in jobs)}
            self.pipeline.advanced(sum(part.last - part.first for part in done), blocks[-1].last)

    def blocks(self, seeding: Seeding) -> list[Block]:
        """Return the questions in blocks of the config's size."""
        return blocks(seeding.of_query, len(seeding.queries), self.config.retrieval.block)

    def artifact(self, item: LabelledMethod, seeding: Seeding, seed: int | None) -> Artifact:
        """Return the artifact of a propagation method's ranking."""
        config = self.config
        return self.pipeline.store.artifact(
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

    def rank(self, item: LabelledMethod, seeding: Seeding, seed: int | None) -> Ranking:
        """Rank by one propagation method; nothing is read from or written to disk."""
        method = self.settled(item, seeding)
        return joined([self.rank_block(item, method, seeding, seed, block) for block in self.blocks(seeding)])

    def settled(self, item: LabelledMethod, seeding: Seeding) -> Propagation:
        """Return a method as it runs for these questions, whatever blocks they come in."""
        rows = None if self.documents.needs_entities else len(self.graph.atoms)  # as `retrieve` asks for
        return item.method.settled(self.operator, self.seeds(seeding, item.seeds)[0], rows)

    def rank_block(
        self, item: LabelledMethod, method: Propagation, seeding: Seeding, seed: int | None, block: Block
    ) -> Ranking:
        """Rank one block of questions by one propagation method.

        Args:
            item: the config's entry.
            method: what `settled` gave for it.
            seeding: of all questions.
            seed: of chance; None for a deterministic method.
            block: which questions.
        """
        part = slice(block.start, block.stop)
        context = Context(
            seed=seed or 0,
            operators=self.operators if "operators" in method.wants else {},
            features=self.features if "features" in method.wants else None,
            query_embeddings=seeding.embeddings[part],
            ranked=self.config.retrieval.depth,
        )
        questions, of_query = block.last - block.first, seeding.of_query[part] - block.first
        seeds, trace = self.seeds(seeding, item.seeds)
        mixed = self.mixed(seeding)
        found = retrieve(
            method,
            self.operator,
            seeds.part(block.start, block.stop),
            of_query,
            questions,
            self.documents,
            len(self.graph.atoms),
            self.config.retrieval,
            context,
            None if mixed is None else mixed.part(block.start, block.stop),
            self.graph.atoms.embeddings,
        )
        info = Info.join(found.infos)
        flags = {"not_converged": ~info.converged, **info.flags}
        flags |= {name: flag[part] for name, flag in trace.flags.items()}
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
            per_question(info.iterations, of_query, questions),
            per_question(info.residual, of_query, questions),
            {name: per_question(flag.cpu(), of_query, questions) for name, flag in flags.items()},
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


_SCORING_CODE: tuple[Any, ...] = (query_seeds, query_trust, search_module, weights, graph_topics)

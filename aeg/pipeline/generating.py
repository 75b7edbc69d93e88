"""The stages from rankings to answers: sieve, evidence, answer (paper, section 3.4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from aeg import answer as answer_stage
from aeg import sieve as sieve_stage
from aeg.answer import Answered
from aeg.artifacts import fingerprint
from aeg.core.evidence import CitationUnit, Evidence
from aeg.pipeline.accounts import ANSWERS, SIEVE
from aeg.pipeline.asking import Pending
from aeg.pipeline.keeping import Kept, keep
from aeg.pipeline.ranking import Ranking
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.seeding import Seeding
from aeg.retrieval import evidence as evidence_module
from aeg.retrieval.baselines import searchable
from aeg.retrieval.evidence import EvidenceBuilder
from aeg.sieve import Candidate, Sieved, candidates


@dataclass(frozen=True, eq=False)
class Generated:
    """What became of one ranking, question by question.

    Attributes:
        ranking: what it began with.
        candidates: what went into the sieve.
        sieved: what it kept.
        evidence: the citation units that the reader was shown.
        answers: what the reader said.
        seconds: wall time of each stage when it was computed: `sieve`, `evidence`, `answer`.
    """

    ranking: Ranking
    candidates: Sequence[Sequence[Candidate]]
    sieved: Sequence[Sieved]
    evidence: Sequence[Evidence]
    answers: Sequence[Answered]
    seconds: dict[str, float]


class Generator:
    """Takes rankings through sieve, evidence and answer; each step is an artifact, keyed by the content before it."""

    def __init__(self, retriever: Retriever, seeding: Seeding) -> None:
        self.pipeline, self.graph, self.seeding = retriever.pipeline, retriever.graph, seeding
        self.graph_fingerprint = retriever.graph_fingerprint
        self._asked = fingerprint([(query.id, query.question) for query in seeding.queries])

    def generate(self, rankings: Sequence[Ranking]) -> list[Generated]:
        """Return what becomes of each ranking that the config wants answered.

        Raises:
            PendingBatch: if requests wait for an offline job: those of all rankings that can be asked by now.
        """
        chosen = [ranking for ranking in rankings if ranking.method in self.pipeline.methods.answered]
        found, pending = [], Pending()
        for ranking in chosen:
            with pending.gathered():
                found.append(self.one(ranking))
        pending.raise_any()
        return found

    def one(self, ranking: Ranking) -> Generated:
        """Return what becomes of a ranking."""
        accounts = self.pipeline.accounts
        offered = self.candidates(ranking)
        with accounts.module(SIEVE):
            sieved, seconds = self.sieved(ranking, offered)
        with accounts.module(ANSWERS):
            evidence, gathering = self.evidence(ranking, offered, sieved)
            answers, answering = self.answers(ranking, evidence)
        times = {"sieve": seconds, "evidence": gathering, "answer": answering}
        return Generated(ranking, offered, sieved, evidence, answers, times)

    def candidates(self, ranking: Ranking) -> list[list[Candidate]]:
        """Return each question's candidates, with their similarity to the original question where they are atoms."""
        rows, scores = ranking.candidates, ranking.candidate_scores
        if ranking.unit == "atom":
            first = torch.searchsorted(self.seeding.of_query, torch.arange(len(self.seeding.queries)))
            return candidates(rows, scores, self.graph.atoms, self.seeding.embeddings[first])
        passages = self.graph.passages
        return [
            [
                Candidate(row, passages[row].id, searchable(passages[row]), score)
                for row, score in zip(of_row, of_score, strict=True)
                if row >= 0
            ]
            for of_row, of_score in zip(rows.tolist(), scores.tolist(), strict=True)
        ]

    def sieved(self, ranking: Ranking, offered: Sequence[Sequence[Candidate]]) -> tuple[list[Sieved], float]:
        """Return what the sieve keeps of each question's candidates (cached), and the seconds that it took."""
        pipeline, method = self.pipeline, self.pipeline.methods.sieve

        def make() -> tuple[list[dict[str, Any]], dict[str, int]]:
            more = {"encoder": pipeline.encoder, "device": pipeline.device} | pipeline.askers.to(method)
            found = method.sieve(self.seeding.queries, offered, **more)
            named = [{candidate.row: candidate.atom_id for candidate in of} for of in offered]
            records = [
                {"question": query.id, **dataclasses.asdict(item), "kept": [names[row] for row in item.kept]}
                for query, item, names in zip(self.seeding.queries, found, named, strict=True)
            ]
            return records, sieve_stage.summary(found)

        kept = keep(
            pipeline,
            "sieve",
            [method],
            make,
            queries=self._asked,
            candidates=fingerprint([[(c.atom_id, c.score, c.similarity) for c in of] for of in offered]),
            texts=fingerprint([[c.text for c in of] for of in offered]) if ranking.unit == "passage" else "",
            encoder=pipeline.encoder.fingerprint,
            unit=ranking.unit,
        )
        self._count("sieve", ranking, kept)
        rows = [{candidate.atom_id: candidate.row for candidate in of} for of in offered]
        found = [
            Sieved(tuple(row[name] for name in r["kept"]), r["fallback"], r["failure"], r["counts"])
            for r, row in zip(kept.records, rows, strict=True)
        ]
        return found, kept.seconds

    def evidence(
        self, ranking: Ranking, offered: Sequence[Sequence[Candidate]], sieved: Sequence[Sieved]
    ) -> tuple[list[Evidence], float]:
        """Return the citation units of what was kept (cached), and the seconds that it took."""
        pipeline, graph = self.pipeline, self.graph
        score = [{candidate.row: candidate.score for candidate in of} for of in offered]
        rows = [list(item.kept) for item in sieved]
        values = [[of[row] for row in kept] for of, kept in zip(score, rows, strict=True)]

        def make() -> tuple[list[dict[str, Any]], dict[str, int]]:
            builder = EvidenceBuilder(graph.atoms, graph.passages, pipeline.config.evidence, pipeline.encoder)
            found = (builder.of_atoms if ranking.unit == "atom" else builder.of_passages)(rows, values)
            return [dataclasses.asdict(item) for item in found], builder.counts

        kept = keep(
            pipeline,
            "evidence",
            [],
            make,
            code=[evidence_module],
            graph=self.graph_fingerprint,
            unit=ranking.unit,
            kept=fingerprint([rows, values]),
            config=dataclasses.asdict(pipeline.config.evidence),
            encoder=pipeline.encoder.fingerprint,
        )
        self._count("evidence", ranking, kept)
        found = []
        for record in kept.records:
            units = [CitationUnit(**{**unit, "atoms": tuple(unit["atoms"])}) for unit in record["units"]]
            found.append(Evidence(**{**record, "units": tuple(units)}))
        return found, kept.seconds

    def answers(self, ranking: Ranking, evidence: Sequence[Evidence]) -> tuple[list[Answered], float]:
        """Return the answers (cached), and the seconds that they took."""
        pipeline, method = self.pipeline, self.pipeline.methods.answer

        def make() -> tuple[list[dict[str, Any]], dict[str, int]]:
            found = method.answer(self.seeding.queries, evidence, **pipeline.askers.to(method))
            records = [
                {"question": query.id, **dataclasses.asdict(item)}
                for query, item in zip(self.seeding.queries, found, strict=True)
            ]
            return records, answer_stage.summary(found)

        read = fingerprint([[unit.text for unit in item.units] for item in evidence])
        kept = keep(pipeline, "answer", [method], make, queries=self._asked, evidence=read)
        self._count("answer", ranking, kept)
        found = [
            Answered(**{**{k: v for k, v in r.items() if k != "question"}, "cited": tuple(r["cited"])})
            for r in kept.records
        ]
        return found, kept.seconds

    def _count(self, stage: str, ranking: Ranking, kept: Kept) -> None:
        name = ranking.method if ranking.seed is None else f"{ranking.method}, seed {ranking.seed}"
        self.pipeline.counts[f"{stage}: {name}"] = {key: n for key, n in sorted(kept.counts.items()) if n}

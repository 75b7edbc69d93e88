"""One corpus of a run, from its documents to the measures of each question."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aeg.artifacts import fingerprint
from aeg.core.records import Corpus, Query
from aeg.corpus.base import CorpusLoader
from aeg.errors import DataError
from aeg.experiment.answers import answer_rows
from aeg.experiment.evaluate import Values, evaluate, mean_over_seeds
from aeg.experiment.external import external
from aeg.experiment.results import ResultsWriter, result_rows
from aeg.experiment.scoring import Scored, score
from aeg.experiment.texts import text_rows
from aeg.graph import AtomEntityGraph, statistics
from aeg.pipeline.accounts import EVALUATION
from aeg.pipeline.asking import Pending
from aeg.pipeline.generating import Generated, Generator
from aeg.pipeline.ranking import Ranking
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.seeding import Seeding
from aeg.pipeline.stages import Pipeline


@dataclass
class Gathered:
    """What the parts of a run (one corpus each) add up to.

    Attributes:
        queries: the questions of all parts.
        parts: the part of each question.
        values: by method and metric, one array a part.
        failed: likewise, which questions failed.
        seconds: of retrieval, by method, all questions together.
        facts: for the manifest, by part.
        runs: rankings of documents, for TREC files.
        notes: lines under the tables.
    """

    queries: list[Query] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    values: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    failed: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, dict[str, list[tuple[str, float]]]] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def add(self, label: str, queries: Sequence[Query], values: dict[str, Values], failed: dict[str, Values]) -> None:
        """Append a part's measures; a metric that another part lacks has no value there."""
        before, now = len(self.queries), len(queries)
        self.queries.extend(queries)
        self.parts.extend([label] * now)
        for kept, new, nothing in ((self.values, values, np.nan), (self.failed, failed, False)):
            for method in {**kept, **new}:
                metrics, added = kept.setdefault(method, {}), new.get(method, {})
                for metric in {**metrics, **added}:
                    old = metrics.get(metric, np.full(before, nothing))
                    metrics[metric] = np.concatenate([old, added.get(metric, np.full(now, nothing))])


@dataclass(frozen=True)
class Writers:
    """The files that take records question by question."""

    results: ResultsWriter
    answers: ResultsWriter
    texts: ResultsWriter

    def close(self) -> None:
        """Finish the files."""
        self.results.close()
        self.answers.close()
        self.texts.close()


def run_part(pipeline: Pipeline, label: str, loader: CorpusLoader, gathered: Gathered, writers: Writers) -> None:
    """Run the experiment on one corpus.

    Raises:
        PendingBatch: if requests wait for an offline job: all that can be asked by now.
        DataError: if the corpus has no questions.
    """
    if label:
        pipeline.report(f"part {label}")
    pipeline.counts = {}
    corpus = pipeline.corpus(loader)
    if not corpus.queries:
        raise DataError("the corpus has no questions to evaluate; give some, or build an index with `aeg index`")
    graph, name = _graph(pipeline, corpus)
    retriever = Retriever(pipeline, graph, name)
    seeding = retriever.seeding(corpus.queries)
    rankings = retriever.rankings(seeding)
    rankings += [external(path, pipeline, retriever, seeding) for path in pipeline.config.evaluation.runs]
    pipeline.report(f"rankings: {len(rankings)} methods")
    generated = Generator(retriever, seeding).generate(rankings)
    if generated:
        pipeline.report(f"answers: {len(generated)} rankings sieved and answered")
    with pipeline.accounts.module(EVALUATION):
        values = evaluate(pipeline, graph, retriever.documents.ids, corpus.queries, rankings)
        scored = score(pipeline, corpus.queries, generated)
    _write_rows(label, retriever, seeding, rankings, values, writers.results)
    writers.texts.add(text_rows(label, graph, corpus.queries, rankings))
    failed: list[Values] = [{} for _ in rankings]
    for one, measured in zip(generated, scored, strict=True):
        at = next(at for at, ranking in enumerate(rankings) if ranking is one.ranking)
        values[at].update(measured.values)
        failed[at].update(measured.failed)
        gathered.notes.update(dict.fromkeys(measured.notes))
        writers.answers.add(answer_rows(label, graph, corpus.queries, one, measured))
    for ranking in rankings:
        key = ranking.method
        gathered.seconds[key] = gathered.seconds.get(key, 0.0) + ranking.seconds / _runs_of(rankings, key)
        _add_run(gathered, ranking, corpus.queries, retriever.documents.ids)
    lost = {method: {m: a > 0 for m, a in of.items()} for method, of in mean_over_seeds(rankings, failed).items()}
    gathered.add(label, corpus.queries, mean_over_seeds(rankings, values), lost)
    gathered.facts[label or "corpus"] = {
        "documents": len(corpus.documents),
        "passages": len(graph.passages),
        "questions": len(corpus.queries),
        "data": fingerprint([[doc.id, doc.title, doc.text] for doc in corpus.documents]),
        "asked": fingerprint([dataclasses.astuple(query) for query in corpus.queries]),
        "graph": dataclasses.asdict(statistics(graph)),
        "operator": {**retriever.operator.counts, "kernel": retriever.operator.kernel.name},
        "engines": {ranking.method: ranking.engine for ranking in rankings if ranking.engine},
        "counts": dict(pipeline.counts),
        "flags": {r.method: {name: int(flag.sum()) for name, flag in r.flags.items() if flag.any()} for r in rankings},
        "seconds_seeding": seeding.seconds,
        "seconds_answering": _times(generated),
        "answers": {_name(one.ranking): _tallies(measured) for one, measured in zip(generated, scored, strict=True)},
    }


def _graph(pipeline: Pipeline, corpus: Corpus) -> tuple[AtomEntityGraph, str]:
    """The graph; where it waits for an offline job, the questions are put to the model before that is told."""
    pending = Pending()
    with pending.gathered():
        return pipeline.graph(pipeline.passages(corpus))
    with pending.gathered():
        pipeline.effective(corpus.queries)
    pending.raise_any()
    raise AssertionError("raised above")


def _write_rows(
    label: str,
    retriever: Retriever,
    seeding: Seeding,
    rankings: Sequence[Ranking],
    values: Sequence[Values],
    results: ResultsWriter,
) -> None:
    balance = {item.label: item.seeds for item in retriever.pipeline.methods.propagation}
    for ranking, measured in zip(rankings, values, strict=True):
        own = balance.get(ranking.method)
        trace = None if own is None else retriever.seeds(seeding, own)[1]
        results.add(result_rows(label, retriever.graph, retriever.documents.ids, seeding, trace, ranking, measured))


def _times(generated: Sequence[Generated]) -> dict[str, dict[str, float]]:
    return {_name(one.ranking): one.seconds for one in generated}


def _tallies(scored: Scored) -> dict[str, dict[str, int]]:
    """Questions scored, skipped and failed by measure."""
    found = {}
    for name, values in scored.values.items():
        failed = int(scored.failed[name].sum())
        done = int((~np.isnan(values)).sum())
        found[name] = {"scored": done, "skipped": len(values) - done - failed, "failed": failed}
    return found


def _name(ranking: Ranking) -> str:
    return ranking.method if ranking.seed is None else f"{ranking.method}, seed {ranking.seed}"


def _runs_of(rankings: Sequence[Ranking], method: str) -> int:
    return sum(ranking.method == method for ranking in rankings)


def _add_run(gathered: Gathered, ranking: Ranking, queries: Sequence[Query], documents: Sequence[str]) -> None:
    """Keep the ranking for the TREC files; of a stochastic method the first seed's."""
    if not any(query.gold_doc_ids for query in queries):
        return
    run = gathered.runs.setdefault(ranking.method, {})
    for query, rows, scores in zip(queries, ranking.documents.tolist(), ranking.document_scores.tolist(), strict=True):
        ranked = [(documents[row], score) for row, score in zip(rows, scores, strict=True) if row >= 0]
        run.setdefault(query.id, ranked)

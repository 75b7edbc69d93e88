"""One experiment config, run end to end into a run folder."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aeg.artifacts import MANIFEST, fingerprint, write_text
from aeg.config.load import to_plain
from aeg.config.schema import ExperimentConfig
from aeg.core.records import Query
from aeg.corpus.base import CorpusLoader
from aeg.errors import DataError
from aeg.evaluation.aggregate import ALL, MACRO, MetricRow, aggregate
from aeg.evaluation.trec import write_qrels, write_run
from aeg.experiment.evaluate import Values, evaluate, mean_over_seeds
from aeg.experiment.external import external
from aeg.experiment.manifest import manifest
from aeg.experiment.plot import save_plot
from aeg.experiment.results import ResultsWriter, result_rows
from aeg.experiment.table import format_table
from aeg.graph import statistics
from aeg.pipeline.ranking import Ranking
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.stages import Pipeline, Report

_PLACES = ("run_dir", "artifacts_dir", "data_root", "device", "workers")


@dataclass(frozen=True)
class Outcome:
    """What a run gave: its folder, the metric rows, and the printed text."""

    folder: Path
    rows: list[MetricRow]
    text: str


@dataclass
class _Gathered:
    """What the parts of a run (one corpus each) add up to."""

    queries: list[Query] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    values: dict[str, dict[str, list[np.ndarray]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, dict[str, list[tuple[str, float]]]] = field(default_factory=dict)

    def add(self, method: str, values: Values) -> None:
        for metric, array in values.items():
            self.values.setdefault(method, {}).setdefault(metric, []).append(array)


def run(config: ExperimentConfig, report: Report) -> Outcome:
    """Run one experiment and write its run folder.

    The folder's name is the config's name with a fingerprint of the config (where things lie left out), so the
    same experiment writes the same folder. `manifest.json` is written last.

    Raises:
        AegError: whatever the config, the data or the machine lack.
    """
    started = time.perf_counter()
    pipeline = Pipeline(config, report)
    parts = pipeline.methods.corpus.parts(pipeline.root)
    gathered, folder = _Gathered(), run_folder(config)
    results = ResultsWriter(folder / "results.parquet")
    for label, loader in parts:
        _run_part(pipeline, label, loader, gathered, results)
    results.close()
    rows = _aggregate(config, gathered, len(parts) > 1)
    _write(folder, config, gathered, rows)
    text = summary(config, rows, _seconds_a_query(gathered))
    write_text(folder / "table.txt", text + "\n")
    facts = {
        "parts": gathered.facts,
        "questions": len(gathered.queries),
        "seconds": {"total": time.perf_counter() - started, "a_query": _seconds_a_query(gathered)},
    }
    content = manifest(pipeline, **facts)
    write_text(folder / MANIFEST, json.dumps(content, indent=1, sort_keys=True) + "\n")
    return Outcome(folder, rows, text)


def run_folder(config: ExperimentConfig) -> Path:
    """Return the run folder of a config."""
    plain = {key: value for key, value in to_plain(config).items() if key not in _PLACES}
    return Path(config.run_dir).expanduser() / f"{config.name}-{fingerprint(plain)[:8]}"


def summary(config: ExperimentConfig, rows: Sequence[MetricRow], seconds: Mapping[str, float]) -> str:
    """Return the run's table: the main metrics over all questions, and by question type where there are types."""
    metrics = [metric for metric in dict.fromkeys(row.metric for row in rows) if metric != "mrr"]
    passages = [m for m in metrics if m.startswith(("recall@", "ndcg@5"))]
    evidence = [m for m in metrics if m.startswith("evidence_")]
    count = max((row.n for row in rows if row.group == ALL), default=0)
    blocks = [f"{config.name}: n = {count:,} questions, percent ± half width of the 95 % bootstrap interval"]
    for columns in (passages, evidence):
        if columns:
            blocks.append(format_table(rows, seconds, columns, ALL))
    groups = [group for group in dict.fromkeys(row.group for row in rows) if group != ALL]
    main = next(iter([m for m in passages if m == "recall@5"] + passages + evidence), None)
    if groups and main:
        blocks.append(_by_group(rows, groups, main))
    return "\n\n".join(blocks)


def _by_group(rows: Sequence[MetricRow], groups: Sequence[str], metric: str) -> str:
    """Methods by question types for one metric."""
    counts = {row.group: row.n for row in rows if row.metric == metric}
    columns = {group: f"{group} (n={counts.get(group, 0)})" if group != MACRO else "mean of types" for group in groups}
    chosen = [row for row in rows if row.metric == metric and row.group in columns]
    methods = list(dict.fromkeys(row.method for row in chosen))
    value = {(row.method, row.group): f"{100 * row.value:.1f}" for row in chosen}
    width = max(len(method) for method in [*methods, metric])
    lines = ["  ".join([metric.ljust(width), *columns.values()])]
    for method in methods:
        cells = [value.get((method, group), "-").rjust(len(head)) for group, head in columns.items()]
        lines.append("  ".join([method.ljust(width), *cells]))
    return "\n".join(lines)


def _run_part(
    pipeline: Pipeline, label: str, loader: CorpusLoader, gathered: _Gathered, results: ResultsWriter
) -> None:
    if label:
        pipeline.report(f"part {label}")
    pipeline.counts = {}
    corpus = pipeline.corpus(loader)
    if not corpus.queries:
        raise DataError("the corpus has no questions to evaluate; give some, or build an index with `aeg index`")
    graph, name = pipeline.graph(pipeline.passages(corpus))
    retriever = Retriever(pipeline, graph, name)
    seeding = retriever.seeding(corpus.queries)
    rankings = retriever.rankings(seeding)
    rankings += [external(path, pipeline, retriever, seeding) for path in pipeline.config.evaluation.runs]
    pipeline.report(f"rankings: {len(rankings)} methods")
    documents = retriever.documents.ids
    values = evaluate(pipeline, graph, documents, corpus.queries, rankings)
    gathered.queries.extend(corpus.queries)
    gathered.parts.extend([label] * len(corpus.queries))
    balance = {item.label: item.seeds for item in pipeline.methods.propagation}
    for ranking, measured in zip(rankings, values, strict=True):
        own = balance.get(ranking.method)
        trace = None if own is None else retriever.seeds(seeding, own)[1]
        results.add(result_rows(label, graph, documents, seeding, trace, ranking, measured))
        key = ranking.method
        gathered.seconds[key] = gathered.seconds.get(key, 0.0) + ranking.seconds / _runs_of(rankings, key)
        _add_run(gathered, ranking, corpus.queries, documents)
    for method, measured in mean_over_seeds(rankings, values).items():
        gathered.add(method, measured)
    gathered.facts[label or "corpus"] = {
        "documents": len(corpus.documents),
        "passages": len(graph.passages),
        "questions": len(corpus.queries),
        "data": fingerprint([[doc.id, doc.title, doc.text] for doc in corpus.documents]),
        "graph": dataclasses.asdict(statistics(graph)),
        "operator": dict(retriever.operator.counts),
        "counts": dict(pipeline.counts),
        "flags": {r.method: {name: int(flag.sum()) for name, flag in r.flags.items() if flag.any()} for r in rankings},
        "seconds_seeding": seeding.seconds,
    }


def _runs_of(rankings: Sequence[Ranking], method: str) -> int:
    return sum(ranking.method == method for ranking in rankings)


def _add_run(gathered: _Gathered, ranking: Ranking, queries: Sequence[Query], documents: Sequence[str]) -> None:
    """Keep the ranking for the TREC files; of a stochastic method the first seed's."""
    if not any(query.gold_doc_ids for query in queries):
        return
    run = gathered.runs.setdefault(ranking.method, {})
    for query, rows, scores in zip(queries, ranking.documents.tolist(), ranking.document_scores.tolist(), strict=True):
        ranked = [(documents[row], score) for row, score in zip(rows, scores, strict=True) if row >= 0]
        run.setdefault(query.id, ranked)


def _aggregate(config: ExperimentConfig, gathered: _Gathered, several: bool) -> list[MetricRow]:
    types = [query.type for query in gathered.queries]
    settings = config.evaluation
    rows = []
    for method, by_metric in gathered.values.items():
        values = {metric: np.concatenate(arrays) for metric, arrays in by_metric.items()}
        parts = gathered.parts if several else None
        rows += aggregate(method, values, types, parts, settings.resamples, settings.bootstrap_seed)
    return rows


def _seconds_a_query(gathered: _Gathered) -> dict[str, float]:
    return {method: seconds / max(len(gathered.queries), 1) for method, seconds in gathered.seconds.items()}


def _write(folder: Path, config: ExperimentConfig, gathered: _Gathered, rows: Sequence[MetricRow]) -> None:
    records = [dataclasses.asdict(row) for row in rows]
    for record in records:
        record.pop("p_value")
    write_text(folder / "metrics.json", json.dumps(records, indent=1) + "\n")
    save_plot(rows, folder / "plot.png", config.name)
    if gathered.runs:
        trec = folder / "trec"
        trec.mkdir(exist_ok=True)
        gold = {q.id: dict.fromkeys(q.gold_doc_ids, 1) for q in gathered.queries if q.gold_doc_ids}
        write_qrels(trec / "qrels.txt", gold)
        for method, ranked in gathered.runs.items():
            write_run(trec / f"{method}.run", ranked, method)

"""`--estimate`: calls, tokens and cost of an experiment by module, before anything is spent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from aeg.config.schema import ExperimentConfig
from aeg.core.evidence import CitationUnit, Evidence
from aeg.core.records import Corpus, Passage
from aeg.core.text import sentences
from aeg.corpus.base import CorpusLoader
from aeg.evaluation.accuracy import AccuracyMeasure
from aeg.experiment.scoring import score
from aeg.experiment.table import aligned
from aeg.pipeline.accounts import ANSWERS, CONSTRUCTION, EVALUATION, SIEVE, ModuleUsage
from aeg.pipeline.estimating import ASSUMPTIONS, AT_MOST, Estimator
from aeg.pipeline.generating import Generator
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.stages import Pipeline, Report
from aeg.retrieval.baselines import searchable
from aeg.sieve import Candidate

_HEAD = ("module", "calls", "cached", "prompt", "completion", "tokens", "USD", "USD at most")


def estimate(config: ExperimentConfig, report: Report) -> str:
    """Return a table of what the experiment would ask, by module; no model is asked, no result is written.

    Where the graph is there already, the real candidates are taken; else sentences of the corpus stand in for them.

    Raises:
        AegError: whatever the config or the data lack.
    """
    pipeline = Pipeline(config, report, asker=Estimator)
    real = True
    for label, loader in pipeline.methods.corpus.parts(pipeline.root):
        if label:
            report(f"part {label}")
        real &= _part(pipeline, loader)
    pipeline.close()
    return _text(pipeline, real)


def _part(pipeline: Pipeline, loader: CorpusLoader) -> bool:
    corpus = pipeline.corpus(loader)
    passages = pipeline.passages(corpus)
    if pipeline.built(passages):
        graph, name = pipeline.graph(passages)
        retriever = Retriever(pipeline, graph, name)
        seeding = retriever.seeding(corpus.queries)
        generated = Generator(retriever, seeding).generate(retriever.rankings(seeding))
        with pipeline.accounts.module(EVALUATION):
            score(pipeline, corpus.queries, generated)
        return True
    if pipeline.methods.extraction.role:
        with pipeline.accounts.module(CONSTRUCTION):
            pipeline.extraction(passages)
    _stand_ins(pipeline, corpus, passages)
    return False


def _stand_ins(pipeline: Pipeline, corpus: Corpus, passages: Sequence[Passage]) -> None:
    """Put sentences of the corpus, or passages, through sieve, answer and judge for every ranking to be answered."""
    methods, config, askers = pipeline.methods, pipeline.config, pipeline.askers
    queries = corpus.queries
    effective = pipeline.effective(queries)
    width = [0] * len(queries)
    for item in effective:
        width[item.query] += config.retrieval.top_k
    texts = {"passage": [searchable(passage) for passage in passages]}
    texts["atom"] = [text for passage in passages for text in sentences(passage.text)] or texts["passage"]
    for offset, unit in enumerate(_units(pipeline)):
        pool = texts[unit]
        offered = [
            [_candidate((at + offset + 31 * row) % len(pool), pool) for at in range(min(count, len(pool)))]
            for row, count in enumerate(width)
        ]
        with pipeline.accounts.module(SIEVE):
            kept = [[candidate.row for candidate in of] for of in offered]
            if methods.sieve.role:
                kept = [list(item.kept) for item in methods.sieve.sieve(queries, offered, askers.of(methods.sieve))]
        with pipeline.accounts.module(ANSWERS):
            evidence = [_evidence([pool[row] for row in rows], config.evidence.max_tokens) for rows in kept]
            answers = methods.answer.answer(queries, evidence, **askers.to(methods.answer))
        if "judge" in methods.models:
            with pipeline.accounts.module(EVALUATION):
                measure = AccuracyMeasure(config.evaluation.accuracy, _alike)
                scores = measure.score(queries, [answer.text for answer in answers], llm=askers.role("judge"))
                if config.evaluation.accuracy.repeat:
                    measure.agreement(queries, scores, llm=askers.role("judge"))


def _units(pipeline: Pipeline) -> list[str]:
    """What each ranking to be answered consists of; a stochastic method ranks once for each seed."""
    methods, config = pipeline.methods, pipeline.config
    atoms = "passage" if config.graph.units == "passages" else "atom"
    found = []
    for label in methods.answered:
        item = next((item for item in methods.propagation if item.label == label), None)
        times = len(config.seeds) if item is not None and item.method.stochastic else 1
        found += [atoms if item is not None or label == "dense_atoms" else "passage"] * times
    return found


def _candidate(row: int, pool: Sequence[str]) -> Candidate:
    return Candidate(row, str(row), pool[row], 0.0, 0.0)


def _evidence(texts: Sequence[str], budget: int | None) -> Evidence:
    units: list[CitationUnit] = []
    used = 0
    for text in texts:
        used += len(text.encode()) // 4
        if budget is not None and used > budget and units:
            break
        units.append(CitationUnit("", None, None, text))
    return Evidence(tuple(units))


def _alike(texts: Sequence[str], **_: Any) -> torch.Tensor:
    return torch.ones(len(texts), 1)


def _text(pipeline: Pipeline, real: bool) -> str:
    rows = [row for row in pipeline.accounts.table() if not row.reused]
    lines = aligned([_HEAD, *(_cells(pipeline, row) for row in rows), _total(pipeline, rows)])
    candidates = "the graph that is there" if real else "sentences of the corpus in place of retrieved candidates"
    notes = [f"estimated from {candidates}", *ASSUMPTIONS]
    return "\n".join([f"{pipeline.config.name}: estimate; nothing was asked", *lines, *(f"- {note}" for note in notes)])


def _cells(pipeline: Pipeline, row: ModuleUsage) -> tuple[str, ...]:
    numbers = (row.calls, row.cache_hits, row.prompt_tokens, row.completion_tokens, row.tokens)
    if not row.calls and not row.cache_hits:
        return (row.module, *["-"] * (len(_HEAD) - 1))
    return (row.module, *(f"{number:,}" for number in numbers), _usd(row.cost), _usd(_at_most(pipeline, [row])))


def _total(pipeline: Pipeline, rows: Sequence[ModuleUsage]) -> tuple[str, ...]:
    names = ("calls", "cache_hits", "prompt_tokens", "completion_tokens", "tokens")
    costs = [row.cost for row in rows]
    cost = None if None in costs else sum(cost for cost in costs if cost is not None)
    sums = (f"{sum(getattr(row, name) for row in rows):,}" for name in names)
    return ("Total", *sums, _usd(cost), _usd(_at_most(pipeline, rows)))


def _at_most(pipeline: Pipeline, rows: Sequence[ModuleUsage]) -> float | None:
    """The cost where every reply is as long as it may be."""
    prices, total = pipeline.askers.ledger.prices, 0.0
    for task in (task for row in rows for task in row.tasks if task.calls):
        cost = prices.cost(task.model, task.prompt_tokens, task.counts.get(AT_MOST, 0))
        if cost is None:
            return None
        total += cost
    return total


def _usd(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:.4f}"

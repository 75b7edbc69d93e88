"""One experiment config, run end to end into a run folder."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aeg.artifacts import CLAIM, MANIFEST, fingerprint, write_text
from aeg.claims import Claim
from aeg.config.llm import ROLES
from aeg.config.load import to_plain
from aeg.config.schema import ExperimentConfig
from aeg.errors import ConfigError, DataError
from aeg.evaluation.aggregate import MetricRow, aggregate
from aeg.evaluation.trec import write_qrels, write_run
from aeg.experiment.answers import answer_schema
from aeg.experiment.manifest import manifest
from aeg.experiment.part import Gathered, Writers, run_part
from aeg.experiment.plot import save_plot
from aeg.experiment.results import ResultsWriter, result_schema
from aeg.experiment.state import Watch
from aeg.experiment.summary import summary
from aeg.experiment.texts import FILE as TEXTS
from aeg.experiment.texts import text_schema
from aeg.experiment.usage import usage_record, usage_table
from aeg.pipeline.asking import Pending
from aeg.pipeline.stages import Pipeline, Report
from aeg.tracking.tracker import Tracker, tracked

PLACES = ("run_dir", "artifacts_dir", "data_root", "device", "workers", "tracking")
_LLM_PLACES = ("base_url", "folder", "api_key_env", "device", "processes")


@dataclass(frozen=True)
class Outcome:
    """What a run gave: its folder, the metric rows, and the printed text."""

    folder: Path
    rows: list[MetricRow]
    text: str


def run(
    config: ExperimentConfig,
    report: Report,
    holdout: bool = False,
    claim: Claim | None = None,
    group: str | None = None,
) -> Outcome:
    """Run one experiment and write its run folder.

    The folder's name is the config's name with a fingerprint of the config (where things lie left out), so the
    same experiment writes the same folder. `manifest.json` is written last; `state.json` tells how far it is. Whoever
    runs the same experiment is waited for.

    Args:
        config: the experiment.
        report: called with a line a stage.
        holdout: the held-out half may be opened; the caller keeps the log of it.
        claim: the claim on the run folder, where the caller holds it already.
        group: name of what the run belongs to, a sweep, for its tracker.

    Raises:
        ConfigError: if `questions` is `odd` without `holdout`.
        PendingBatch: if requests of language models wait for an offline job; the same run goes on later.
        BudgetError: if the next request could exceed the budget; likewise.
        AegError: whatever the config, the data or the machine lack.
    """
    if config.questions == "odd" and not holdout:
        raise ConfigError(
            "questions: got 'odd', the held-out half, which counts its openings; develop with questions=even, and "
            "measure at the end with `python -m experiments.holdout CONFIG`"
        )
    pipeline = Pipeline(config, report)
    _ = pipeline.methods  # what is wrong with the config is told before anything is touched
    folder = run_folder(config)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made ({error.strerror}); set run_dir to a writable folder") from None
    with Claim(folder / CLAIM, report, f"run {folder.name}") if claim is None else nullcontext():
        watch = Watch(folder, report)
        pipeline.report = watch
        with watch.watched(), tracked(folder, config.tracking, to_plain(config), group, watch) as tracker:
            return _run(pipeline, folder, watch, tracker)


def _run(pipeline: Pipeline, folder: Path, watch: Watch, tracker: Tracker) -> Outcome:
    started, config = time.perf_counter(), pipeline.config
    parts = pipeline.methods.corpus.parts(pipeline.root)
    gathered, pending = Gathered(), Pending()
    results = ResultsWriter(folder / "results.parquet", result_schema())
    texts = ResultsWriter(folder / TEXTS, text_schema())
    writers = Writers(results, ResultsWriter(folder / "answers.parquet", answer_schema()), texts)
    try:
        for at, (label, loader) in enumerate(parts, start=1):
            pipeline.advanced = _told(watch.advanced(label, at, len(parts)), tracker.advanced)
            with pending.gathered():
                run_part(pipeline, label, loader, gathered, writers)
                tracker.part(len(gathered.queries), _means(gathered))
        pending.raise_any()
    finally:
        pipeline.close()
    writers.close()
    rows = _aggregate(config, gathered, len(parts) > 1)
    _write(folder, config, gathered, rows)
    table = pipeline.accounts.table()
    text = summary(config, rows, _seconds_a_query(gathered), list(gathered.notes))
    if pipeline.methods.models or pipeline.methods.answered:
        text += "\n\n" + usage_table(table, len(gathered.queries))
    write_text(folder / "table.txt", text + "\n")
    usage = usage_record(table, len(gathered.queries))
    write_text(folder / "usage.json", json.dumps(usage, indent=1) + "\n")
    facts = {
        "parts": gathered.facts,
        "questions": len(gathered.queries),
        "seconds": {"total": time.perf_counter() - started, "a_query": _seconds_a_query(gathered)},
        "usage": usage,
        "llm": {role: pipeline.askers.role(role).identity() for role in pipeline.methods.models},
        "prompts": pipeline.prompts(),
        "notes": list(gathered.notes),
    }
    content = manifest(pipeline, **facts)
    write_text(folder / MANIFEST, json.dumps(content, indent=1, sort_keys=True) + "\n")
    return Outcome(folder, rows, text)


def run_folder(config: ExperimentConfig) -> Path:
    """Return the run folder of a config."""
    plain = {key: value for key, value in to_plain(config).items() if key not in PLACES}
    plain["plugins"] = [Path(name).name if name.endswith(".py") else name for name in config.plugins]
    llm = {key: value for key, value in plain["llm"].items() if key not in ("prices", "max_cost_usd")}
    for role in ROLES:
        if llm[role] is not None:
            llm[role] = {key: value for key, value in llm[role].items() if key not in _LLM_PLACES}
    return Path(config.run_dir).expanduser() / f"{config.name}-{fingerprint({**plain, 'llm': llm})[:8]}"


def _aggregate(config: ExperimentConfig, gathered: Gathered, several: bool) -> list[MetricRow]:
    types = [query.type for query in gathered.queries]
    settings = config.evaluation
    parts = gathered.parts if several else None
    rows = []
    for method, values in gathered.values.items():
        failed = gathered.failed.get(method)
        rows += aggregate(method, values, types, parts, settings.resamples, settings.bootstrap_seed, failed=failed)
    return rows


def _told(*takers: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """What tells all of them how far a part is."""

    def take(done: int, total: int) -> None:
        for taker in takers:
            taker(done, total)

    return take


def _means(gathered: Gathered) -> dict[str, float]:
    """Means over the questions so far, by method and metric; those of nothing left out."""
    return {
        f"{method}/{metric}": float(np.nanmean(values))
        for method, metrics in gathered.values.items()
        for metric, values in metrics.items()
        if not np.isnan(values).all()
    }


def _seconds_a_query(gathered: Gathered) -> dict[str, float]:
    return {method: seconds / max(len(gathered.queries), 1) for method, seconds in gathered.seconds.items()}


def _write(folder: Path, config: ExperimentConfig, gathered: Gathered, rows: Sequence[MetricRow]) -> None:
    write_text(folder / "metrics.json", json.dumps([_metric(row) for row in rows], indent=1) + "\n")
    save_plot(rows, folder / "plot.png", config.name)
    if gathered.runs:
        trec = folder / "trec"
        trec.mkdir(exist_ok=True)
        gold = {q.id: dict.fromkeys(q.gold_doc_ids, 1) for q in gathered.queries if q.gold_doc_ids}
        write_qrels(trec / "qrels.txt", gold)
        for method, ranked in gathered.runs.items():
            write_run(trec / f"{method}.run", ranked, method)


def _metric(row: MetricRow) -> dict[str, Any]:
    record = dataclasses.asdict(row) | {"skipped": row.skipped}
    record.pop("p_value")
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in record.items()}

"""One experiment config, run end to end into a run folder."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aeg.artifacts import MANIFEST, fingerprint, write_text
from aeg.config.llm import ROLES
from aeg.config.load import to_plain
from aeg.config.schema import ExperimentConfig
from aeg.evaluation.aggregate import MetricRow, aggregate
from aeg.evaluation.trec import write_qrels, write_run
from aeg.experiment.answers import answer_schema
from aeg.experiment.manifest import manifest
from aeg.experiment.part import Gathered, Writers, run_part
from aeg.experiment.plot import save_plot
from aeg.experiment.results import ResultsWriter, result_schema
from aeg.experiment.summary import summary
from aeg.experiment.usage import usage_record, usage_table
from aeg.pipeline.asking import Pending
from aeg.pipeline.stages import Pipeline, Report

_PLACES = ("run_dir", "artifacts_dir", "data_root", "device", "workers")
_LLM_PLACES = ("base_url", "folder", "api_key_env", "device", "processes")


@dataclass(frozen=True)
class Outcome:
    """What a run gave: its folder, the metric rows, and the printed text."""

    folder: Path
    rows: list[MetricRow]
    text: str


def run(config: ExperimentConfig, report: Report) -> Outcome:
    """Run one experiment and write its run folder.

    The folder's name is the config's name with a fingerprint of the config (where things lie left out), so the
    same experiment writes the same folder. `manifest.json` is written last.

    Raises:
        PendingBatch: if requests of language models wait for an offline job; the same run goes on later.
        BudgetError: if the next request could exceed the budget; likewise.
        AegError: whatever the config, the data or the machine lack.
    """
    started = time.perf_counter()
    pipeline = Pipeline(config, report)
    parts = pipeline.methods.corpus.parts(pipeline.root)
    gathered, folder, pending = Gathered(), run_folder(config), Pending()
    results = ResultsWriter(folder / "results.parquet", result_schema())
    writers = Writers(results, ResultsWriter(folder / "answers.parquet", answer_schema()))
    try:
        for label, loader in parts:
            with pending.gathered():
                run_part(pipeline, label, loader, gathered, writers)
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
    plain = {key: value for key, value in to_plain(config).items() if key not in _PLACES}
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

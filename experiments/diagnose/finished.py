"""A finished run, read back: its config, and what a method ranked for each question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aeg.artifacts import MANIFEST, read_json
from aeg.config.load import restored
from aeg.config.schema import ExperimentConfig
from aeg.errors import ConfigError, DataError, nearest

_COLUMNS = ["part", "question_id", "method", "seed", "units", "documents", "effective"]


@dataclass(frozen=True)
class FinishedRun:
    """A run folder.

    Attributes:
        folder: the run's.
        config: the run's, resolved, with overrides of places.
        method: label of the method that is diagnosed.
        ranked: by part and question id, the record of `method`; of a stochastic method the first seed's.
        others: by baseline, part and question id, the documents that it ranked.
    """

    folder: Path
    config: ExperimentConfig
    method: str
    ranked: dict[tuple[str, str], dict[str, Any]]
    others: dict[str, dict[tuple[str, str], list[str]]] = field(default_factory=dict)


def read_run(folder: Path, method: str | None, overrides: Sequence[str] = ()) -> FinishedRun:
    """Return the run in `folder`.

    Args:
        folder: holds manifest.json and results.parquet.
        method: label of a propagation method; None takes the first of the config.
        overrides: of places where things lie, such as `artifacts_dir=...`.

    Raises:
        DataError: if the run is not finished, or is of the held-out half.
        ConfigError: if there is no such method, or it has no walk.
    """
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise DataError(f"{folder}: no {MANIFEST}; expected the folder of a finished run; run it again")
    config = restored(read_json(manifest)["config"], overrides)
    if config.questions == "odd":
        raise DataError(f"{folder}: a run of the held-out half; diagnosing it would be developing on it; use even")
    labels = [str(spec.get("label") or spec["name"]) for spec in config.propagation]
    chosen = method or next(iter(labels), "")
    if chosen not in labels:
        walks = nearest(chosen, labels)
        raise ConfigError(f"--method {chosen!r}: not a propagation method of this run. {walks}")
    return FinishedRun(folder, config, chosen, *_read_results(folder / "results.parquet", chosen, labels))


def _read_results(path: Path, method: str, labels: Sequence[str]) -> tuple[dict[Any, Any], dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path, columns=_COLUMNS).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be read ({error}); run it again") from None
    ranked: dict[tuple[str, str], dict[str, Any]] = {}
    others: dict[str, dict[tuple[str, str], list[str]]] = {}
    for row in rows:
        key = row["part"], row["question_id"]
        if row["method"] == method:
            ranked.setdefault(key, row)
        elif row["method"] not in labels:
            others.setdefault(row["method"], {})[key] = row["documents"]
    return ranked, others

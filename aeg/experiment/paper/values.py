"""Our values for a cell: of a run's questions, its graph, its usage."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aeg.artifacts import MANIFEST, read_json
from aeg.errors import DataError
from aeg.evaluation.aggregate import ALL, MACRO

FloatArray = npt.NDArray[np.float64]
NEIGHBOURHOOD = "neighbourhood.json"
_AVERAGES = ("average_degree", "average_clustering")


@dataclass(frozen=True, eq=False)
class Sample:
    """The values of a cell, question by question, or one number.

    Attributes:
        keys: what each value belongs to (part and question), in a fixed order.
        values: float64 [keys].
        strata: what the mean weighs alike, one tuple a value.
        number: the value, where it is not a mean over questions.
    """

    keys: tuple[tuple[str, ...], ...] = ()
    values: FloatArray = field(default_factory=lambda: np.zeros(0))
    strata: tuple[tuple[str, ...], ...] = ()
    number: float | None = None

    @classmethod
    def joined(cls, samples: Sequence[Sample]) -> Sample:
        """Return the unweighted mean of several samples as one."""
        keys = tuple((str(at), *key) for at, sample in enumerate(samples) for key in sample.keys)
        width = max((len(stratum) for sample in samples for stratum in sample.strata), default=0)
        strata = tuple(
            (str(at), *stratum, *("",) * (width - len(stratum)))
            for at, sample in enumerate(samples)
            for stratum in sample.strata
        )
        return cls(keys, np.concatenate([sample.values for sample in samples]), strata)


@dataclass(frozen=True, eq=False)
class RunFiles:
    """The files of a finished run, each read once."""

    folder: Path

    @property
    def finished(self) -> bool:
        """Whether the run is complete."""
        return (self.folder / MANIFEST).is_file()

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        """The manifest."""
        return read_json(self.folder / MANIFEST)

    @cached_property
    def usage(self) -> Mapping[str, Any]:
        """Time, tokens and cost by module."""
        return read_json(self.folder / "usage.json")

    @cached_property
    def questions(self) -> dict[str, dict[tuple[str, str], tuple[str, dict[str, float]]]]:
        """By method, by (part, question): its type, and its metrics, averaged over seeds of chance."""
        import pyarrow.parquet as pq

        found: dict[str, dict[tuple[str, str], tuple[str, dict[str, list[float]]]]] = {}
        for name in ("results.parquet", "answers.parquet"):
            file = self.folder / name
            if not file.is_file():
                continue
            rows = pq.read_table(file, columns=["part", "question_id", "type", "method", "metrics"]).to_pylist()
            for row in rows:
                of = found.setdefault(row["method"], {})
                _, metrics = of.setdefault((row["part"], row["question_id"]), (row["type"], {}))
                for metric, value in row["metrics"]:
                    metrics.setdefault(metric, []).append(value)
        return {
            method: {
                key: (kind, {metric: float(np.mean(values)) for metric, values in metrics.items()})
                for key, (kind, metrics) in sorted(of.items())
            }
            for method, of in found.items()
        }

    def sample(self, spec: Mapping[str, Any], metric: str, method: str | None) -> Sample | None:
        """Return the values of one cell; None where the run has none.

        Args:
            spec: the column's selector, the row's `module` and `method` merged in.
            metric: ours, for means over questions.
            method: the label of the ranking.

        Raises:
            DataError: if several methods fit and none is named.
        """
        if "group" in spec:
            return self._questions(spec.get("metric", metric), spec["group"], method)
        if "graph" in spec:
            return _number(self._graph(spec["graph"]))
        if "seconds" in spec:
            return _number(self._seconds(method))
        if "neighbourhood" in spec:
            return self._neighbourhood(spec["neighbourhood"])
        return _number(self._usage(spec))

    def _questions(self, metric: str, group: str, method: str | None) -> Sample | None:
        held = {name: of for name, of in self.questions.items() if any(metric in m for _, m in of.values())}
        if method is None and len(held) > 1:
            raise DataError(
                f"{self.folder}: {metric} of which of {', '.join(held)}? name it with `method` in `paper.find`"
            )
        chosen = held.get(method) if method is not None else next(iter(held.values()), None)
        if chosen is None:
            return None
        kept = [
            (part, question, kind, metrics[metric])
            for (part, question), (kind, metrics) in chosen.items()
            if metric in metrics and group in (ALL, MACRO, kind)
        ]
        if not kept:
            return None
        parts, questions, kinds, values = zip(*kept, strict=True)
        strata: list[tuple[str, ...]] = [() for _ in kept]
        if group == MACRO:
            strata = list(zip(kinds, parts, strict=True))
        elif group != ALL:
            strata = [(part,) for part in parts]
        return Sample(tuple(zip(parts, questions, strict=True)), np.array(values), tuple(strata))

    def _graph(self, name: str) -> float | None:
        parts = [part["graph"] for part in self.manifest["parts"].values()]
        if any(name not in part for part in parts):
            return None
        if name in _AVERAGES:  # of parts: as of one graph without edges between them
            return float(sum(part[name] * part["nodes"] for part in parts) / sum(part["nodes"] for part in parts))
        return float(sum(part[name] for part in parts))

    def _seconds(self, method: str | None) -> float | None:
        seconds = self.manifest["seconds"]["a_query"]
        if method is None and len(seconds) == 1:
            return float(next(iter(seconds.values())))
        return None if method not in seconds else float(seconds[method])

    def _usage(self, spec: Mapping[str, Any]) -> float | None:
        """Tokens, seconds or cost: what this run and those whose artifacts it found took, cached replies included."""
        side, _, name = str(spec["usage"]).rpartition(".")
        rows = list(self.usage["modules"])
        whole = [row for row in rows if row["module"] != "Evaluation"]
        if "module" in spec:
            modules = [spec["module"]] if isinstance(spec["module"], str) else spec["module"]
            rows = [row for row in rows if row["module"] in modules]
        elif side:
            rows = [self.usage["sides"][when][side] for when in ("now", "reused")]
        else:
            rows = whole
        value = _total(rows, name)
        if value is None:
            return None
        if spec.get("share"):
            total = _total(whole, name)
            return 100 * value / total if total else None
        if spec.get("per") == "question":
            value /= max(self.usage["questions"], 1)
        return value * float(spec.get("scale", 1.0))

    def _neighbourhood(self, criterion: str) -> Sample | None:
        file = self.folder / NEIGHBOURHOOD
        if not file.is_file():
            return None
        record = json.loads(file.read_text(encoding="utf-8"))
        kept = [(row["entity"], row["scores"][criterion]) for row in record["entities"] if row["scores"] is not None]
        values = np.array([value for _, value in kept], dtype=np.float64)
        return Sample(tuple((entity,) for entity, _ in kept), values, tuple(() for _ in kept)) if kept else None


def _number(value: float | None) -> Sample | None:
    return None if value is None else Sample(number=float(value))


def _total(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    names = {
        "prompt": ("prompt_tokens", "cached_prompt_tokens"),
        "completion": ("completion_tokens", "cached_completion_tokens"),
        "tokens": ("prompt_tokens", "cached_prompt_tokens", "completion_tokens", "cached_completion_tokens"),
    }.get(name, (name,))
    values = [row[key] for row in rows for key in names]
    return None if not values or any(value is None for value in values) else float(sum(values))

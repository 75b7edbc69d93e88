"""The questions whose measure changed most against the baseline, with their evidence before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aeg.evaluation.trec import read_qrels
from aeg.experiment.compare.reading import Key, Results, Source
from aeg.experiment.texts import QUESTION, read_texts

SHOWN = 5  # units of evidence
_TIE = 1e-9


@dataclass(frozen=True)
class Unit:
    """A ranked unit of evidence.

    Attributes:
        id: of the atom or passage.
        text: its text; empty where the run kept none.
        other: whether the other system has it among as many.
    """

    id: str
    text: str
    other: bool


@dataclass(frozen=True)
class Evidence:
    """What a system put first for a question.

    Attributes:
        value: of the metric.
        units: the first five.
        documents: the first five, as (id, whether it is gold).
    """

    value: float
    units: tuple[Unit, ...]
    documents: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Change:
    """One question under the baseline (`before`) and under another system (`after`)."""

    metric: str
    dataset: str
    system: str
    part: str
    question_id: str
    type: str
    question: str
    before: Evidence
    after: Evidence


def changes(results: Results, baseline: str, metric: str, most: int) -> list[Change]:
    """Return for each system and data set the questions that changed most, the largest change first."""
    found = []
    for dataset, questions in results.questions.items():
        base = results.values.get((baseline, dataset), {}).get(metric)
        for system in results.systems:
            values = results.values.get((system, dataset), {}).get(metric)
            if base is None or values is None or system == baseline or most < 1:
                continue
            d = np.nan_to_num(np.abs(values - base))
            order = [at for at in np.argsort(-d, kind="stable").tolist() if d[at] > _TIE][:most]
            keys = [questions[at] for at in order]
            told = [_evidence(results.sources[name, dataset], keys) for name in (baseline, system)]
            for at, key in zip(order, keys, strict=True):
                sides = [_side(of.get(key), value) for of, value in zip(told, (base[at], values[at]), strict=True)]
                before, after = _marked(*sides)
                text = next((of[key]["question"] for of in told if key in of), "")
                kind = results.types[dataset][at]
                found.append(Change(metric, dataset, system, key[0], key[1], kind, text, before, after))
    return found


def _evidence(sources: Sequence[Source], keys: Sequence[Key]) -> dict[Key, dict[str, Any]]:
    """The rankings of some questions by a system, with texts; of several seeds the first."""
    import pyarrow.parquet as pq

    if not sources or not keys:
        return {}
    source = sources[0]
    columns = ["part", "question_id", "unit", "units", "documents"]
    wanted = [("method", "==", source.method), ("question_id", "in", [key[1] for key in keys])]
    rows = pq.read_table(source.folder / "results.parquet", columns=columns, filters=wanted).to_pylist()
    texts, gold = read_texts(source.folder), _gold(source.folder)
    found: dict[Key, dict[str, Any]] = {}
    for row in rows:
        part, query = row["part"], row["question_id"]
        units = [(name, texts.get((part, row["unit"], name), "")) for name in row["units"][:SHOWN]]
        documents = tuple((doc, doc in gold.get(query, {})) for doc in row["documents"][:SHOWN])
        question = texts.get((part, QUESTION, query), "")
        found.setdefault((part, query), {"units": units, "documents": documents, "question": question})
    return found


def _gold(folder: Path) -> dict[str, dict[str, int]]:
    file = folder / "trec" / "qrels.txt"
    return read_qrels(file) if file.is_file() else {}


def _side(row: dict[str, Any] | None, value: float) -> Evidence:
    if row is None:  # a run file of another system has no evidence here
        return Evidence(float(value), (), ())
    return Evidence(float(value), tuple(Unit(name, text, False) for name, text in row["units"]), row["documents"])


def _marked(before: Evidence, after: Evidence) -> tuple[Evidence, Evidence]:
    """The same with the units marked that both have."""
    names = [{unit.id for unit in side.units} for side in (before, after)]
    sides = []
    for side, others in zip((before, after), reversed(names), strict=True):
        units = tuple(Unit(unit.id, unit.text, unit.id in others) for unit in side.units)
        sides.append(Evidence(side.value, units, side.documents))
    return sides[0], sides[1]

"""TREC runs of other systems, measured by the qrels of the runs that they are compared with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from aeg.errors import DataError, nearest
from aeg.evaluation.ranking import ranking_metrics
from aeg.evaluation.trec import read_qrels, read_run
from aeg.experiment.compare.reading import Results

_CUT = re.compile(r"(?:recall|ndcg)@(\d+)")


def add_run(results: Results, given: str) -> None:
    """Measure a TREC run and add it as a system.

    Its questions are found by id in the qrels of each data set. A question of the data set that the run lacks ranks
    nothing, scores 0, and is counted in a note.

    Args:
        results: what it is added to.
        given: `FILE`, `NAME=FILE` or `NAME=FILE@DATASET`; the name is the run's tag by default.

    Raises:
        DataError: if the file is malformed, the data set is unknown, or no data set, or more than one, has its
            questions.
    """
    name, file, dataset = _parsed(given, results)
    run = read_run(file)
    qrels = {data: found for data in results.questions if (found := qrels_of(results, data))}
    if dataset is None:
        fitting = [data for data, gold in qrels.items() if gold.keys() & run.rankings.keys()]
        if len(fitting) != 1:
            which = f"{' and '.join(fitting)} have" if fitting else "no data set has"
            raise DataError(
                f"{file}: {which} its questions; give the data set: NAME=FILE@DATASET ({', '.join(results.questions)})"
            )
        dataset = fitting[0]
    gold = qrels.get(dataset, {})
    if not gold:
        raise DataError(f"--trec {given}: the runs on {dataset} have no gold documents, so no run file can be measured")
    name = name or run.method
    if (name, dataset) in results.values:
        raise DataError(f"--trec {given}: there is a system {name!r} already; give another name: NAME={file}")
    ids = [key[1] for key in results.questions[dataset]]
    wanted = [{doc for doc, relevance in gold.get(query, {}).items() if relevance > 0} for query in ids]
    values = ranking_metrics(run.ranked(ids), wanted, _cuts(results))
    results.values[name, dataset] = {metric: array for metric, array in values.items() if metric in results.metrics}
    results.sources[name, dataset] = []
    if name not in results.systems:
        results.systems.append(name)
        results.axes[name] = {}
    missing = sum(query not in run.rankings for query, of in zip(ids, wanted, strict=True) if of)
    stray = len(run.rankings.keys() - set(ids))
    if missing or stray:
        results.notes.append(
            f"{name} on {dataset}: ranks nothing for {missing} of {sum(map(bool, wanted))} questions (scored 0); "
            f"{stray} of its questions are not in the data set"
        )


def qrels_of(results: Results, dataset: str) -> Mapping[str, Mapping[str, int]]:
    """Return the gold documents that the runs on a data set wrote; none where there are none."""
    for (_, data), sources in results.sources.items():
        for source in sources if data == dataset else ():
            if (file := source.folder / "trec" / "qrels.txt").is_file():
                return read_qrels(file)
    return {}


def _parsed(given: str, results: Results) -> tuple[str, Path, str | None]:
    name, sign, rest = given.partition("=")
    name, rest = (name, rest) if sign else ("", given)
    file, at, dataset = rest.rpartition("@")
    if not at or Path(rest).is_file():
        return name, Path(rest), None
    if dataset not in results.questions:
        raise DataError(f"--trec {given}: no data set is called {dataset!r}. {nearest(dataset, results.questions)}")
    return name, Path(file), dataset


def _cuts(results: Results) -> Sequence[int]:
    found = {int(match[1]) for metric in results.metrics if (match := _CUT.fullmatch(metric))}
    return sorted(found) or [10]

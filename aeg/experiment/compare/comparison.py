"""Systems by data sets against a baseline: differences, intervals, corrected p values, wins and losses."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aeg.errors import DataError, nearest
from aeg.evaluation.bootstrap import Interval, bootstrap_differences, bootstrap_means
from aeg.experiment.compare.changes import changes
from aeg.experiment.compare.external import add_run
from aeg.experiment.compare.reading import Results, read_results
from aeg.experiment.compare.rows import MACRO, Comparison, Row, TypeRow, Versus
from aeg.experiment.compare.statistics import FloatArray, detectable, holm, randomisation_p

_TIE = 1e-9
_MAIN = ("answer_accuracy", "recall@5", "evidence_coverage@512")
_FAMILIES = (("answer_",), ("recall@",), ("evidence_coverage@",))


def compare(
    folders: Sequence[Path],
    baseline: str | None = None,
    metrics: Sequence[str] = (),
    runs: Sequence[str] = (),
    resamples: int = 10_000,
    seed: int = 0,
    most: int = 3,
) -> Comparison:
    """Compare the systems in the folders of sweeps and runs with a baseline.

    Args:
        folders: of sweeps and runs.
        baseline: a system; by default the sweep's, else the first.
        metrics: by default the main one of each kind that was measured.
        runs: TREC run files, `NAME=FILE` or `NAME=FILE@DATASET`.
        resamples: of the bootstrap, and least number of sign flips.
        seed: of both.
        most: questions that changed most, shown a system and data set.

    Raises:
        DataError: if nothing is there to compare, or a system or metric is unknown.
    """
    results = read_results(folders)
    for run in runs:
        add_run(results, run)
    chosen = _metrics(results, metrics)
    base = _baseline(results, baseline)
    return _Comparer(results, base, chosen, resamples, seed).comparison(most)


def _metrics(results: Results, wanted: Sequence[str]) -> tuple[str, ...]:
    known = results.metrics
    for metric in wanted:
        if metric not in known:
            raise DataError(f"--metric {metric}: not measured. {nearest(metric, known)}")
    if wanted:
        return tuple(dict.fromkeys(wanted))
    main = [metric for metric in _MAIN if metric in known]
    if not main:
        main = [m for family in _FAMILIES for m in [k for k in known if k.startswith(family)][:1]] or known[:1]
    if not main:
        raise DataError("the runs measured nothing: their questions have neither gold documents nor statements")
    return tuple(main)


def _baseline(results: Results, wanted: str | None) -> str:
    name = wanted or results.baseline
    if name is None:
        results.notes.append(f"baseline: {results.systems[0]}, the first system (choose with --baseline)")
        return results.systems[0]
    if name not in results.systems:
        where = "--baseline" if wanted else "the sweep's baseline"
        raise DataError(f"{where} {name}: no system is called so. {nearest(name, results.systems)}")
    return name


@dataclass
class _Comparer:
    results: Results
    baseline: str
    metrics: tuple[str, ...]
    resamples: int
    seed: int

    def comparison(self, most: int) -> Comparison:
        datasets = list(self.results.questions)
        places = [*datasets, *([MACRO] if len(datasets) > 1 else [])]
        found = [row for metric in self.metrics for place in places for row in self._rows(metric, place)]
        pairs = [(row, weights) for row, weights in found if row.versus is not None]
        flips = max(self.resamples, 100 * len(pairs))
        differences = [self._differences(row.metric, row.dataset, row.system) for row, _ in pairs]
        p_values = randomisation_p(differences, [weights for _, weights in pairs], flips, self.seed)
        corrected = holm(p_values)
        tested = {id(row): at for at, (row, _) in enumerate(pairs)}
        rows = []
        for row, _ in found:
            if row.versus is not None:
                at = tested[id(row)]
                versus = dataclasses.replace(row.versus, p=p_values[at], corrected=corrected[at])
                row = dataclasses.replace(row, versus=versus)
            rows.append(row)
        changed = changes(self.results, self.baseline, self.metrics[0], most)
        return Comparison(
            self.baseline,
            self.metrics,
            tuple(places),
            tuple(self.results.systems),
            tuple(rows),
            tuple(row for metric in self.metrics for data in datasets for row in self._types(metric, data)),
            tuple(changed),
            self.results.axes,
            len(pairs),
            self.resamples,
            flips,
            tuple(self.results.notes),
        )

    def _values(self, metric: str, dataset: str, system: str) -> FloatArray | None:
        """The values of a system's questions; over all data sets for `macro`, if it has values on each."""
        if dataset != MACRO:
            values = self.results.values.get((system, dataset), {}).get(metric)
            return None if values is None or np.isnan(values).all() else values
        parts = [self._values(metric, data, system) for data in self._measured(metric)]
        there = [part for part in parts if part is not None]
        return np.concatenate(there) if len(there) == len(parts) > 1 else None

    def _measured(self, metric: str) -> list[str]:
        """The data sets on which the baseline was measured."""
        return [d for d in self.results.questions if self._values(metric, d, self.baseline) is not None]

    def _strata(self, metric: str, dataset: str) -> list[str]:
        data = self._measured(metric) if dataset == MACRO else [dataset]
        return [name for name in data for _ in self.results.questions[name]]

    def _differences(self, metric: str, dataset: str, system: str) -> FloatArray:
        ours, theirs = self._values(metric, dataset, system), self._values(metric, dataset, self.baseline)
        if ours is None or theirs is None:
            raise AssertionError("only pairs that share a question are tested")
        return ours - theirs

    def _rows(self, metric: str, dataset: str) -> list[tuple[Row, FloatArray]]:
        """The rows of one metric and data set, p values not yet in them, with the weights of the questions."""
        values = {s: v for s in self.results.systems if (v := self._values(metric, dataset, s)) is not None}
        if not values or (dataset == MACRO and len(self._measured(metric)) < 2):
            return []
        strata = self._strata(metric, dataset)
        means = bootstrap_means(list(values.values()), strata, self.resamples, self.seed)
        others = [s for s in values if s != self.baseline] if self.baseline in values else []
        others = [s for s in others if not np.isnan(values[s] - values[self.baseline]).all()]
        base = [values[self.baseline] for _ in others]
        differences = bootstrap_differences([values[s] for s in others], base, strata, self.resamples, self.seed)
        found = []
        for system, mean in zip(values, means, strict=True):
            versus, weights = None, np.zeros(0)
            if system in others:
                interval, d = differences[others.index(system)], values[system] - values[self.baseline]
                weights = _weights(d, strata)
                versus = _versus(interval, d, weights)
            row = Row(metric, dataset, system, mean.value, mean.low, mean.high, mean.n, versus)
            found.append((row, weights))
        return found

    def _types(self, metric: str, dataset: str) -> list[TypeRow]:
        types = np.array(self.results.types[dataset])
        base, found = self._values(metric, dataset, self.baseline), []
        for system in self.results.systems:
            values = self._values(metric, dataset, system)
            if base is None or values is None or system == self.baseline:
                continue
            for kind in sorted(set(self.results.types[dataset])):
                d = (values - base)[types == kind]
                d = d[~np.isnan(d)]
                if len(d):
                    row = TypeRow(metric, dataset, system, kind or "(no type)", len(d), float(d.mean()), *_won(d))
                    found.append(row)
        return found


def _versus(interval: Interval, differences: FloatArray, weights: FloatArray) -> Versus:
    """All but the p values, which are computed and corrected together."""
    wins, ties, losses = _won(differences)
    return Versus(
        value=interval.value,
        low=interval.low,
        high=interval.high,
        n=interval.n,
        excluded=interval.excluded,
        p=math.nan,
        corrected=math.nan,
        detectable=detectable(differences, weights),
        wins=wins,
        ties=ties,
        losses=losses,
    )


def _weights(differences: FloatArray, strata: Sequence[str]) -> FloatArray:
    """Each question's share in the mean: data sets weigh the same, and the questions of each."""
    there = ~np.isnan(differences)
    names = np.array(strata)
    weights = np.zeros(len(differences))
    kinds = sorted(set(names[there].tolist()))
    for name in kinds:
        members = there & (names == name)
        weights[members] = 1 / (len(kinds) * members.sum())
    return weights


def _won(differences: FloatArray) -> tuple[int, int, int]:
    """Wins, ties, losses."""
    wins, losses = int((differences > _TIE).sum()), int((differences < -_TIE).sum())
    return wins, int((~np.isnan(differences)).sum()) - wins - losses, losses

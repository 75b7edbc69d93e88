"""`methods`: the other propagation methods, each against its nearest equivalents elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from aeg.propagation import METHODS, Propagation, make
from aeg.propagation.linear import Linear
from experiments.bench import measure
from experiments.bench.contenders import TOLERANCES, ranked, scored
from experiments.bench.equivalents import EQUIVALENTS
from experiments.bench.graphs import LIMIT, REAL, RESTART, described, graph_of, sample_of
from experiments.bench.problem import Contender, Problem
from experiments.bench.race import Finish, fastest, race, standings, times_faster
from experiments.bench.seeds import KINDS
from experiments.bench.settings import Outcome, Settings, report

SCORED, RANKED = " folded, Seeds to scores", " folded, Seeds to top 25"
FOLDED = 128  # queries of a timed run to the scores of all nodes, which folded rows are not meant for
PAPER_SECONDS = {
    "ppr": 0.79,
    "rwr": 0.78,
    "power_iteration": 18.67,
    "katz": 20.28,
    "label_propagation": 1.38,
    "weighted_bfs": 13.37,
}
"""Seconds a question of the paper's Table 11, on its own machine, its retrieval and model calls included."""


def bench(settings: Settings, names: Sequence[str] = tuple(EQUIVALENTS)) -> Outcome:
    """Race each method, at its defaults, against its equivalents; the smaller ratio of both kinds of seeds counts.

    The L1 error is at most 1e-3 of what the scores sum to.
    """
    outcome = Outcome()
    bandwidth = measure.copy_bandwidth(16 if settings.quick else 256, device=settings.device)
    for shape in settings.shapes:
        if shape == REAL:
            continue
        graph = graph_of(shape, settings.quick)
        for kind in KINDS:
            seeds = KINDS[kind](graph, settings.queries)
            for name in names:
                title = f"{name}, {described(graph)}, {kind} seeds, {settings.queries:,} queries"
                report(title)
                problem = Problem(
                    *(graph, seeds, RESTART["dense"], LIMIT, sample_of(settings.queries, settings.quick), name),
                    device=settings.device,
                )
                # Katz scores sum to far less than 1: an L1 error counts by what they sum to.
                problem.target = LIMIT * min(1.0, float(problem.truth.sum(0).min()))
                ours = own(name)
                finishes = race(problem, settings.entered([*EQUIVALENTS[name], *ours]), settings.rounds)
                table = standings(title, finishes, bandwidth, base=ours[0].label)
                if name in PAPER_SECONDS:
                    table.notes.append(f"the paper's Table 11: {PAPER_SECONDS[name]} s a question")
                outcome.tables.append(table)
                peers = [label for label, one in finishes.items() if not one.contender.ours]
                limit = None if METHODS.get(name).stochastic else 2 * problem.target
                peer, best = fastest(finishes, peers, limit), best_of(finishes, limit)
                ratio = times_faster(finishes, best, peer) if peer else None
                if shape == "musique" and name != "power_iteration" and ratio is not None:
                    outcome.measured[name] = min(ratio, outcome.measured.get(name) or ratio)
    return outcome


def own(name: str) -> list[Contender]:
    """Return our contenders for a method: as anyone calls it and, where it is linear, folded as in `propagation`."""
    found = [Contender(f"aeg {name}", scored(method_of), None, ours=True)]
    if issubclass(METHODS.get(name), Linear):
        folded = partial(method_of, engine="folded")
        found.append(Contender(f"aeg {name}{SCORED}", scored(folded, affine=True), FOLDED, ours=True))
        found.append(Contender(f"aeg {name}{RANKED}", ranked(folded), None, ours=True))
    return found


def best_of(finishes: dict[str, Finish], limit: float | None) -> Finish | None:
    """Return the fastest of ours; the way of folded rows to the top 25 counts where its scores are within the limit."""
    ours = {label: one for label, one in finishes.items() if one.contender.ours}
    fit = {label for label, one in ours.items() if limit is None or (one.l1_max is not None and one.l1_max <= limit)}
    fit |= {label.replace(SCORED, RANKED) for label in fit}
    return min((ours[label] for label in sorted(fit & set(ours))), key=lambda one: one.timing.median, default=None)


def method_of(problem: Problem, engine: str = "iterate") -> Propagation:
    """Return the problem's method at its defaults, to the problem's restart and L1 error where it has such.

    Its tolerance is the largest that brings every sampled query to the target, as peers take the fewest steps.
    """
    kind = METHODS.get(problem.method)
    known = {field.name for field in dataclasses.fields(kind)}
    given: dict[str, Any] = {"restart": problem.restart, "engine": engine}
    given = {key: value for key, value in given.items() if key in known}
    if "tol" not in known or problem.method == "power_iteration":  # 20 steps, as the paper's
        return make(problem.method, **given)

    def scores(tol: float) -> np.ndarray:
        method = make(problem.method, **given, tol=tol)
        return method(problem.op, problem.head(problem.sample))[0].cpu().double().numpy()

    levels = [tol * problem.target / LIMIT for tol in (*TOLERANCES, *(tol / 10 for tol in TOLERANCES))]
    return make(problem.method, **given, tol=problem.fewest(scores, levels))

"""`methods`: the other propagation methods, each against its nearest equivalents elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from aeg.propagation import METHODS, Propagation, make
from experiments.bench import measure
from experiments.bench.contenders import scored
from experiments.bench.equivalents import EQUIVALENTS
from experiments.bench.graphs import LIMIT, REAL, RESTART, described, graph_of, sample_of
from experiments.bench.problem import Contender, Problem
from experiments.bench.race import fastest, race, standings, times_faster
from experiments.bench.seeds import KINDS
from experiments.bench.settings import Outcome, Settings, report

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
    """Race each method, at its defaults, against its equivalents; the smaller ratio of both kinds of seeds counts."""
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
                ours = Contender(f"aeg {name}", scored(lambda problem: method_of(problem)), None, ours=True)
                finishes = race(problem, [*EQUIVALENTS[name], ours], settings.rounds)
                table = standings(title, finishes, bandwidth, base=ours.label)
                if name in PAPER_SECONDS:
                    table.notes.append(f"the paper's Table 11: {PAPER_SECONDS[name]} s a question")
                outcome.tables.append(table)
                peers = [label for label in finishes if label != ours.label]
                peer = fastest(finishes, peers, None if METHODS.get(name).stochastic else 2 * LIMIT)
                ratio = times_faster(finishes, finishes[ours.label], peer) if peer else None
                if shape == "musique" and name != "power_iteration" and ratio is not None:
                    outcome.measured[name] = min(ratio, outcome.measured.get(name) or ratio)
    return outcome


def method_of(problem: Problem) -> Propagation:
    """Return the problem's method at its defaults, to the problem's restart and L1 error where it has such."""
    wanted = {"restart": problem.restart}
    if problem.method != "power_iteration":  # 20 steps, as the paper's
        wanted["tol"] = problem.target
    known = {field.name for field in dataclasses.fields(METHODS.get(problem.method))}
    return make(problem.method, **{key: value for key, value in wanted.items() if key in known})

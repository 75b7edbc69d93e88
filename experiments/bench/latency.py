"""`latency`: one query alone."""

from __future__ import annotations

from experiments.bench import measure
from experiments.bench.contenders import contenders
from experiments.bench.graphs import LIMIT, REAL, RESTART, described, graph_of, problem_of
from experiments.bench.peers import peers
from experiments.bench.race import fastest, race, standings, times_faster
from experiments.bench.settings import Outcome, Settings, report


def bench(settings: Settings) -> Outcome:
    """Time single queries: dense seeds at restart 0.3, sparse seeds at restart 0.1."""
    outcome = Outcome()
    bandwidth = measure.copy_bandwidth(16 if settings.quick else 256, device=settings.device)
    for name in settings.shapes:
        if name == REAL:
            continue
        graph = graph_of(name, settings.quick)
        for kind, restart in RESTART.items():
            title = f"{described(graph)}, {kind} seeds, restart {restart}, one query alone"
            report(title)
            finishes = race(
                problem_of(name, kind, 1, settings.quick, graph, settings.device),
                settings.entered([*peers(settings.quick), *contenders()]),
                3 * settings.rounds,
                1,
            )
            outcome.tables.append(standings(title, finishes, bandwidth))
            if name == "musique" and kind == "dense":
                ours = {label: one for label, one in finishes.items() if "seeds given" in label}
                outcome.measured["latency"] = times_faster(finishes, fastest(ours, ["aeg"], LIMIT))
    return outcome

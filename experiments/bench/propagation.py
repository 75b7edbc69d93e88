"""`propagation`: personalised PageRank in batches, every engine and peer on the same graphs and seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aeg.propagation import make, search
from experiments.bench import measure
from experiments.bench.contenders import CHEBYSHEV, POWER, TOP, contenders
from experiments.bench.graphs import LIMIT, REAL, RESTART, described, graph_of, problem_of
from experiments.bench.medical import Medical, medical
from experiments.bench.peers import peers
from experiments.bench.problem import Contender, Problem, Solver
from experiments.bench.race import Finish, fastest, race, standings, times_faster
from experiments.bench.settings import Outcome, Settings, report
from experiments.bench.shapes import Graph

EMBEDDED = "aeg ppr, embeddings to top 25"


def bench(settings: Settings) -> Outcome:
    """Race all contenders on each shape, with dense seeds at restart 0.3 and sparse seeds at restart 0.1."""
    outcome = Outcome()
    bandwidth = measure.copy_bandwidth(16 if settings.quick else 256, device=settings.device)
    for name in settings.shapes:
        if name == REAL:
            _medical(settings, bandwidth, outcome)
            continue
        graph = graph_of(name, settings.quick)
        for kind, restart in RESTART.items():
            title = f"{described(graph)}, {kind} seeds, restart {restart}, {settings.queries:,} queries"
            report(title)
            finishes = race(
                problem_of(name, kind, settings.queries, settings.quick, graph, settings.device),
                settings.entered([*peers(settings.quick), *contenders()]),
                settings.rounds,
            )
            report(standings(title, finishes, bandwidth).text())
            held = memory(name, kind, settings, finishes) if settings.memory else None
            outcome.tables.append(standings(title, finishes, bandwidth, held))
            if name == "musique":
                ratios(kind, finishes, outcome.measured)
    if settings.without:
        outcome.tables[-1].notes.append(f"left out: contenders with {', '.join(settings.without)} in their label")
    outcome.tables[-1].notes.append(f"copy bandwidth {bandwidth / 1e9:.1f} GB/s (read and written bytes)")
    return outcome


def ratios(kind: str, finishes: dict[str, Finish], measured: dict[str, float | None]) -> None:
    """Set what one race says on what must hold. Ours count only where no L1 error of the sample is above 1e-3."""
    walking = {label: one for label, one in finishes.items() if one.contender.ours and "seeds given" in label}
    special = {label: one for label, one in walking.items() if "folded" in label or "push" in label}
    walking = {label: one for label, one in walking.items() if label not in special}
    ours = fastest(walking, ["aeg"], LIMIT)
    measured[kind] = times_faster(finishes, ours)
    key = "folded" if kind == "dense" else "rows"
    measured[key] = times_faster(finishes, _fastest_special(finishes, special))
    for key, prefix in (("torch-ppr", "torch-ppr"), ("scikit", "scikit-network")):
        peer = fastest(finishes, [prefix], LIMIT)
        ratio = None if peer is None else times_faster(finishes, ours, peer)
        if ratio is not None:
            measured[key] = min(ratio, measured.get(key) or ratio)
    if kind == "sparse" and {CHEBYSHEV, POWER} <= set(finishes):
        measured["chebyshev"] = times_faster(finishes, finishes[CHEBYSHEV], finishes[POWER])


def _fastest_special(finishes: dict[str, Finish], special: dict[str, Finish]) -> Finish | None:
    """The fastest of the engines that fold or push, scores of all nodes or top 25 atoms, whose L1 error is within 1e-3.

    Folded rows are there to rank atoms from embeddings, so its way to the top 25 is its own; its error is that of
    its scores.
    """
    fit = {label: one for label, one in special.items() if one.l1_max is not None and one.l1_max <= LIMIT}
    twins = {label.replace("seeds given", "Seeds to top 25") for label in fit}
    return fastest(finishes, [*fit, *twins])


def memory(name: str, kind: str, settings: Settings, finishes: dict[str, Finish]) -> dict[str, tuple[int, int]]:
    """Return (peak, held before the run) of each contender, in bytes, each in a process of its own."""
    found = {}
    for label, one in finishes.items():
        if not one.contender.memory:
            continue
        report(f"  memory: {label}")
        plain = {"name": name, "kind": kind, "queries": settings.queries, "quick": settings.quick}
        found[label] = measure.peak_memory(
            "propagation:one_run", label=label, level=one.solver.level, count=one.queries, **plain
        )
    return found


def one_run(
    name: str, kind: str, queries: int, quick: bool, label: str, level: float | None, count: int
) -> Callable[[], object]:
    """Return one timed run of one contender, set up: what the child of `memory` does."""
    problem = problem_of(name, kind, queries, quick)
    problem.level = level
    solver = next(one for one in (*peers(), *contenders()) if one.label == label).prepare(problem)
    assert solver is not None
    return lambda: solver.run(count)


def _medical(settings: Settings, bandwidth: float, outcome: Outcome) -> None:
    """Medical's real graph: from the questions' embeddings to ranked atoms, the same seeds for all."""
    found = medical(min(settings.queries, 40) if settings.quick else None)
    graph = Graph(REAL, found.num_atoms, {}, found.retriever.operator)
    problem = Problem(graph, found.seeds(), RESTART["dense"], LIMIT, device=settings.device)
    title = f"{described(graph)}, the paper's seeds, restart {problem.restart}, {problem.seeds.num_queries:,} questions"
    report(title)
    entered = [*peers(settings.quick), *contenders()]
    if settings.device == "cpu":  # the retriever of the whole way is made on the CPU
        entered.append(Contender(EMBEDDED, lambda problem: _embedded(problem, found), None, ours=True))
    finishes = race(problem, settings.entered(entered), settings.rounds)
    table = standings(title, finishes, bandwidth)
    outcome.tables.append(table)
    if EMBEDDED in finishes:
        table.notes.append(
            f"{EMBEDDED}: entity search, similarities of all atoms, seeds, propagation and ranking together."
        )
        outcome.measured["medical"] = times_faster(finishes, finishes[EMBEDDED])


def _embedded(problem: Problem, found: Medical) -> Solver:
    """Set up the way from embeddings to the top 25 atoms; the run is all questions, however many are asked for."""
    method = make("ppr", restart=problem.restart, tol=problem.target)
    op, atoms = problem.graph.op, problem.graph.num_atoms

    def rows(queries: int) -> np.ndarray:
        return search(method, op, found.seeds(), TOP, atoms)[0][:queries].numpy()

    return Solver(rows, rows=rows)

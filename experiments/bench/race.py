"""One problem, all contenders: set up, checked against the truth, timed in turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.bench.measure import Timing, alternated, paired_ratio
from experiments.bench.output import Table
from experiments.bench.problem import Contender, Problem, Solver
from experiments.bench.reference import agreement, agreement_of_rows, l1
from experiments.bench.settings import report

BASE = "igraph PRPACK"


@dataclass(frozen=True)
class Finish:
    """What came of one contender.

    Attributes:
        queries: that one timed run solved.
        timing: seconds a query, round by round.
        l1_mean, l1_max: L1 error over the sample; None where only ranks come out.
        agreement: share of the true top 25 atoms.
        rate: non-zeros a second (products times non-zeros over the time of a query); None where unknown.
        setup: seconds of the set-up, the search for the fewest steps included.
    """

    contender: Contender
    solver: Solver
    queries: int
    timing: Timing
    l1_mean: float | None
    l1_max: float | None
    agreement: float
    rate: float | None
    setup: float


def race(
    problem: Problem, contenders: Sequence[Contender], rounds: int, queries: int | None = None
) -> dict[str, Finish]:
    """Set all contenders up, hold them against the truth, time them in turns; return what came of each, by label.

    Args:
        problem: what to solve.
        contenders: who solves it.
        rounds: timed runs of each.
        queries: queries a run, the same for all; None takes each contender's own number.
    """
    solvers: dict[str, tuple[Contender, Solver, int, float]] = {}
    _ = problem.truth
    for contender in contenders:
        if not contender.takes(problem):
            continue
        started = time.perf_counter()
        solver = contender.prepare(problem)
        if solver is None:
            continue
        count = queries or min(contender.queries or problem.seeds.num_queries, problem.seeds.num_queries)
        solvers[contender.label] = (contender, solver, count, time.perf_counter() - started)
        report(f"  set up: {contender.label} ({time.perf_counter() - started:.1f} s) {solver.note}")
    quality = {label: judged(problem, solver) for label, (_, solver, _, _) in solvers.items()}
    timings = alternated({label: (_run(solver, n), n) for label, (_, solver, n, _) in solvers.items()}, rounds)
    finishes = {}
    for label, (contender, solver, count, setup) in solvers.items():
        timing = timings[label]
        rate = None if solver.products is None else solver.products * problem.graph.nnz / timing.median
        finishes[label] = Finish(contender, solver, count, timing, *quality[label], rate, setup)
    return finishes


def judged(problem: Problem, solver: Solver) -> tuple[float | None, float | None, float]:
    """Return the mean and the largest L1 error over the sample, and the agreement of the top 25 atoms."""
    truth = problem.truth[: problem.graph.num_atoms]
    if solver.scores is None:
        assert solver.rows is not None
        return None, None, float(agreement_of_rows(solver.rows(problem.sample), truth).mean())
    scores = solver.scores(problem.sample)
    error = l1(scores, problem.truth)
    return float(error.mean()), float(error.max()), float(agreement(scores[: len(truth)], truth).mean())


def standings(
    title: str,
    finishes: dict[str, Finish],
    bandwidth: float,
    memory: dict[str, tuple[int, int]] | None = None,
    base: str = BASE,
) -> Table:
    """Return the table of one race.

    Args:
        title: of the table.
        finishes: by label.
        bandwidth: the machine's copy bandwidth, bytes a second. Its share counts the four bytes of a right-hand
            side that each non-zero gathers; caches serve many of them, so it may exceed 100 %.
        memory: (peak, held before the run) in bytes, by label.
        base: whose time the ratios compare with; a ratio is the median over the rounds.
    """
    heads = ["contender", "ms/query", "best", f"x {base}", "L1 mean", "L1 max", "top-25 %", "products", "Gnnz/s"]
    table = Table(title, [*heads, "copy bw %", "peak MB", "of it to run", "queries", "set-up s", "setting"])
    for label, one in finishes.items():
        ratio = paired_ratio(finishes[base].timing, one.timing) if base in finishes else None
        cells: list[Any] = [label, 1e3 * one.timing.median, 1e3 * one.timing.best, ratio, one.l1_mean, one.l1_max]
        cells += [100 * one.agreement, one.solver.products]
        cells += [None, None] if one.rate is None else [one.rate / 1e9, 100 * 4 * one.rate / bandwidth]
        peak, held = (memory or {}).get(label, (None, None))
        cells += [None, None] if peak is None or held is None else [peak / 2**20, (peak - held) / 2**20]
        table.rows.append([*cells, one.queries, one.setup, one.solver.note])
    return table


def fastest(finishes: dict[str, Finish], labels: Sequence[str], limit: float | None = None) -> Finish | None:
    """Return the fastest of those whose label begins with one of `labels` and whose L1 error is within the limit."""
    fit = [
        one
        for label, one in finishes.items()
        if label.startswith(tuple(labels)) and (limit is None or (one.l1_max is not None and one.l1_max <= limit))
    ]
    return min(fit, key=lambda one: one.timing.median, default=None)


def times_faster(finishes: dict[str, Finish], ours: Finish | None, peer: Finish | None = None) -> float | None:
    """Return how many times less than the peer (igraph where None) ours took; None where one of them is missing."""
    peer = peer or finishes.get(BASE)
    return None if ours is None or peer is None else paired_ratio(peer.timing, ours.timing)


def _run(solver: Solver, queries: int) -> Any:
    return lambda: solver.run(queries)

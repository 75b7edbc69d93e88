"""This framework's own contenders for personalised PageRank; another engine is another line in `contenders`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import torch

from aeg.core.kernels import Equation
from aeg.core.seeds import Seeds
from aeg.propagation import METHODS, Info, Propagation, make, search
from aeg.propagation.fitting import CPU_TILE, CUDA_TILE
from experiments.bench.problem import Contender, Problem, Solver, calibrated, tensor

TOP = 25
PUSHED = 16  # queries of a timed run by push, which nothing is shared in
GIVEN = "aeg ppr, seeds given"
SEARCH = "aeg ppr, Seeds to top 25"
POWER = "bare power iteration"
CHEBYSHEV = "bare Chebyshev"
TOLERANCES = tuple(factor * 1e-3 for factor in (16, 12, 8, 6, 4, 3, 2, 1.5, 1))
Make = Callable[[Problem], Propagation]


def contenders() -> list[Contender]:
    """Return our contenders: PPR as anyone calls it, with each engine that there is, and bare iterations."""
    found = [Contender(GIVEN, scored(_ppr), None, ours=True), Contender(SEARCH, ranked(_ppr), None, ours=True)]
    for engine in engines():
        # Push walks from each seed, so all atoms are no seeds for it.
        kinds = ("sparse",) if engine == "push" else ("dense", "sparse")
        of, count = _with(engine), PUSHED if engine == "push" else None
        given = scored(of, engine == "folded")
        found.append(Contender(f"aeg ppr {engine}, seeds given", given, count, ours=True, kinds=kinds))
        found.append(Contender(f"aeg ppr {engine}, Seeds to top 25", ranked(of), count, ours=True, kinds=kinds))
    found.append(Contender(CHEBYSHEV, bare(chebyshev=True), 128, ours=True, memory=False))
    return [*found, Contender(POWER, bare(chebyshev=False), 128, ours=True, memory=False)]


def engines() -> tuple[str, ...]:
    """Return the engines of PPR that can be asked for by name; none where it has no parameter `engine`."""
    for field in dataclasses.fields(METHODS.get("ppr")):
        if field.name == "engine":
            (allowed,) = field.metadata.values()
            return tuple(name for name in allowed.choices if name != "auto")
    return ()


def scored(method_of: Make, affine: bool = False) -> Callable[[Problem], Solver]:
    """Return the set-up of a method from seeds in hand, as peers have them, to the scores of all nodes, tile by tile.

    Args:
        method_of: gives the method.
        affine: hand the seeds over as `Seeds` all the same: an engine that folds the map of the embeddings needs
            them. Their similarities are then part of what is timed.
    """

    def prepare(problem: Problem) -> Solver:
        method, op = method_of(problem), problem.op
        given = None if affine or problem.seeds.dense is None else _dense(problem).to(op.device)

        def part(queries: int) -> torch.Tensor | Seeds:
            return problem.head(queries) if given is None else given[:, :queries]

        def run(queries: int) -> None:
            for _ in method.tiles(op, part(queries)):
                pass
            problem.wait()

        def scores(queries: int) -> np.ndarray:
            return method(op, part(queries))[0].cpu().double().numpy()

        _, info = method(op, part(problem.sample))
        return Solver(run, scores, products=_products(info), level=_tol(method), note=_note(method))

    return prepare


def ranked(method_of: Make) -> Callable[[Problem], Solver]:
    """Return the set-up of a method from `Seeds` (similarities of all atoms counted) to the top 25 atoms."""

    def prepare(problem: Problem) -> Solver:
        method, graph = method_of(problem), problem.graph

        def rows(queries: int) -> np.ndarray:
            return search(method, problem.op, problem.head(queries), TOP, graph.num_atoms)[0].numpy()

        _, _, info = search(method, problem.op, problem.head(problem.sample), TOP, graph.num_atoms)
        return Solver(rows, rows=rows, products=_products(info), level=_tol(method), note=_note(method))

    return prepare


def bare(chebyshev: bool) -> Callable[[Problem], Solver]:
    """Return the set-up of an iteration without a check, the fewest steps: power from r₀ = π, or Chebyshev from 0.

    Both do the engine's own fused step in its node order and tiles, for z = D⁻¹ r; power iteration
    r ← ρπ + (1 − ρ) Pᵀ r is the step with ω = 1.
    """

    def prepare(problem: Problem) -> Solver:
        op, order = problem.op.arranged.op, problem.op.arranged.position
        widest = CUDA_TILE if op.device.type == "cuda" else CPU_TILE
        width, c = min(widest, problem.seeds.num_queries), 1 - problem.restart
        seeds = tensor(problem.columns(min(8 * CPU_TILE, problem.seeds.num_queries))).to(op.device)
        if order is not None:
            seeds = torch.empty_like(seeds).index_copy_(0, order, seeds)
        degree = op.walk_degree
        tiles = [seeds[:, at : at + width] / degree.float().unsqueeze(1) for at in range(0, seeds.shape[1], width)]

        def iterates(queries: int, steps: int) -> list[torch.Tensor]:
            found = []
            for tile in tiles[: -(-queries // width)]:
                equation = Equation((1 / degree).float(), degree, problem.restart * tile, c)
                current, previous, omega = tile.clone(), torch.zeros_like(tile), 1.0
                if chebyshev:
                    current, omega = equation.b.clone(), 2.0 / (2.0 - c * c)
                for step in range(steps):
                    last = step == steps - 1
                    op.kernel.step(equation, current, previous, 1.0 if last else omega)
                    current, previous = previous, current
                    omega = 1.0 / (1.0 - c * c * omega / 4.0) if chebyshev else 1.0
                found.append(current)
            problem.wait()
            return found

        def solve(queries: int, steps: int) -> torch.Tensor:
            whole = torch.cat(iterates(queries, steps), dim=1) * degree.float().unsqueeze(1)
            whole = whole / whole.sum(0)
            return whole if order is None else whole[order]

        found = calibrated(problem, solve, range(1, 400), "steps")
        assert found.level is not None
        steps = int(found.level)
        return dataclasses.replace(found, run=lambda queries: iterates(queries, steps))

    return prepare


def _dense(problem: Problem) -> torch.Tensor:
    """The seeds as a tensor, columns of sum 1: what a peer would be handed."""
    queries = problem.seeds.num_queries
    out = torch.empty(problem.seeds.num_nodes, queries)
    for start in range(0, queries, 64):
        stop = min(start + 64, queries)
        part = problem.seeds.tile(start, stop)
        out[:, start:stop] = part / part.sum(0)
    return out


def _ppr(problem: Problem) -> Propagation:
    return _with("auto")(problem)


def _with(engine: str) -> Make:
    """PPR by an engine, at the largest tolerance that brings every sampled query to the target.

    Peers take the fewest steps that do so; a tolerance is a proven bound, of which the error is a fraction.
    """

    def of(problem: Problem) -> Propagation:
        def scores(tol: float) -> np.ndarray:
            method = make("ppr", restart=problem.restart, tol=tol, engine=engine)
            return method(problem.op, problem.head(problem.sample))[0].cpu().double().numpy()

        return make("ppr", restart=problem.restart, tol=problem.fewest(scores, TOLERANCES), engine=engine)

    return of


def _tol(method: Propagation) -> float | None:
    return getattr(method, "tol", None)


def _note(method: Propagation) -> str:
    return f"tol {_tol(method):g}" if _tol(method) else ""


def _products(info: Info) -> float | None:
    """Products with the operator a query; None for engines that count other things."""
    return None if info.engine in ("push", "folded") else float(info.iterations.double().mean())

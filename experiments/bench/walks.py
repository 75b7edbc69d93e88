"""Random walks with restart as other code does them: all walks of a query in NumPy, or one by one in Python."""

from __future__ import annotations

import bisect

import numpy as np

from experiments.bench.problem import Problem, Solver, calibrated, each
from experiments.bench.reference import DEFAULTS


def numpy_walks(problem: Problem) -> Solver:
    """All walks of a query at once in NumPy: cumulative weights and a binary search a move."""
    w = problem.reference.w
    reach = np.concatenate([[0.0], np.cumsum(w.data)])
    low, high = w.indptr[:-1], w.indptr[1:]
    method, restart = DEFAULTS["rwr"], problem.restart
    generator = np.random.default_rng(0)

    def solve(column: np.ndarray, walks: int) -> np.ndarray:
        mass = np.cumsum(column)
        visits = [_draw(mass, generator, walks)]
        for _ in range(method.walk_length):
            at = visits[-1]
            back = (generator.random(walks) < restart) | (low[at] == high[at])
            start, stop = reach[low[at]], reach[high[at]]
            drawn = np.searchsorted(reach, start + generator.random(walks) * (stop - start), side="right") - 1
            moved = w.indices[np.clip(drawn, low[at], np.maximum(high[at] - 1, low[at])) % len(w.indices)]
            visits.append(np.where(back, _draw(mass, generator, walks), moved))
        return np.bincount(np.concatenate(visits), minlength=len(column)) / (walks * (method.walk_length + 1))

    return calibrated(problem, each(solve, problem.pool), [method.num_walks], "walks")


def python_walks(problem: Problem) -> Solver:
    """One walk after the other in plain Python, over neighbour lists, as such code is usually written."""
    w = problem.reference.w
    neighbours = [w.indices[a:b].tolist() for a, b in zip(w.indptr[:-1], w.indptr[1:], strict=True)]
    reach = [np.cumsum(w.data[a:b]).tolist() for a, b in zip(w.indptr[:-1], w.indptr[1:], strict=True)]
    method, restart = DEFAULTS["rwr"], problem.restart
    draw = np.random.default_rng(0).random

    def solve(column: np.ndarray, walks: int) -> np.ndarray:
        mass = np.cumsum(column)
        mass /= mass[-1]
        starts = np.searchsorted(mass, draw(walks * (method.walk_length + 1)), side="right").tolist()
        chances = draw((2, walks * method.walk_length)).tolist()
        counts = [0] * len(column)
        for walk in range(walks):
            at = starts.pop()
            counts[at] += 1
            for move in range(method.walk_length):
                number = walk * method.walk_length + move
                if chances[0][number] < restart or not neighbours[at]:
                    at = starts.pop()
                else:
                    at = neighbours[at][bisect.bisect(reach[at], chances[1][number] * reach[at][-1])]
                counts[at] += 1
        return np.array(counts) / (walks * (method.walk_length + 1))

    return calibrated(problem, each(solve, problem.pool), [method.num_walks], "walks")


def _draw(mass: np.ndarray, generator: np.random.Generator, count: int) -> np.ndarray:
    drawn = np.searchsorted(mass, generator.random(count) * mass[-1], side="right")
    return np.minimum(drawn, len(mass) - 1)

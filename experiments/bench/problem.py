"""What is to be solved, and what a contender is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from aeg.core.operator import Operator
from aeg.core.seeds import Seeds
from experiments.bench.reference import Reference, l1
from experiments.bench.shapes import Graph

POOL = 16
"""Distinct queries that a peer which takes long solves again and again."""


@dataclass(eq=False)
class Problem:
    """Seeds on a graph, and the true scores of the first few queries.

    Attributes:
        graph: what to propagate on.
        seeds: of all queries.
        restart: ρ.
        target: L1 error that contenders may have; those with a number of steps take the fewest that meet it.
        sample: queries whose truth is solved.
        method: which of `Reference`'s solutions is the truth.
        level: the steps (or tolerance) to take where they are known from before, so that none are searched.
        device: where our own contenders compute.
    """

    graph: Graph
    seeds: Seeds
    restart: float = 0.3
    target: float = 1e-3
    sample: int = 8
    method: str = "ppr"
    level: float | None = None
    device: str = "cpu"

    @cached_property
    def op(self) -> Operator:
        """The operator where our own contenders compute."""
        return self.graph.op.to(self.device)

    @cached_property
    def moved(self) -> Seeds:
        """The seeds where our own contenders compute."""
        return self.seeds.to(self.op.device)

    def wait(self) -> None:
        """Wait until the device has done what it was given."""
        if self.op.device.type == "cuda":
            torch.cuda.synchronize(self.op.device)

    @cached_property
    def reference(self) -> Reference:
        """The float64 solver."""
        return Reference(self.graph.op, self.graph.num_atoms)

    @cached_property
    def truth(self) -> np.ndarray:
        """The scores of the sample, float64 [nodes, sample]."""
        return self.reference.solve(self.method, self.columns(self.sample), self.restart)

    @cached_property
    def pool(self) -> np.ndarray:
        """The seeds of the first few queries, float64 [nodes, at most 16], columns of sum 1."""
        return self.columns(min(POOL, self.seeds.num_queries))

    def columns(self, queries: int) -> np.ndarray:
        """Return the seeds of the first queries, float64 [nodes, queries], columns of sum 1."""
        part = self.seeds.tile(0, queries).double().numpy()
        return part / part.sum(0)

    def head(self, queries: int) -> Seeds:
        """Return the seeds of the first queries, where our own contenders compute."""
        seeds, stop = self.moved, int(self.seeds.ptr[queries])
        part = seeds.dense and replace(
            seeds.dense,
            queries=seeds.dense.queries[:queries],
            scale=seeds.dense.scale[:queries],
            offset=seeds.dense.offset[:queries],
        )
        keys = None if seeds.keys is None else seeds.keys[:queries]
        flags = {name: flag[:queries] for name, flag in seeds.flags.items()}
        ptr = seeds.ptr[: queries + 1]
        return Seeds(seeds.num_nodes, ptr, seeds.nodes[:stop], seeds.weights[:stop], part, keys, flags)

    def fewest(self, solve: Callable[[Any], np.ndarray], levels: Sequence[Any]) -> Any:
        """Return the first level (steps, or a falling tolerance) that brings every query of the sample to the target.

        The error falls with the levels, so they are searched by doubling, then by halving (few steps are cheap to
        try); the last is taken where none is enough.
        """
        if self.level is not None:
            known = self.level
            return min(levels, key=lambda level: abs(level - known))

        def enough(at: int) -> bool:
            return bool(l1(solve(levels[at]), self.truth).max() <= self.target)

        high, last = 0, len(levels) - 1
        while high < last and not enough(high):
            high = min(2 * high + 1, last)
        low = (high + 1) // 2
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle + 1, high)
        return levels[low]

    def connected(self) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Return the pool without isolated nodes, columns of sum 1, and what completes scores for it.

        An isolated node's score is in closed form: with s the seed mass on connected nodes, a column is
        (s · scores, ρ · isolated seeds) over s + ρ (1 − s). Peers that renormalise at every step treat the mass of
        isolated nodes in another way; so that this costs them no accuracy, they are given the connected part only.
        """
        live = ~self.graph.op.isolated.numpy()
        mass = self.pool[live].sum(0)
        inner = np.where(live[:, None], self.pool, 0.0) / np.where(mass == 0, 1.0, mass)
        outer = np.where(live[:, None], 0.0, self.restart * self.pool)
        total = mass + self.restart * (1 - mass)

        def complete(scores: np.ndarray) -> np.ndarray:
            count = scores.shape[1]
            return (mass[:count] * scores + outer[:, :count]) / total[:count]

        return inner, complete


@dataclass(frozen=True, eq=False)
class Solver:
    """A contender that is set up for a problem.

    Attributes:
        run: solves the first q queries and drops the result, which is what is timed.
        scores: returns the scores of the first q queries, [nodes, queries]; None where only ranks come out.
        rows: returns the ranked atoms of the first q queries, [queries, 25]; None where scores come out.
        products: products with the operator a query needs, where it is known.
        level: the steps or tolerance that were found.
        note: the setting in words.
    """

    run: Callable[[int], object]
    scores: Callable[[int], np.ndarray] | None = None
    rows: Callable[[int], np.ndarray] | None = None
    products: float | None = None
    level: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Contender:
    """Something that solves problems: one of our engines, or a peer.

    Attributes:
        label: its name in tables.
        prepare: sets it up for a problem (not timed); None where it cannot solve such a problem.
        queries: how many queries one timed run solves; None: all of the problem's.
        max_nnz: larger graphs are left out.
        ours: whether it is this framework's.
        kinds: the kinds of seeds that it takes.
        memory: whether its peak memory is of interest (each takes a process).
    """

    label: str
    prepare: Callable[[Problem], Solver | None]
    queries: int | None
    max_nnz: int | None = None
    ours: bool = False
    kinds: Sequence[str] = field(default=("dense", "sparse"))
    memory: bool = True

    def takes(self, problem: Problem) -> bool:
        """Tell whether it is to solve such a problem at all."""
        kind = "sparse" if problem.seeds.dense is None else "dense"
        return kind in self.kinds and (self.max_nnz is None or problem.graph.nnz <= self.max_nnz)


def calibrated(
    problem: Problem,
    solve: Callable[[int, Any], Any],
    levels: Sequence[Any],
    unit: str,
    complete: Callable[[np.ndarray], np.ndarray] = lambda scores: scores,
) -> Solver:
    """Return the solver at the first of the levels that meets the problem's target.

    Args:
        problem: what is solved.
        solve: takes a number of queries and a level, returns scores [nodes, queries or more].
        levels: from coarse to fine.
        unit: of the levels; `steps` are products with the operator.
        complete: turns what `solve` returns into scores, for the comparison with the truth.
    """

    def scores(queries: int, level: Any) -> np.ndarray:
        found = solve(queries, level)
        found = found.cpu() if isinstance(found, torch.Tensor) else found
        return complete(np.asarray(found, dtype=np.float64)[:, :queries])

    level = problem.fewest(lambda level: scores(problem.sample, level), levels)
    return Solver(
        lambda queries: solve(queries, level),
        lambda queries: scores(queries, level),
        products=float(level) if unit == "steps" else None,
        level=float(level),
        note=f"{level:.3g} {unit}",
    )


def each(solve: Callable[[np.ndarray, Any], np.ndarray], columns: np.ndarray) -> Callable[[int, Any], np.ndarray]:
    """Turn the solution of one column into that of the first q columns, one after the other, over and over."""
    pool = [np.ascontiguousarray(columns[:, at]) for at in range(columns.shape[1])]

    def several(queries: int, level: Any) -> np.ndarray:
        return np.stack([solve(pool[at % len(pool)], level) for at in range(queries)], axis=1)

    return several


def tensor(columns: np.ndarray) -> torch.Tensor:
    """Return float32 columns, row-major."""
    return torch.from_numpy(np.ascontiguousarray(columns, dtype=np.float32))

"""Theorem C.12 and Corollary C.13: coverage of the evidence against k, with and without decomposition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from aeg.evaluation.bootstrap import bootstrap_difference, bootstrap_mean
from aeg.propagation import make, search
from aeg.retrieval.baselines import dense, searchable
from experiments.theory.finding import Finding, Findings, exact, judged
from experiments.theory.world import World

FloatArray = npt.NDArray[np.float64]
KS = (1, 2, 3, 5, 10)
_DEPTH = 64

TITLE = (
    "Theorem C.12 (the k best units of at most c pieces of evidence cover at most kc/m) and Corollary C.13 "
    "(decomposition relaxes that)"
)


def ceiling(k: int, pieces: npt.ArrayLike, evidence: npt.ArrayLike) -> FloatArray:
    r"""Return the most that k units can cover, min(1, kc/m).

    Args:
        k: units retrieved.
        pieces: c, the most pieces of a question's evidence that one unit holds.
        evidence: m, the pieces of evidence that the question needs.

    Source: Theorem C.12.

    Example:
        >>> ceiling(2, 1, [2, 4]).tolist()
        [1.0, 0.5]
    """
    return np.minimum(1.0, k * np.asarray(pieces, dtype=np.float64) / np.asarray(evidence, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence of each question, and which unit holds which piece.

    Attributes:
        pieces: m by question; 0 where a question has none.
        holds: by question, unit to the pieces in it.
        unit: name of the units.
    """

    pieces: list[int]
    holds: list[dict[int, set[int]]]
    unit: str


def theorem_c12(worlds: Sequence[World]) -> Findings:
    """Measure coverage against k by several rankers, and what decomposition changes."""
    found = Findings(TITLE)
    for world in worlds:
        for evidence, rankers in _settings(world):
            for name, rank in rankers.items():
                _measure(found, world, evidence, name, rank(world))
    if not found.findings:
        found.assumptions.append("no corpus with gold evidence was given")
    return found


def covered(ranked: Sequence[Sequence[int]], holds: dict[int, set[int]], k: int) -> int:
    """Return how many pieces the k best units of each of some rankings hold together.

    Example:
        >>> covered([[4, 7], [7, 9]], {4: {0}, 9: {1}}, 1), covered([[4, 7], [7, 9]], {4: {0}, 9: {1}}, 2)
        (1, 2)
    """
    return len({piece for units in ranked for unit in units[:k] for piece in holds.get(unit, ())})


def spread(ranked: Sequence[Sequence[int]], budget: int) -> list[int]:
    """Return the first `budget` distinct units of some rankings read in turn, best first.

    Example:
        >>> spread([[4, 7, 1], [7, 9]], 3)
        [4, 7, 9]
    """
    seen: dict[int, None] = {}
    for place in range(max(map(len, ranked))):
        for units in ranked:
            if place < len(units) and len(seen) < budget:
                seen.setdefault(units[place])
    return list(seen)


Ranker = Callable[[World], list[list[int]]]


def _settings(world: World) -> list[tuple[Evidence, dict[str, Ranker]]]:
    """What counts as evidence of a corpus, and what ranks its units."""
    gold = world.gold_passages
    if any(query.gold_doc_ids for query in world.queries):
        holds = [{row: {at} for at, row in enumerate(rows)} for rows in gold]
        passages = Evidence([len(rows) for rows in gold], holds, "passages")
        return [(passages, {"dense": _dense_passages, "PPR": _ppr_passages})]
    stated = [{at: atom for at, atom in enumerate(atoms) if atom >= 0} for atoms in world.statements]
    by_atom: list[dict[int, set[int]]] = []
    for of in stated:
        by_atom.append({})
        for at, atom in of.items():
            by_atom[-1].setdefault(atom, set()).add(at)
    by_passage = [_held(world, of) for of in by_atom]
    pieces = [len(of) for of in stated]
    return [
        (Evidence(pieces, by_atom, "atoms"), {"dense": _dense_atoms, "PPR": _ppr_atoms}),
        (Evidence(pieces, by_passage, "passages"), {"dense": _dense_passages}),
    ]


def _held(world: World, by_atom: dict[int, set[int]]) -> dict[int, set[int]]:
    table = world.graph.atoms
    held: dict[int, set[int]] = {}
    for atom, pieces in by_atom.items():
        for passage in table.occurrence_passage[table.occurrence_atom == atom].tolist():
            held.setdefault(passage, set()).update(pieces)
    return held


def _measure(found: Findings, world: World, evidence: Evidence, ranker: str, ranked: list[list[int]]) -> None:
    queries = [at for at, m in enumerate(evidence.pieces) if m]
    if not queries:
        return
    own, several = world.own, _effective(world)
    m = np.array([evidence.pieces[at] for at in queries], dtype=float)
    c = np.array([max(map(len, evidence.holds[at].values())) for at in queries], dtype=float)
    name = f"{world.name}, {evidence.unit}, {ranker}"
    split = np.array([len(several[at]) > 1 for at in queries])
    found.assumptions.append(
        f"{name}: {len(queries)} questions, m = {m.mean():.2f} on average, {int((m > 1).sum())} with m > 1, "
        f"{int(split.sum())} decomposed (recorded); c = {c.mean():.2f} on average"
    )
    rows, over = [], 0
    for k in KS:
        single = np.array([covered([ranked[own[at]]], evidence.holds[at], k) for at in queries]) / m
        over += int((single > ceiling(k, c, m) + 1e-9).sum())
        each = np.array([covered([ranked[r] for r in several[at]], evidence.holds[at], k) for at in queries]) / m
        rows.append(_row(k, single, each, ceiling(k, c, m), split))
        if split.any():
            found.findings += _decomposition(name, k, ranked, evidence, queries, several, split, single, each, m)
    claim = "coverage never exceeds kc/m (violations)"
    found.findings.insert(0, exact(name, claim, float(over), len(queries) * len(KS), over == 0))
    infeasible = KS[0] * c < m
    if infeasible.any():
        full = (
            np.array([covered([ranked[own[at]]], evidence.holds[at], 1) for at in queries])[infeasible] >= m[infeasible]
        )
        claim = "where kc < m at k = 1, no question is covered in full (questions that are)"
        found.findings.append(exact(name, claim, float(full.sum()), int(infeasible.sum()), not full.any()))
    heads = ["k", "ceiling", "coverage", "full", "ceiling, decomposed", "coverage, question alone", "+ sub-questions"]
    found.tables.append((f"{name}: the last three over the {int(split.sum())} decomposed questions", heads, rows))


def _row(k: int, single: FloatArray, each: FloatArray, limit: FloatArray, split: npt.NDArray[np.bool_]) -> list[object]:
    def ci(values: FloatArray) -> str:
        one = bootstrap_mean(values)
        return f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]" if one.n else "-"

    some = float(limit[split].mean()) if split.any() else None
    full = float((single >= 1 - 1e-9).mean())
    return [k, float(limit.mean()), ci(single), full, some, ci(single[split]), ci(each[split])]


def _decomposition(
    name: str,
    k: int,
    ranked: list[list[int]],
    evidence: Evidence,
    queries: list[int],
    several: list[list[int]],
    split: npt.NDArray[np.bool_],
    single: FloatArray,
    each: FloatArray,
    m: FloatArray,
) -> list[Finding]:
    """The corollary at the same k a query, and the same comparison at an equal number of units altogether."""
    own = np.zeros(len(queries))
    turn = np.zeros(len(queries))
    for row, at in enumerate(queries):
        if split[row]:
            lists = [ranked[r] for r in several[at]]
            units = {unit for one in lists for unit in one[:k]}
            own[row] = covered([lists[0]], evidence.holds[at], len(units)) / m[row]
            turn[row] = covered([spread(lists, len(units))], evidence.holds[at], len(units)) / m[row]
    more = bootstrap_difference(each[split], single[split])
    equal = bootstrap_difference(turn[split], own[split])
    claims = (
        (more, f"C.13, k = {k} a query: sub-questions cover more (they also retrieve more units)"),
        (equal, f"beyond C.13, k = {k}: sub-questions cover more at an equal number of units"),
    )
    return [Finding(name, text, one.value, one.low, one.high, one.n, judged(one)) for one, text in claims]


def _effective(world: World) -> list[list[int]]:
    """The rows of each question's effective queries, its own first."""
    several: list[list[int]] = [[] for _ in world.queries]
    for row, query in enumerate(world.seeding.of_query.tolist()):
        several[query].append(row)
    return several


def _lists(rows: Tensor) -> list[list[int]]:
    return [[row for row in one if row >= 0] for one in rows.tolist()]


def _dense_atoms(world: World) -> list[list[int]]:
    vectors = world.graph.atoms.embeddings
    assert vectors is not None
    return _lists(dense(world.seeding.embeddings, vectors, _DEPTH)[0])


def _dense_passages(world: World) -> list[list[int]]:
    texts = [searchable(passage) for passage in world.graph.passages]
    return _lists(dense(world.seeding.embeddings, world.pipeline.encoder.encode(texts), _DEPTH)[0])


def _ppr_atoms(world: World) -> list[list[int]]:
    seeds, _ = world.retriever.seeds(world.seeding, world.pipeline.config.query.seeds)
    return _lists(search(make("ppr", restart=0.3), world.retriever.operator, seeds, _DEPTH, len(world.graph.atoms))[0])


def _ppr_passages(world: World) -> list[list[int]]:
    """The passages of the atoms that PPR ranks, each at its best atom."""
    table = world.graph.atoms
    where: list[list[int]] = [[] for _ in table.ids]
    for atom, passage in zip(table.occurrence_atom.tolist(), table.occurrence_passage.tolist(), strict=True):
        where[atom].append(passage)
    seeds, _ = world.retriever.seeds(world.seeding, world.pipeline.config.query.seeds)
    found = search(make("ppr", restart=0.3), world.retriever.operator, seeds, 4 * _DEPTH, len(table))[0]
    return [list(dict.fromkeys(p for atom in atoms for p in where[atom]))[:_DEPTH] for atoms in _lists(found)]

"""Why gold was not found: one cause for each miss, decided in a stated order by facts about the graph and the walk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from aeg.core.operator import Operator

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

MEASURE, EXTRACTION, NO_ENTITY, NAMED, WRONG_ENTITY = "measure", "extraction", "no_entity", "named", "wrong_entity"
UNREACHABLE, TOO_FAR = "unreachable", "too_far"
MIXED, DUPLICATES, CROWDED, HUBS = "mixed", "duplicates", "crowded", "hubs"
BELOW, FAR_BELOW, OUT_OF_SIGHT = "below", "far_below", "out_of_sight"

CAUSES = {
    MEASURE: "no ranking could have found it: more gold than k, or words that no passage holds",
    EXTRACTION: "the extraction lost it: no atom states it",
    NO_ENTITY: "no entity was linked",
    NAMED: "the question names an entity of its own, which was not linked",
    UNREACHABLE: "no path from the seeds",
    WRONG_ENTITY: "the linked entities lead neither to it nor to gold that is tied to it",
    TOO_FAR: "farther from the seeds than the walk goes",
    MIXED: "outranked by words and similarity mixed in: within k by the walk alone",
    DUPLICATES: "outranked by near-duplicates: within k once each is kept once",
    CROWDED: "outranked by many atoms of one passage: within k once they do not add up",
    HUBS: "outranked by hubs: within k once scores are divided by global ones",
    BELOW: "ranked up to 2k",
    FAR_BELOW: "ranked up to 10k",
    OUT_OF_SIGHT: "ranked below 10k",
}


@dataclass(frozen=True)
class Facts:
    """What decides the cause of one miss; ranks count from 1.

    Attributes:
        possible: some ranking could have found it.
        stated: some atom of the graph states it.
        linked: entities linked to the question.
        named: none of the linked entities lies on it, and what the links left of the question names an entity that is
            its own.
        led: the linked entities lead to it, or to gold of the same question that is tied to it.
        distance: edges from the nearest seed to its nearest atom; None without a path.
        length: how many edges the question's walk goes (`walk_length`).
        rank: as it was ranked; more than `k`.
        walked: its rank by propagated scores alone.
        distinct: its rank if near-duplicates of what is ranked higher were left out.
        uncrowded: its rank if many atoms of one passage did not count together.
        lifted: its rank by score divided by global score.
        k: what counts as found.
    """

    possible: bool
    stated: bool
    linked: int
    named: bool
    led: bool
    distance: int | None
    length: int
    rank: int
    walked: int
    distinct: int
    uncrowded: int
    lifted: int
    k: int


def cause_of(facts: Facts) -> str:
    """Return the cause of a miss: the first of `CAUSES` that holds.

    Example:
        >>> facts = Facts(True, True, 2, False, True, 1, 4, 9, walked=9, distinct=4, uncrowded=9, lifted=12, k=5)
        >>> cause_of(facts)
        'duplicates'
    """
    tests = {
        MEASURE: not facts.possible,
        EXTRACTION: not facts.stated,
        NO_ENTITY: facts.linked == 0,
        NAMED: facts.named,
        UNREACHABLE: facts.distance is None,
        WRONG_ENTITY: not facts.led,
        TOO_FAR: facts.distance is not None and facts.distance > facts.length,
        MIXED: facts.walked <= facts.k,
        DUPLICATES: facts.distinct <= facts.k,
        CROWDED: facts.uncrowded <= facts.k,
        HUBS: facts.lifted <= facts.k,
        BELOW: facts.rank <= 2 * facts.k,
        FAR_BELOW: facts.rank <= 10 * facts.k,
    }
    return next((cause for cause, holds in tests.items() if holds), OUT_OF_SIGHT)


def walk_length(distance: IntArray, mass: FloatArray, faint: float) -> int:
    """Return how many edges a walk goes: the largest h such that nodes at least h edges away hold `faint` of the mass.

    Args:
        distance: edges from the seeds, [nodes], −1 where there is no path.
        mass: scores, [nodes], not negative.
        faint: share of the whole mass.

    Example:
        >>> walk_length(np.array([0, 1, 2, 3, -1]), np.array([0.6, 0.3, 0.09, 0.005, 0.005]), 0.01)
        2
    """
    there = distance >= 0
    by_distance = np.bincount(distance[there], weights=mass[there])
    beyond = by_distance[::-1].cumsum()[::-1]
    enough = np.flatnonzero(beyond >= faint * mass.sum())
    return int(enough[-1]) if len(enough) and mass.sum() > 0 else 0


def rank_of(scores: FloatArray, row: int) -> int:
    """Return the rank of a row, from 1; equal scores are in row order.

    Example:
        >>> [rank_of(np.array([0.5, 0.7, 0.5]), row) for row in range(3)]
        [2, 1, 3]
    """
    own = scores[row]
    return 1 + int((scores > own).sum()) + int((scores[:row] == own).sum())


def lift(scores: Tensor, everywhere: Tensor) -> Tensor:
    """Return score / global score, 0 where that is 0: how much more there is because of the question.

    Args:
        scores: [rows, queries].
        everywhere: the same method's scores with all nodes seeded alike, [rows, 1].

    Example:
        >>> lift(torch.tensor([[0.5], [0.0]]), torch.tensor([[0.25], [0.0]])).tolist()
        [[2.0], [0.0]]
    """
    return torch.where(everywhere > 0, scores / torch.where(everywhere > 0, everywhere, 1.0), 0.0)


def distinct_rank(vectors: FloatArray, near: float) -> int:
    """Return the rank of the last of ranked rows if those that repeat a higher one were left out.

    Args:
        vectors: unit rows in rank order, the last one's rank is wanted.
        near: cosine from which a row repeats a higher one that is kept.

    Example:
        >>> distinct_rank(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 0.95)
        2
    """
    kept: list[int] = []
    for row in range(len(vectors) - 1):
        if not kept or float((vectors[kept] @ vectors[row]).max()) < near:
            kept.append(row)
    return len(kept) + 1


def uncrowded_rank(groups: Sequence[Iterable[int]], most: int) -> int:
    """Return the rank of the last of ranked atoms if at most `most` atoms of one passage were ranked above it.

    Args:
        groups: the passages of each atom, in rank order; an atom goes where one of its passages has room.
        most: at least 1.

    Example:
        >>> uncrowded_rank([[0], [0], [0], [1]], 2)
        3
    """
    taken: Counter[int] = Counter()
    kept = 0
    for passages in groups[:-1]:
        free = [passage for passage in passages if taken[passage] < most]
        if free:
            taken.update(free)
            kept += 1
    return kept + 1


class Terrain:
    """The Atom-Entity Graph as a walk sees it: what lies on what, what leads where, how far.

    Entities that more than `common` of the atoms mention (and more than ten) tie nothing together: everything is
    near them.

    Args:
        op: the operator, atoms first.
        num_atoms: rows below this are atoms, the others entities.
        common: share of the atoms.

    Example:
        >>> import torch
        >>> op = Operator.from_edges(6, torch.tensor([[0, 1, 2, 3], [3, 4, 5, 4]]))
        >>> terrain = Terrain(op, num_atoms=3)
        >>> terrain.entities([0]), terrain.beside({3}), terrain.distances([3]).tolist()
        ({3}, {4}, [1, 2, -1, 0, 1, -1])
    """

    def __init__(self, op: Operator, num_atoms: int, common: float = 0.005) -> None:
        self._matrix = op.scipy()
        self._matrix.data[:] = 1.0
        self._atoms = num_atoms
        self._mentions = self._matrix[:num_atoms, num_atoms:].sum(axis=0)
        rare = self._mentions <= max(10.0, common * num_atoms)
        self._rare = np.concatenate([np.zeros(num_atoms, dtype=bool), rare])

    def entities(self, atoms: Iterable[int]) -> set[int]:
        """Return the nodes of the entities that some atoms mention, common ones left out."""
        return {node for atom in atoms for node in self._neighbours(atom) if self._rare[node]}

    def own(self, atoms: Sequence[int]) -> set[int]:
        """Return those that at least half of the atoms mention, and few others: a third of all that do, or more."""
        found = Counter(node for atom in atoms for node in self._neighbours(atom) if self._rare[node])
        return {
            node
            for node, times in found.items()
            if 2 * times >= len(atoms) and 3 * times >= self._mentions[node - self._atoms]
        }

    def beside(self, entities: Iterable[int]) -> set[int]:
        """Return the entities that an edge joins to some entities, common ones left out."""
        return {node for entity in entities for node in self._neighbours(entity) if self._rare[node]}

    def rare(self, entities: Iterable[int]) -> set[int]:
        """Return the entities that are not common."""
        return {entity for entity in entities if self._rare[entity]}

    def led(self, linked: Iterable[int], golds: Sequence[Sequence[int]]) -> list[bool]:
        """Return to which of a question's gold (atoms each) the linked entities lead.

        They lead to gold on which one of them lies, or one that an edge joins to one of them; and from gold that
        they lead to, to other gold on which an entity lies that lies on the former or is joined to one on it.
        """
        linked = self.rare(linked)
        on = [self.entities(atoms) for atoms in golds]
        reach = linked | self.beside(linked)
        found = [False] * len(golds)
        while True:
            new = [at for at, entities in enumerate(on) if not found[at] and reach & entities]
            if not new:
                return found
            for at in new:
                found[at] = True
                reach |= on[at] | self.beside(on[at])

    def distances(self, seeds: Iterable[int]) -> IntArray:
        """Return how many edges lie between each node and the nearest seed, int64 [nodes], −1 without a path."""
        out = np.full(self._matrix.shape[0], -1, dtype=np.int64)
        frontier = np.zeros(len(out), dtype=bool)
        frontier[list(seeds)] = True
        step = 0
        while frontier.any():
            out[frontier] = step
            frontier = ((self._matrix @ frontier.astype(np.float64)) > 0) & (out < 0)
            step += 1
        return out

    def _neighbours(self, node: int) -> list[int]:
        low, high = self._matrix.indptr[node], self._matrix.indptr[node + 1]
        return self._matrix.indices[low:high].tolist()

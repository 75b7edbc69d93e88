"""The documents, entities and atoms behind a synthetic graph, and the edges that they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_PER_DOCUMENT = 9  # entities that a document brings in
_TOPIC = 40  # documents of a topic
_GUESTS = 3  # entities from elsewhere, for each one of its own
_LOCAL = 0.95  # edge ends that stay within the document, and guests that come from its topic
_FAME = 0.8  # exponent of the power law by which entities are known elsewhere


@dataclass(frozen=True)
class Shape:
    """The counts of one row of Table 6."""

    name: str
    entities: int
    atoms: int
    related: int
    synonym: int
    containment: int

    @property
    def nodes(self) -> int:
        """Atoms and entities."""
        return self.entities + self.atoms

    @property
    def edges(self) -> int:
        """Edges of all types."""
        return self.related + self.synonym + self.containment

    def scaled(self, factor: float) -> Shape:
        """Return the same proportions at another size."""
        return Shape(
            f"{self.name}x{factor:g}",
            *(max(8, round(n * factor)) for n in (self.entities, self.atoms)),
            *(max(4, round(n * factor)) for n in (self.related, self.synonym, self.containment)),
        )


class World:
    """Documents with a subject, entities of their own and guests, which are known everywhere by a power law."""

    def __init__(self, shape: Shape, rng: np.random.Generator) -> None:
        self.shape, self.rng = shape, rng
        documents = max(2, shape.entities // _PER_DOCUMENT)
        # Node numbers are by hash, so that they say nothing about documents.
        self.number = rng.permutation(shape.entities)
        size = rng.lognormal(0.0, 0.5, documents)
        self.home = np.sort(rng.choice(documents, shape.entities, p=size / size.sum()))
        topics = self.home // _TOPIC
        self.topic = np.searchsorted(topics, np.arange(topics[-1] + 2))  # entities of a topic stand together
        self.fame = np.concatenate([[0.0], np.cumsum((1.0 - rng.random(shape.entities)) ** -_FAME)])
        invited = rng.integers(0, documents, int(_GUESTS * shape.entities))
        document = np.concatenate([self.home, invited])
        entity = np.concatenate([np.arange(shape.entities), self.famous(invited)])
        order = np.argsort(document, kind="stable")
        self.member, self.start = entity[order], np.searchsorted(document[order], np.arange(documents + 1))
        self.index = np.zeros((2, 0), dtype=np.int64)  # related edges, which atoms follow

    def famous(self, documents: np.ndarray) -> np.ndarray:
        """Entities drawn by fame: of the document's topic with probability 0.9, else of the whole corpus."""
        rng, topic = self.rng, np.minimum(documents // _TOPIC, len(self.topic) - 2)
        abroad = rng.random(len(documents)) > _LOCAL
        low = np.where(abroad, 0.0, self.fame[self.topic[topic]])
        high = np.where(abroad, self.fame[-1], self.fame[self.topic[topic + 1]])
        drawn = np.searchsorted(self.fame, low + rng.random(len(documents)) * (high - low), side="right") - 1
        return np.clip(drawn, 0, self.shape.entities - 1)

    def within(self, documents: np.ndarray, subject: float = 0.0) -> np.ndarray:
        """Entities of each document: its first with probability `subject`, else any (a famous one if it has none)."""
        size = self.start[documents + 1] - self.start[documents]
        chance = self.rng.random(len(documents))
        offset = np.where(self.rng.random(len(documents)) < subject, 0, (chance * size).astype(np.int64))
        at = np.minimum(self.start[documents] + offset, len(self.member) - 1)
        return np.where(size > 0, self.member[at], self.famous(documents))

    def partners(self, documents: np.ndarray, subject: float = 0.0) -> np.ndarray:
        """Entities of each document with probability 0.9, else famous ones."""
        local = self.rng.random(len(documents)) < _LOCAL
        return np.where(local, self.within(documents, subject), self.famous(documents))

    def related(self) -> tuple[np.ndarray, np.ndarray]:
        """Edges within documents, half of them at the subject: first one for most entities; weight: distinct labels."""
        rng, entities = self.rng, self.shape.entities

        def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
            documents = self.home[rng.integers(0, entities, count)]
            return self.within(documents), self.partners(documents, 0.5)

        named = rng.permutation(entities)[: int(min(0.9 * entities, self.shape.related))]
        first = _unique(np.stack([named, self.partners(self.home[named], 0.5)]), entities, undirected=True)
        self.index = _distinct(draw, self.shape.related, entities, undirected=True, start=first)
        return self._placed(self.index), np.minimum(rng.geometric(0.9, self.shape.related), 8).astype(np.float64)

    def synonym(self) -> tuple[np.ndarray, np.ndarray]:
        """Near-cliques over entities of different documents, about three in five of which have one; weight: cosine."""
        rng, target, entities = self.rng, self.shape.synonym, self.shape.entities
        sizes = _cluster_sizes(rng, target, entities)
        # Names that are alike stand mostly within a topic, some anywhere.
        place = np.arange(entities) + rng.normal(0.0, _TOPIC * _PER_DOCUMENT / 4, entities)
        order = np.argsort(np.where(rng.random(entities) < _LOCAL, place, entities * rng.random(entities)))
        sizes = rng.permutation(sizes)
        pairs, at = [np.zeros((2, 0), dtype=np.int64)], 0
        for size in sizes.tolist():
            left, right = np.triu_indices(size, 1)
            keep = rng.random(len(left)) < _density(size)
            members = order[np.arange(at, at + size) % entities]
            pairs.append(np.stack([members[left[keep]], members[right[keep]]]))
            at += size
        index = _unique(np.concatenate(pairs, axis=1), entities, undirected=True)

        def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
            return rng.integers(0, entities, count), rng.integers(0, entities, count)

        index = _distinct(draw, target, entities, undirected=True, start=index)
        return self._placed(index), rng.uniform(0.8, 1.0, target)

    def containment(self) -> tuple[np.ndarray, np.ndarray]:
        """Edges from atoms to entities: an atom states a related edge, whose ends it mentions, and what stands by.

        From one edge an atom on, each atom has its share. Below, edges are missing at random, as they are in the
        paper's graphs of cased corpora (DESIGN.md): with 0.84 an atom, two in five atoms have none.
        """
        rng, shape = self.rng, self.shape
        mean = shape.containment / shape.atoms
        slots, sure = max(3, int(mean) + 2), int(mean)
        edge = rng.integers(0, self.index.shape[1], shape.atoms)
        atoms = np.tile(np.arange(shape.atoms), slots)
        home = self.home[self.index[0, edge]]
        entity = np.concatenate([*self.index[:, edge], self.partners(np.tile(home, slots - 2))])
        order = rng.permutation(len(atoms))
        order = order[np.argsort(order >= sure * shape.atoms, kind="stable")]

        def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
            some = rng.integers(0, shape.atoms, count)
            return some, self.partners(home[some])

        start = _unique(np.stack([atoms[order], entity[order]]), shape.entities, undirected=False)
        index = _distinct(draw, shape.containment, shape.entities, undirected=False, start=start)
        index[1] = self.number[index[1]] + shape.atoms
        return index, np.ones(shape.containment)

    def _placed(self, index: np.ndarray) -> np.ndarray:
        return self.number[index] + self.shape.atoms


def _density(size: int) -> float:
    """The share of a cluster's pairs that are synonyms: all of two, fewer of many."""
    return 0.4 + 0.6 / (size - 1) ** 0.5


def _cluster_sizes(rng: np.random.Generator, target: int, entities: int) -> np.ndarray:
    """Sizes by a power law, its exponent such that clusters with `target` edges hold three in five entities."""
    chance = 1.0 - rng.random(entities)
    most = int(min(entities // 4, 12 + 12 * 2 * target / entities))

    def sizes(exponent: float) -> np.ndarray:
        drawn = np.minimum(2 + (chance**-exponent - 1).astype(np.int64), max(most, 2))
        edges = np.cumsum(drawn * (drawn - 1) / 2 * (0.4 + 0.6 / (drawn - 1) ** 0.5))
        return drawn[: int(np.searchsorted(edges, 0.98 * target)) + 1]

    low, high = 0.05, 4.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if sizes(middle).sum() > 0.6 * entities else (low, middle)
    return sizes(high)


def _distinct(
    draw: Callable[[int], tuple[np.ndarray, np.ndarray]],
    count: int,
    width: int,
    undirected: bool,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Draw pairs until there are `count` distinct ones (and no self-loops, where undirected)."""
    found = np.zeros((2, 0), dtype=np.int64) if start is None else start
    for _ in range(1000):
        missing = count - found.shape[1]
        if missing <= 0:
            return found[:, :count].copy()
        fresh = np.stack(draw(missing + missing // 4 + 8)).astype(np.int64)
        found = _unique(np.concatenate([found, fresh], axis=1), width, undirected)
    raise ValueError(f"got {found.shape[1]} distinct pairs, expected {count}: the shape is too dense")


def _unique(index: np.ndarray, width: int, undirected: bool) -> np.ndarray:
    """Return the distinct pairs in the order of their first appearance."""
    left, right = index
    if undirected:
        left, right = np.minimum(left, right), np.maximum(left, right)
        left, right = left[left != right], right[left != right]
    _, first = np.unique(left * width + right, return_index=True)
    first.sort()
    return np.stack([left[first], right[first]])

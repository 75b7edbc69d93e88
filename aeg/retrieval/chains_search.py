"""The search for the heaviest chains: heaviest prefixes forwards, then best first backwards."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from aeg.core.operator import Operator
from aeg.retrieval.chains_walks import Steps, Walks, check_nodes, seed_distribution

_STOP = -1


@dataclass(frozen=True)
class Chain:
    """A walk from a seed to an atom.

    Attributes:
        nodes: v_0 to v_l, rows of the operator.
        factors: M of each step, [length].
        seed: π(v_0).
        mass: what the walk adds to the atom's score.
    """

    nodes: tuple[int, ...]
    factors: tuple[float, ...]
    seed: float
    mass: float

    @property
    def length(self) -> int:
        """The number of steps; 0 for the atom's own seed."""
        return len(self.factors)


@dataclass(frozen=True)
class Chains:
    """The heaviest chains into one node.

    Attributes:
        node: where they end.
        chains: heaviest first; equal masses in an order that the graph alone decides.
        complete: whether the search ended by itself; false where it was cut off at its limit, so that heavier chains
            than the last ones may exist.
    """

    node: int
    chains: tuple[Chain, ...]
    complete: bool = True

    @property
    def mass(self) -> float:
        """What they add to the score together."""
        return float(sum(chain.mass for chain in self.chains))


def heaviest_chains(
    op: Operator,
    walks: Walks,
    seeds: Tensor,
    nodes: Sequence[int],
    k: int = 5,
    simple: bool = False,
    limit: int = 50_000,
) -> list[Chains]:
    """Return the k heaviest chains of one query into each of some nodes, exactly, without enumerating walks.

    A first pass finds the heaviest prefix that ends in each node, for all targets at once. Then each target is
    searched backwards, best first: the bound of an open walk is its own product times the heaviest prefix of its
    first node, which some walk attains, so that nothing is opened that does not lead to one of the next heaviest.

    Args:
        op: the operator.
        walks: what the method's scores are sums of (`aeg.explain.walk_account`).
        seeds: [nodes], of one query; scaled to sum 1.
        nodes: where the chains end.
        k: chains of each, at least 1.
        simple: only chains that visit no node twice.
        limit: walks opened for a target at most; a search that is cut off is marked.

    Raises:
        DataError: if the seeds do not fit, or a node lies outside the operator.

    Source:
        Paper, section 3.3; k best hypotheses by A* with exact bounds: Soong and Huang, ICASSP 1991.

    Example:
        >>> import torch
        >>> op = Operator.from_edges(3, torch.tensor([[0, 0], [1, 2]]))
        >>> found = heaviest_chains(op, Walks("transition", (0.5,), 0.5), torch.tensor([1.0, 0.0, 0.0]), [1], k=2)
        >>> [(chain.nodes, chain.mass) for chain in found[0].chains]
        [((0, 1), 0.125), ((0, 1, 0, 1), 0.015625)]
    """
    check_nodes(op, nodes)
    search = ChainSearch(Steps.of(op, walks), walks, seed_distribution(op, seeds), simple, limit)
    isolated = op.isolated.cpu()
    return [search.alone(node) if bool(isolated[node]) else search.into(node, k) for node in nodes]


@dataclass(frozen=True)
class _Open:
    """A walk that is open at its beginning: `node` in a layer, the product of what follows, and the rest of it."""

    node: int
    layer: int
    product: float
    factor: float
    rest: _Open | None

    def holds(self, node: int) -> bool:
        """Tell whether `node` is on it."""
        at: _Open | None = self
        while at is not None:
            if at.node == node:
                return True
            at = at.rest
        return False


@dataclass(frozen=True, eq=False)
class _Options:
    """Ways to go on from an open walk, best first: bound, node (`_STOP`: it begins here), layer and factor of each."""

    of: _Open
    bounds: np.ndarray
    nodes: np.ndarray
    layers: np.ndarray
    factors: np.ndarray


class ChainSearch:
    """Finds the heaviest chains of one query.

    A walk of length l stands in layer min(l, m) at its end, m being the length from which on weights are geometric;
    a step goes one layer up, or stays in layer m and is multiplied by the ratio. Within a layer `best[layer][v]` is
    the weight of the heaviest walk from a seed to v, without w.

    Args:
        steps: the step matrix.
        walks: the method's account.
        seeds: a distribution, float64 [nodes].
        simple: only walks that visit no node twice.
        limit: options looked at for a target, at most.
    """

    def __init__(self, steps: Steps, walks: Walks, seeds: np.ndarray, simple: bool, limit: int) -> None:
        self._steps, self._walks, self._seeds = steps, walks, seeds
        self._simple, self._limit = simple, limit
        self._best = _prefixes(steps, walks, seeds)

    def alone(self, node: int) -> Chains:
        """Return the one chain into an isolated node: its own seed."""
        walks, seed = self._walks, float(self._seeds[node])
        weight = walks.weights[0] if walks.staying is None else walks.staying
        mass = walks.scale * weight * seed
        return Chains(node, (Chain((node,), (), seed, mass),) if mass > 0 else ())

    def into(self, node: int, k: int) -> Chains:
        """Return the k heaviest chains into a node."""
        found: list[Chain] = []
        walk = self._in_order(node)
        complete = True
        for chain in walk:
            if chain is None:
                complete = False
                break
            found.append(chain)
            if len(found) == k:
                break
        walk.close()
        found.sort(key=lambda chain: -chain.mass)
        return Chains(node, tuple(found), complete)

    def _in_order(self, node: int) -> Generator[Chain | None]:
        """Yield the chains into a node, heaviest first; None where the limit cuts the search off."""
        order = itertools.count()
        heap: list[tuple[float, int, _Options, int]] = []

        def push(options: _Options, at: int) -> None:
            if at < len(options.bounds) and options.bounds[at] > 0:
                heapq.heappush(heap, (-float(options.bounds[at]), next(order), options, at))

        for start in self._ends(node):
            push(self._options(start), 0)
        for _ in range(self._limit):
            if not heap:
                return
            _, _, options, at = heapq.heappop(heap)
            push(options, at + 1)
            before, open_ = int(options.nodes[at]), options.of
            if before == _STOP:
                yield self._chain(open_)
            elif not (self._simple and open_.holds(before)):
                factor = float(options.factors[at])
                layer = int(options.layers[at])
                ratio = self._walks.ratio if layer == open_.layer else 1.0
                push(self._options(_Open(before, layer, open_.product * factor * ratio, factor, open_)), 0)
        if heap:
            yield None

    def _ends(self, node: int) -> list[_Open]:
        """The open walks of no step, one for each layer in which a walk may end."""
        walks = self._walks
        return [
            _Open(node, layer, walks.scale * weight, 1.0, None)
            for layer, weight in enumerate(walks.weights)
            if weight > 0 and self._best[layer][node] > 0
        ]

    def _options(self, open_: _Open) -> _Options:
        last, layer = self._walks.last, open_.layer
        before, factors = self._steps.into(open_.node)
        ways = []
        if layer == last and self._walks.ratio > 0:
            ways.append((layer, self._walks.ratio))
        if layer > 0:
            ways.append((layer - 1, 1.0))
        bounds = [open_.product * ratio * factors * self._best[of][before] for of, ratio in ways]
        nodes, layers = [before] * len(ways), [np.full(len(before), of) for of, _ in ways]
        passed = [factors] * len(ways)
        if layer == 0:
            bounds.insert(0, np.array([open_.product * self._seeds[open_.node]]))
            nodes.insert(0, np.array([_STOP]))
            layers.insert(0, np.array([0]))
            passed.insert(0, np.array([1.0]))
        joined = np.concatenate(bounds)
        rank = np.argsort(-joined, kind="stable")
        rank = rank[joined[rank] > 0]
        parts = (np.concatenate(part)[rank] for part in (nodes, layers, passed))
        return _Options(open_, joined[rank], *parts)

    def _chain(self, open_: _Open) -> Chain:
        nodes, factors = [], []
        at: _Open | None = open_
        while at is not None:
            nodes.append(at.node)
            if at.rest is not None:
                factors.append(at.factor)
            at = at.rest
        seed = float(self._seeds[open_.node])
        return Chain(tuple(nodes), tuple(factors), seed, open_.product * seed)


def _prefixes(steps: Steps, walks: Walks, seeds: np.ndarray) -> list[np.ndarray]:
    """The weight of the heaviest walk from a seed to each node, by layer, float64 [layers][nodes]."""
    best = [seeds]
    for _ in range(walks.last):
        layer = np.zeros_like(seeds)
        nodes = np.flatnonzero(best[-1])
        np.maximum.at(layer, *steps.spread(nodes, best[-1][nodes]))
        best.append(layer)
    if walks.ratio > 0:
        best[-1] = _settled(steps, best[-1], walks.ratio)
    return best


def _settled(steps: Steps, first: np.ndarray, ratio: float) -> np.ndarray:
    """The largest of `first` and of what any number of further steps, each times `ratio`, brings to a node.

    Only nodes that the last round raised pass anything on. It ends, as every cycle loses mass.
    """
    best = first.copy()
    raised = np.flatnonzero(best)
    while len(raised):
        ends, mass = steps.spread(raised, best[raised] * ratio)
        better = mass > best[ends]
        ends, mass = ends[better], mass[better]
        np.maximum.at(best, ends, mass)
        raised = np.unique(ends)
    return best

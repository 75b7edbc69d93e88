"""Two regions of a graph, the leakage between them, and the closed form of Lemma C.7."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from aeg.core.operator import Operator
from aeg.propagation import make

FloatArray = npt.NDArray[np.float64]


def relevant_mass(restart: float, gamma: npt.ArrayLike, epsilon: npt.ArrayLike) -> FloatArray:
    r"""Return φ_R = (ρ + (1−ρ)ε) / (ρ + (1−ρ)(γ+ε)), the mass of the region that holds all seeds.

    Args:
        restart: ρ, the probability of jumping back to the seeds.
        gamma: γ, of leaving the relevant region in one step.
        epsilon: ε, of coming back in one step.

    Source: Lemma C.7.

    Example:
        >>> float(relevant_mass(0.5, 0.0, 0.3)), float(relevant_mass(0.5, 1.0, 0.0))
        (1.0, 0.5)
    """
    stay = restart + (1 - restart) * np.asarray(epsilon, dtype=np.float64)
    return np.asarray(stay / (stay + (1 - restart) * np.asarray(gamma, dtype=np.float64)))


def two_regions(
    sizes: tuple[int, int], gamma: float, epsilon: float, rng: np.random.Generator
) -> tuple[Operator, npt.NDArray[np.bool_]]:
    """Return a graph in which every relevant node leaves with γ and every other one comes back with ε, exactly.

    Each region is a ring; every pair across is tied by one small weight. Nodes are shuffled.

    Args:
        sizes: relevant and other nodes, at least 3 each.
        gamma: γ, in (0, 1).
        epsilon: ε, in (0, 1).
        rng: shuffles the nodes.

    Returns:
        The operator, and which nodes are relevant.
    """
    relevant, other = sizes
    label = rng.permutation(relevant + other)
    edges, weights = [], []
    for start, size, cross, leave in ((0, relevant, other, gamma), (relevant, other, relevant, epsilon)):
        nodes = start + np.arange(size)
        edges.append(np.stack([nodes, start + (np.arange(size) + 1) % size]))
        weights.append(np.full(size, cross * (1 - leave) / leave / 2))
    left, right = np.meshgrid(np.arange(relevant), relevant + np.arange(other), indexing="ij")
    edges.append(np.stack([left.ravel(), right.ravel()]))
    weights.append(np.ones(relevant * other))
    index, weight = label[np.concatenate(edges, axis=1)], np.concatenate(weights)
    inside = np.zeros(relevant + other, dtype=bool)
    inside[label[:relevant]] = True
    return Operator.from_edges(len(label), torch.from_numpy(index), torch.from_numpy(weight)), inside


def blocks(
    sizes: tuple[int, int], degree: float, across: float, rng: np.random.Generator
) -> tuple[Operator, npt.NDArray[np.bool_]]:
    """Return a graph of two regions whose nodes differ in degree and leakage, as a real graph's do.

    Args:
        sizes: relevant and other nodes.
        degree: mean edges a node brings; a node's share of the ends follows a Pareto law.
        across: share of the edges whose second end is drawn from both regions alike.
        rng: draws the graph.
    """
    total = sum(sizes)
    inside = np.arange(total) < sizes[0]
    pull = rng.pareto(2.0, total) + 1
    count = int(degree * total)
    first = rng.choice(total, count, p=pull / pull.sum())
    second = np.empty(count, dtype=np.int64)
    free = rng.random(count) < across
    for chosen, pool in (
        (free, np.ones(total, bool)),
        (~free & inside[first], inside),
        (~free & ~inside[first], ~inside),
    ):
        nodes = np.flatnonzero(pool)
        second[chosen] = rng.choice(nodes, int(chosen.sum()), p=pull[nodes] / pull[nodes].sum())
    return Operator.from_edges(total, torch.from_numpy(np.stack([first, second]))), inside


def scores(op: Operator, seeds: FloatArray, restart: float) -> FloatArray:
    """Return the engine's PPR scores, float64 [nodes, columns], for seeds of the same shape."""
    found, _ = make("ppr", restart=restart, tol=1e-7)(op, torch.from_numpy(seeds).float())
    return found.double().numpy()


@dataclass(frozen=True)
class Leakage:
    """Leakage of many regions of one graph.

    Attributes:
        gamma, epsilon: by degree, [regions]: the share of a region's (its complement's) edge weight that crosses.
        gamma_walk, epsilon_walk: by the walk's own mass, [regions]: what a step of this PPR loses and wins back.
        mass: φ_R by the engine, [regions].
    """

    gamma: FloatArray
    epsilon: FloatArray
    gamma_walk: FloatArray
    epsilon_walk: FloatArray
    mass: FloatArray


def leakage(op: Operator, inside: npt.NDArray[np.bool_], found: FloatArray) -> Leakage:
    """Return the leakage of each region.

    Averaged over the walk's own mass r, γ = Σ_{v∈R} r_v P(v→I) / Σ_{v∈R} r_v and likewise ε, Lemma C.7 is an
    identity on every graph as long as all seeds lie in R; averaged by degree it is an approximation.

    Args:
        op: the graph, n nodes.
        inside: bool [n, regions].
        found: PPR scores, [n, regions], of seeds inside each region.
    """
    weights, degree = op.scipy(), op.degree.numpy()[:, None]
    member = inside.astype(np.float64)
    cross = degree - weights @ member  # weight from each node to the outside
    cross[~inside] = (degree - cross)[~inside]  # of an outside node: to the inside
    step = np.divide(cross, degree, out=np.zeros_like(cross), where=degree > 0)
    outside = 1 - member
    return Leakage(
        _share(cross, np.broadcast_to(degree, cross.shape), member),
        _share(cross, np.broadcast_to(degree, cross.shape), outside),
        _share(found * step, found, member),
        _share(found * step, found, outside),
        (found * member).sum(axis=0),
    )


def entity_leakage(op: Operator, atoms: int, inside: npt.NDArray[np.bool_]) -> FloatArray:
    """Return γ of moves from entity to entity: directly, or through one atom (the walk watched on entities only).

    A step to an atom outside R counts as leaving in γ a step, although the next one often comes back; a graph of
    entities alone has only moves. What comes back through an atom to where it began is no move, as no edge of a graph
    of entities alone leads there.

    Args:
        op: the graph, atoms first.
        atoms: how many.
        inside: bool [nodes, regions].
    """
    weights, degree = op.scipy(), op.degree.numpy()
    member = inside[atoms:].astype(np.float64)
    up, across = weights[:atoms, atoms:], weights[atoms:, atoms:]
    spread = np.divide(1.0, degree[:atoms], out=np.zeros(atoms), where=degree[:atoms] > 0)[:, None]
    back = (up.power(2).T @ spread)[:, 0]
    stay = across @ member + up.T @ (spread * (up @ member)) - back[:, None] * member
    total = ((degree[atoms:] - back)[:, None] * member).sum(axis=0)
    return np.asarray(1 - np.divide((stay * member).sum(axis=0), total, out=np.ones_like(total), where=total > 0))


def _share(part: FloatArray, whole: Any, member: FloatArray) -> FloatArray:
    total = (whole * member).sum(axis=0)
    return np.asarray(np.divide((part * member).sum(axis=0), total, out=np.zeros_like(total), where=total > 0))

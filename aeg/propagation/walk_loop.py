"""The compiled loop of random walks with restart."""
# ruff: noqa: ANN001, ANN201, ANN202, D417
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit

_GOLDEN, _MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11, _1 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11), np.uint64(1)
_UNIT = 2.0**-53


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def _mixed(x):
    """SplitMix64, as `aeg.propagation.counter_rng.splitmix64`."""
    z = x + _GOLDEN
    z = (z ^ (z >> _30)) * _MIX1
    z = (z ^ (z >> _27)) * _MIX2
    return z ^ (z >> _31)


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def _uniform(key, counter):
    """A number in [0, 1); `key` is mixed already."""
    return np.float64(_mixed(key ^ _mixed((np.uint64(counter) << _1) + _1)) >> _11) * _UNIT


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def _drawn(draw, mass, guide):
    """The first seed whose cumulated mass exceeds `draw` of the whole; `guide` says where to look."""
    target = draw * mass[-1]
    at = guide[int(draw * len(guide))]
    while at > 0 and mass[at - 1] > target:
        at -= 1
    while at < len(mass) - 1 and mass[at] <= target:
        at += 1
    return at


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def _followed(at, draw, crow, col, reach):
    """A neighbour of `at`, by weight."""
    low, high = crow[at], crow[at + 1] - 1
    target = at + draw
    while low < high:  # the first entry whose reach exceeds the target, at most the row's last
        middle = (low + high) // 2
        if reach[middle] > target:
            high = middle
        else:
            low = middle + 1
    return col[low]


@njit(nogil=True, error_model="numpy", cache=True)
def prepared(given, nodes, mass, guide):
    """Gather the seeds of one query, and where a search in their cumulated mass may begin.

    Args:
        given: float32 [nodes], not negative.
        nodes: int32 [nodes], room for the seeds, ascending.
        mass: float64 [nodes], room for their cumulated mass.
        guide: int32 [nodes], room for a seed for each stretch of the mass, as many as there are seeds.

    Returns:
        the number of seeds.
    """
    count, total = 0, 0.0
    for node in range(len(given)):
        if given[node] > 0:
            total += given[node]
            nodes[count], mass[count] = node, total
            count += 1
    at = 0
    for stretch in range(count):
        while at < count - 1 and mass[at] * count <= stretch * total:
            at += 1
        guide[stretch] = at
    return count


@njit(nogil=True, error_model="numpy", cache=True)
def walks(crow, col, reach, nodes, mass, guide, key, restart, length, at, counts, touched):
    """Walk from the seeds of one query, move by move, and count the visits.

    Args:
        crow, col: the matrix.
        reach: float64 [entries], row + cumulated share of the row's weight.
        nodes, mass: the seeds, ascending, and their cumulated mass, float64.
        guide: int32 [buckets], a seed to begin the search at, for each stretch of the mass.
        key: of the query, uint64, mixed.
        restart, length: ρ and the moves of a walk.
        at: int64 [walks], room for where they are.
        counts: int32 [nodes], zero.
        touched: int32, room for the nodes that are visited.

    Returns:
        how many nodes were visited; their numbers begin `touched`, their visits stand in `counts`.
    """
    found, size = 0, len(at)
    for move in range(length + 1):
        for walk in range(size):
            node = at[walk]
            if move == 0:
                node = nodes[_drawn(_uniform(key, walk), mass, guide)]
            elif crow[node] == crow[node + 1] or _uniform(key, walk + 3 * move * size) < restart:
                node = nodes[_drawn(_uniform(key, walk + (3 * move + 1) * size), mass, guide)]
            else:
                node = _followed(node, _uniform(key, walk + (3 * move + 2) * size), crow, col, reach)
            at[walk] = node
            if counts[node] == 0:
                touched[found] = node
                found += 1
            counts[node] += 1
    return found

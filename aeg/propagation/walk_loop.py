"""The compiled loops of random walks with restart: one query a call, all its walks move by move.

Numba looks at this file only to see whether what it keeps on disk is still good: all that the loops are made of
stands here, but for `fetch`, which asks for a cache line and changes no result.
"""
# ruff: noqa: ANN001, ANN201, ANN202, D417
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit

from aeg.core.kernels.loops import fetch

AHEAD = 16  # walks ahead, where what they read is asked for
BUCKETS = 4096  # of the guide into the cumulated seeds, at most
WINDOW = 8  # entries that are compared at once
_GOLDEN, _MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11, _1, _32 = (np.uint64(number) for number in (30, 27, 31, 11, 1, 32))
_LOW = np.uint64(0xFFFFFFFF)
_21 = np.uint64(21)
_UNIT = 2.0**-53


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def _mixed(x):
    """SplitMix64, as `aeg.propagation.counter_rng.splitmix64`."""
    z = x + _GOLDEN
    z = (z ^ (z >> _30)) * _MIX1
    z = (z ^ (z >> _27)) * _MIX2
    return z ^ (z >> _31)


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def _bits(key, counter):
    """53 random bits; `key` is mixed already."""
    return _mixed(key ^ _mixed((np.uint64(counter) << _1) + _1)) >> _11


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def _window(number, low, size):
    """Where a row's entries are looked at first: about as far along it as the draw is along the numbers."""
    guess = np.int64(((number >> _32) * np.uint64(size)) >> _32) - WINDOW // 2
    return low + max(min(guess, size - WINDOW), 0)


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def _within(step, at, last, number):
    """The first of the `WINDOW` entries from `at` on whose reach exceeds the draw, or the last of them, or `last`."""
    at += 4 * ((step[at + 3] <= number) & (at + 3 < last))
    at += 2 * ((step[at + 1] <= number) & (at + 1 < last))
    return at + ((step[at] <= number) & (at < last))


@njit(nogil=True, error_model="numpy", cache=True)
def _searched(step, low, rest, number):
    """The first of `rest` entries from `low` on whose reach exceeds the draw, or the last."""
    while rest > 1:
        half = rest >> 1
        low += half * (step[low + half - 1] <= number)
        rest -= half
    return low


@njit(nogil=True, error_model="numpy", cache=True)
def packed(crow, col, weight, degree, out):
    """Write cumulated share of the row's weight · 2³², rounded, in the upper half and the column in the lower one.

    Args:
        crow, col, weight: the matrix.
        degree: float64 [nodes].
        out: uint64 [entries + WINDOW], zero.
    """
    for row in range(len(crow) - 1):
        total = 0.0
        for entry in range(crow[row], crow[row + 1]):
            total += weight[entry]
            reach = min(np.rint(total / degree[row] * 4294967296.0), 4294967295.0)
            out[entry] = (np.uint64(reach) << _32) | np.uint64(col[entry])


@njit(nogil=True, error_model="numpy", cache=True)
def content_key(nodes, values):
    """Return the key of a column's content, as `aeg.propagation.counter_rng.column_keys`; zeros add nothing."""
    key, bits = np.uint64(0), values.view(np.int32)
    for at in range(len(nodes)):
        number = _mixed(_mixed(np.uint64(nodes[at])) + np.uint64(bits[at]))
        key += number if bits[at] != 0 else np.uint64(0)
    return np.int64(key)


@njit(nogil=True, error_model="numpy", cache=True)
def prepared(given, mass, ends):
    """Cumulate the seeds of one query, and note where each stretch of the mass begins.

    Args:
        given: float32 [seeds], not negative, of sum 1 up to rounding.
        mass: float64 [seeds + WINDOW], for the cumulated mass; what follows it is infinite.
        ends: int32 [buckets + 1], for the number of seeds whose cumulated mass lies before each stretch, of which
            there are as many as buckets to a mass.

    Returns:
        stretches to a mass of 1.
    """
    buckets, total, scale = len(ends) - 1, 0.0, float(len(ends) - 1)
    ends[:] = 0
    for seed in range(len(given)):
        total += given[seed]
        mass[seed] = total
        ends[min(int(total * scale), buckets - 1) + 1] = seed + 1
    mass[len(given) :] = np.inf
    for bucket in range(1, buckets + 1):
        ends[bucket] = max(ends[bucket], ends[bucket - 1])
    return scale


@njit(nogil=True, error_model="numpy", cache=True)
def _draw(key, move, restart, draws, returns):
    """Draw for each walk whether it goes back to a seed, and the number that says where to."""
    size = len(draws)
    for walk in range(size):
        back = np.float64(_bits(key, walk + 3 * move * size)) * _UNIT < restart
        draws[walk] = _bits(key, walk + (3 * move + 2 - back) * size)
        returns[walk] = back


@njit(nogil=True, error_model="numpy", cache=True)
def _part(key, move, crow, step, rooms):
    """List the walks that go back, and those that go on with where they look; return how many go back."""
    at, draws, returns, back, onward, look = rooms
    size, backs, onwards = len(at), 0, 0
    for walk in range(size):
        node = at[walk]
        fetch(crow, at[min(walk + AHEAD, size - 1)])
        low, rest = crow[node], crow[node + 1] - crow[node]
        if rest == 0 and not returns[walk]:
            draws[walk], returns[walk] = _bits(key, walk + (3 * move + 1) * size), 1
        back[backs] = onward[onwards] = walk
        first = _window((draws[walk] >> _21) << _32, low, rest)
        fetch(step, first)
        fetch(step, first + WINDOW - 1)
        look[onwards] = first
        backs += returns[walk]
        onwards += 1 - returns[walk]
    return backs


@njit(nogil=True, error_model="numpy", cache=True)
def _go_on(count, crow, step, rooms):
    """Move the first `count` walks of those that go on along an edge, by weight."""
    at, draws, _, _, onward, look = rooms
    for place in range(count):
        walk, first = onward[place], np.int64(look[place])
        node = at[walk]
        low, last = np.int64(crow[node]), np.int64(crow[node + 1]) - 1
        number = ((draws[walk] >> _21) << _32) | _LOW
        entry = _within(step, first, last, number)
        if entry == first and first > low:
            entry = _searched(step, low, first - low + 1, number)
        elif entry == first + WINDOW - 1 and entry < last:
            entry = _searched(step, entry, last - entry + 1, number)
        at[walk] = np.int32(step[entry] & _LOW)


@njit(nogil=True, error_model="numpy", cache=True)
def _go_back(count, nodes, mass, ends, scale, rooms):
    """Move the first `count` walks of those that go back to the first seed whose cumulated mass exceeds the draw."""
    at, draws, _, back, _, look = rooms
    last = len(nodes) - 1
    whole = mass[last] * _UNIT
    for place in range(count):
        low = ends[min(int(np.float64(draws[back[place]]) * whole * scale), len(ends) - 2)]
        fetch(mass, low)
        fetch(nodes, low)
        look[place] = low
    for place in range(count):
        walk, seed = back[place], np.int64(look[place])
        target = np.float64(draws[walk]) * whole
        while mass[seed + WINDOW - 1] <= target:
            seed += WINDOW
        seed += 4 * (mass[seed + 3] <= target)
        seed += 2 * (mass[seed + 1] <= target)
        seed += mass[seed] <= target
        at[walk] = nodes[min(seed, last)]


@njit(nogil=True, error_model="numpy", cache=True)
def walks(crow, step, nodes, mass, ends, scale, own, salt, restart, length, rooms, counts, touched):
    """Walk from the seeds of one query, move by move, and count the visits.

    Args:
        crow: of the matrix.
        step: uint64 [entries + WINDOW], see `packed`.
        nodes, mass, ends, scale: the seeds, ascending, and what `prepared` made of them.
        own, salt: int64, the query's key and what the run's seed adds to it.
        restart, length: ρ and the moves of a walk.
        rooms: int32, uint64, int32, int32, int32, int32 [walks]: where walks are, what they draw, whether they go
            back, which do, which do not, and where the latter look.
        counts: int32 [nodes], zero.
        touched: int32, room for the nodes that are visited and one more.

    Returns:
        how many nodes were visited; their numbers begin `touched`, their visits stand in `counts`.
    """
    at, draws, returns, back, _, _ = rooms
    key = _mixed(_mixed(np.uint64(own) + np.uint64(salt)))
    found, size = 0, len(at)
    for move in range(length + 1):
        if move == 0:
            backs = size
            for walk in range(size):
                back[walk], draws[walk] = walk, _bits(key, walk)
        else:
            _draw(key, move, restart, draws, returns)
            backs = _part(key, move, crow, step, rooms)
            _go_on(size - backs, crow, step, rooms)
        _go_back(backs, nodes, mass, ends, scale, rooms)
        for walk in range(size):
            node = at[walk]
            fetch(counts, at[min(walk + AHEAD, size - 1)])
            touched[found] = node
            found += counts[node] == 0
            counts[node] += 1
    return found


@njit(nogil=True, error_model="numpy", cache=True)
def told(nodes, counts, whole, to, out, query):
    """Write visits / whole of each visited node to row `to[node]` of column `query`, where there is one; clear them."""
    width = out.shape[1]
    for place in range(len(nodes)):
        node = nodes[place]
        row = to[node]
        later = to[nodes[min(place + AHEAD, len(nodes) - 1)]]
        fetch(out, min(later, len(out) - 1) * width + query)
        if row < len(out):
            out[row, query] = np.float32(counts[node]) / whole
        counts[node] = 0

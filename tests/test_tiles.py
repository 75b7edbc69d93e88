"""Tiles of sparse seeds: the same as those that are taken from a dense tensor."""

from __future__ import annotations

import pytest
import torch

from aeg import Operator, Seeds
from aeg.core.kernels import tiles
from aeg.propagation import make
from aeg.propagation.contract import sample_graph

LISTS = [
    [(0, 0.5), (7, 0.25), (7, 0.25)],
    [],
    [(3, 0.1), (39, 3.0), (5, 1e-3)],
    [(1, 0.0), (2, 0.0)],
    [(4, float("nan")), (5, 1.0)],
    [(6, float("inf"))],
    [(8, -0.5), (9, 1.0)],
    [(10, 1e-30)],
]


@pytest.mark.parametrize("weights", [None, torch.rand(40, generator=torch.Generator().manual_seed(2)) + 0.5])
@pytest.mark.parametrize("position", [None, torch.randperm(40, generator=torch.Generator().manual_seed(1))])
@pytest.mark.parametrize("compiled", [True, False])
def test_scattered_is_what_load_gives(compiled, position, weights):
    seeds = Seeds.from_lists(40, LISTS)
    queries = len(LISTS)
    (expected,) = tiles.load(
        seeds.tile(0, queries), position, weights, compiled, tiles.room(seeds.weights, 40, 16, 1).fill_(torch.nan)
    )
    into = tiles.room(seeds.weights, 40, 16, 1)[0].fill_(torch.nan)
    found = tiles.scattered(*seeds.entries(0, queries), position, weights, into)
    assert found.bad.nonzero().squeeze(1).tolist() == [4, 5, 6]
    assert found.zero.nonzero().squeeze(1).tolist() == [1, 3, 4, 5, 6, *range(queries, 16)]
    assert torch.equal(found.bad, expected.bad)
    assert torch.equal(found.zero, expected.zero)
    assert torch.allclose(found.seeds, expected.seeds, rtol=3e-7, atol=0)
    assert int((found.seeds != 0).sum()) == 2 + 3 + 1


@pytest.mark.parametrize("name", ["ppr", "katz", "label_propagation", "weighted_bfs"])
def test_seeds_and_their_tensor_score_alike(name):
    op: Operator = sample_graph()
    seeds = Seeds.from_lists(op.num_nodes, [*LISTS[:4], LISTS[7]])
    scores, info = make(name)(op, seeds)
    dense, other = make(name)(op, seeds.tile(0, 5))
    assert torch.allclose(scores, dense, rtol=1e-4, atol=1e-7)
    assert torch.equal(info.flags["zero_seeds"], other.flags["zero_seeds"])
    assert info.flags["zero_seeds"].tolist() == [False, True, False, True, False]

"""Pairs above a threshold against a dense brute force."""

from __future__ import annotations

import pytest
import torch

from aeg.backends.nearest import cap as cap_module
from aeg.backends.nearest import neighbours_above
from aeg.backends.nearest import pairs as pairs_module


def clustered(rows: int = 500, dim: int = 16, seed: int = 0) -> torch.Tensor:
    """Noisy copies of 40 centres, and every tenth row a duplicate of an earlier one."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(40, dim, generator=generator)
    which = torch.randint(40, (rows,), generator=generator)
    vectors = centres[which] + 0.4 * torch.randn(rows, dim, generator=generator)
    vectors[10::10] = vectors[5 : rows - 5 : 10][: len(vectors[10::10])]
    return torch.nn.functional.normalize(vectors, dim=1)


def brute_force(vectors, threshold, top_k):
    wide = vectors.double()
    norms = wide.norm(dim=1)
    cosines = ((wide @ wide.T) / (norms[:, None] * norms[None, :])).clamp(-1, 1).float()
    limit = torch.tensor(threshold).float()
    size = len(vectors)
    above = {(i, j) for i in range(size) for j in range(i + 1, size) if cosines[i, j] >= limit}
    kept = set()
    for i in range(size):
        near = [j for j in range(size) if j != i and (min(i, j), max(i, j)) in above]
        near.sort(key=lambda j: (-float(cosines[i, j]), j))
        kept |= {(min(i, j), max(i, j)) for j in near[:top_k]}
    ordered = sorted(kept)
    return ordered, [float(cosines[pair]) for pair in ordered], len(above) - len(kept)


@pytest.mark.parametrize(("threshold", "top_k"), [(0.8, 1000), (0.8, 3), (0.5, 1), (0.95, 2), (-1.0, 7)])
def test_equals_brute_force(threshold, top_k):
    vectors = clustered(500 if threshold > 0 else 120)
    found = neighbours_above(vectors, threshold, top_k)
    pairs, cosines, cut = brute_force(vectors, threshold, top_k)
    assert list(zip(found.src.tolist(), found.dst.tolist(), strict=True)) == pairs
    assert found.cosine.tolist() == pytest.approx(cosines, abs=1.2e-7)
    assert found.cut == cut
    assert len(pairs) > 50
    assert (cut > 0) == (top_k < 1000)


def test_blocks_do_not_change_the_result(monkeypatch):
    vectors, threads = clustered(seed=4), torch.get_num_threads()
    whole = neighbours_above(vectors, 0.7, 4)
    monkeypatch.setattr(pairs_module, "_CPU_BLOCK", 37)
    blocked = neighbours_above(vectors, 0.7, 4)
    assert torch.get_num_threads() == threads
    for one, other in zip(whole[:3], blocked[:3], strict=True):
        assert torch.equal(one, other)
    assert whole.cut == blocked.cut


@pytest.mark.parametrize(("threshold", "top_k"), [(0.8, 1000), (0.8, 3), (-1.0, 7)])
@pytest.mark.parametrize("block", [16, 1024])
def test_too_many_pairs_to_hold_are_cut_row_by_row(monkeypatch, threshold, top_k, block):
    vectors = clustered(150, seed=2)
    whole = neighbours_above(vectors, threshold, top_k)
    monkeypatch.setattr(pairs_module, "_MOST", 20)
    monkeypatch.setattr(pairs_module, "_CPU_BLOCK", block)
    held = neighbours_above(vectors, threshold, top_k)
    for one, other in zip(whole[:3], held[:3], strict=True):
        assert torch.equal(one, other)
    assert whole.cut == held.cut


def test_the_cap_does_not_depend_on_how_many_entries_are_ranked_at_once(monkeypatch):
    vectors = clustered(seed=5)
    whole = neighbours_above(vectors, 0.5, 2)
    monkeypatch.setattr(cap_module, "_ENTRIES", 9)
    assert torch.equal(neighbours_above(vectors, 0.5, 2).dst, whole.dst)
    assert whole.cut > 1000


def test_cap_keeps_a_pair_that_one_side_alone_counts_among_its_nearest():
    """Four duplicates of row 0 and one row near them: the row keeps its nearest though none of those keeps it."""
    base = torch.tensor([1.0, 0.0, 0.0])
    vectors = torch.stack([base] * 5 + [torch.tensor([0.96, 0.28, 0.0])])
    found = neighbours_above(vectors, 0.9, top_k=1)
    assert list(zip(found.src.tolist(), found.dst.tolist(), strict=True)) == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]
    assert found.cut == 10
    assert found.cosine.tolist() == pytest.approx([1, 1, 1, 1, 0.96])
    assert found.cosine[:4].tolist() == [1.0] * 4


def test_threshold_is_inclusive_and_duplicates_reach_one():
    vectors = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.8, 0.6], [0.0, 1.0]])
    assert neighbours_above(vectors, 0.8, 10).src.tolist() == [0, 0, 1]
    assert neighbours_above(vectors, 1.0, 10).dst.tolist() == [2]
    assert neighbours_above(vectors, 0.8001, 10).src.tolist() == [1]


@pytest.mark.parametrize("rows", [0, 1])
def test_nothing_to_pair(rows):
    found = neighbours_above(clustered()[:rows], 0.5, 3)
    assert [len(part) for part in found[:3]] == [0, 0, 0]
    assert found.cut == 0
    assert found.src.dtype == torch.int64


@pytest.mark.parametrize(
    ("vectors", "threshold", "top_k"),
    [
        (torch.zeros(3), 0.5, 1),
        (torch.zeros(3, 2), 0.5, 1),
        (torch.full((2, 2), torch.nan), 0.5, 1),
        (torch.eye(2), 1.5, 1),
        (torch.eye(2), 0.5, 0),
    ],
)
def test_bad_arguments(vectors, threshold, top_k):
    with pytest.raises(ValueError, match="expected"):
        neighbours_above(vectors, threshold, top_k)

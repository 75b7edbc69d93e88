"""The one tie rule."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.core.ranking import TIE, TopK, top_k


def reference(column: list[float], k: int) -> list[int]:
    """Sort by score, chain neighbours closer than TIE, order each chain by row, drop what is not positive."""
    order = sorted(range(len(column)), key=lambda row: (-column[row], row))
    groups: list[list[int]] = []
    for row in order:
        if groups and column[groups[-1][-1]] - column[row] <= TIE * abs(column[groups[-1][-1]]):
            groups[-1].append(row)
        else:
            groups.append([row])
    ranked = [row for group in groups for row in sorted(group) if column[row] > 0]
    return ranked[:k]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.25 + 1e-8, 0.5, 1.0]), min_size=1, max_size=200), st.integers(1, 30))
def test_ties_go_by_row(values, k):
    column = torch.tensor(values)
    rows, scores = top_k(column.unsqueeze(1), k)
    expected = reference(column.tolist(), k)
    assert rows[0].tolist() == expected + [-1] * (k - len(expected))
    assert scores[0].tolist() == [column[row].item() for row in expected] + [0.0] * (k - len(expected))


def test_a_tie_at_rank_k_that_is_wider_than_the_candidates():
    rows, _ = top_k(torch.full((500, 2), 0.5), 3)
    assert rows.tolist() == [[0, 1, 2]] * 2


def test_order_of_columns_does_not_matter():
    scores = torch.rand(300, 7, generator=torch.Generator().manual_seed(0)).round(decimals=2)
    together = top_k(scores, 10)[0]
    assert torch.equal(together, torch.cat([top_k(scores[:, [i]], 10)[0] for i in range(7)]))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 2500), st.integers(1, 120), st.sampled_from(["plain", "coarse", "rare", "near", "one"]))
def test_the_quick_selection_is_no_other_definition(rows, k, kind):
    """Long columns, where only a part is looked at, against sorting them whole; also by parts, and in float64."""
    generator = torch.Generator().manual_seed(rows * 131 + k)
    scores = torch.rand(rows, 5, generator=generator)
    if kind == "coarse":
        scores = scores.round(decimals=2)
    elif kind == "rare":
        scores = scores * (scores > 0.98)
    elif kind == "near":  # chains of ties that go far beyond rank k
        scores = 0.5 + scores * 1e-5
    elif kind == "one":
        scores = (scores > 0.5).float()
    whole = [reference(scores[:, column].tolist(), rows) for column in range(5)]
    found, values = top_k(scores, k)
    for column in range(5):
        expected = whole[column][:k]
        assert found[column].tolist() == expected + [-1] * (k - len(expected))
        assert values[column, : len(expected)].tolist() == scores[expected, column].tolist()
    parts = TopK(k)
    for part in scores.split(2, dim=1):
        parts.add(part)
    assert torch.equal(parts.result()[0], found)
    assert torch.equal(top_k(scores.double(), k)[0], found)


def test_many_columns_and_none(monkeypatch):
    from aeg.core import ranking

    scores = torch.rand(50, 30, generator=torch.Generator().manual_seed(2))
    monkeypatch.setattr(ranking, "_BATCH", 7)
    parts = TopK(4)
    for part in scores.split(3, dim=1):
        parts.add(part)
    assert torch.equal(parts.result()[0], top_k(scores, 4)[0])
    assert TopK(3).result()[0].shape == (0, 3)
    assert top_k(scores[:0], 2)[0].tolist() == [[-1, -1]] * 30

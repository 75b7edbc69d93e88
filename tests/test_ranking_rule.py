"""The one tie rule."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.core.ranking import TIE, top_k


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

"""The largest and the sum of groups of rows."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.retrieval.incidence import Incidence


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8)), max_size=30),
    st.integers(0, 4),
)
def test_groups_equal_their_definition(groups, columns, pairs, width):
    pairs = [(group, member) for group, member in pairs if group < groups and member < columns]
    values = torch.rand(columns, width + 1, generator=torch.Generator().manual_seed(len(pairs)))[:, :width]
    incidence = Incidence(torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T, groups, columns)
    largest, total = incidence.largest(values), incidence.total(values)
    for group in range(groups):
        members = sorted({member for at, member in pairs if at == group})
        assert torch.equal(largest[group], values[members].amax(0) if members else torch.zeros(width))
        torch.testing.assert_close(total[group], values[members].sum(0))


def test_the_largest_is_the_same_without_the_sparse_product():
    pairs = torch.randint(0, 40, (2, 200), generator=torch.Generator().manual_seed(0))
    incidence = Incidence(pairs, 45, 40)
    values = torch.rand(40, 5, generator=torch.Generator().manual_seed(1))
    sparse = incidence.largest(values)
    incidence.device = torch.device("meta")  # what runs on a GPU
    assert torch.equal(incidence.largest(values), sparse)

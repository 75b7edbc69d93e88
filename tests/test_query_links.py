"""Links as arrays: what a list of links becomes, the strongest of candidates, uniting, and the view as records."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.errors import DataError
from aeg.query import Link, Links

FOUND = st.lists(
    st.builds(Link, st.integers(0, 5), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from("abc")), max_size=6
)
LISTS = st.lists(FOUND, max_size=5)


def strongest(found: list[Link], top_k: int | None = None) -> tuple[Link, ...]:
    """The definition: of each entity the largest weight, among equals the first; ordered by weight and row."""
    best: dict[int, Link] = {}
    for link in found:
        if link.entity not in best or link.weight > best[link.entity].weight:
            best[link.entity] = link
    return tuple(sorted(best.values(), key=lambda link: (-link.weight, link.entity))[:top_k])


@settings(max_examples=150, deadline=None)
@given(LISTS, st.sampled_from([None, 1, 2]))
def test_the_strongest_links_are_those_of_the_definition(lists, top_k):
    links = Links.from_lists(lists)
    assert list(links) == [strongest(found) for found in lists]
    assert [links[at] for at in range(len(links))] == list(links)
    assert links.sizes.tolist() == [len(found) for found in links]
    flat = [(query, link) for query, found in enumerate(lists) for link in found]
    cut = Links.strongest(
        len(lists),
        torch.tensor([query for query, _ in flat], dtype=torch.int64),
        torch.tensor([link.entity for _, link in flat], dtype=torch.int64),
        torch.tensor([link.weight for _, link in flat], dtype=torch.float64),
        torch.arange(len(flat)),
        [link.mention for _, link in flat],
        top_k,
    )
    assert list(cut) == [strongest(found, top_k) for found in lists]


@settings(max_examples=100, deadline=None)
@given(LISTS, st.data())
def test_united_links_are_those_of_both(lists, data):
    which = sorted(data.draw(st.sets(st.integers(0, max(len(lists) - 1, 0)), max_size=len(lists))))
    others = data.draw(st.lists(FOUND, min_size=len(which), max_size=len(which)))
    united = Links.from_lists(lists).united(torch.tensor(which, dtype=torch.int64), Links.from_lists(others))
    expected = [strongest(list(strongest(found))) for found in lists]
    for row, other in zip(which, others, strict=True):
        expected[row] = strongest([*expected[row], *strongest(other)])
    assert list(united) == expected


def test_a_sequence_of_records():
    links = Links.from_lists([[Link(3, 0.5, "x")], [], [Link(1, 1.0, "y"), Link(2, 1.0, "z")]])
    assert len(links) == 3
    assert links[-1] == (Link(1, 1.0, "y"), Link(2, 1.0, "z"))
    assert links[1:] == [(), links[2]]
    assert links.queries.tolist() == [0, 2, 2]
    with pytest.raises(IndexError):
        links[3]


def test_the_digest_is_of_everything_that_counts():
    base = [[Link(0, 0.5, "ab"), Link(1, 0.5, "c")], []]
    changed = (
        [[], base[0]],
        [[Link(0, 0.5, "a"), Link(1, 0.5, "bc")], []],
        [[Link(0, 0.25, "ab"), Link(1, 0.5, "c")], []],
        [[Link(0, 0.5, "ab"), Link(2, 0.5, "c")], []],
    )
    digests = {Links.from_lists(lists).digest() for lists in (base, *changed)}
    assert len(digests) == 5
    padded = Links.from_lists(base)
    same = Links(padded.ptr, padded.entities, padded.weights, padded.mention + 1, ("unused", *padded.mentions))
    assert same.digest() == padded.digest()


def test_links_that_cannot_be_are_named():
    with pytest.raises(DataError, match="entities 9 to 9, expected 0 to 4"):
        Links.from_lists([[Link(9, 1.0, "x")]]).check(5)
    with pytest.raises(DataError, match="weight nan"):
        Links.from_lists([[Link(1, float("nan"), "x")]]).check(5)

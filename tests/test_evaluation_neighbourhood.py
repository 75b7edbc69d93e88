"""Neighbourhood quality with a scripted judge."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_helpers import Scripted, asker, tagged

from aeg.backends.llm.base import Failure
from aeg.errors import ConfigError, DataError
from aeg.evaluation.neighbourhood import CRITERIA, Neighbourhood, NeighbourhoodMeasure, most_mentioned, render

BIX = Neighbourhood("Bix", ("Bix barks.", "Bix barks.", "Ann owns\nBix."), ("Ann", "dog"))
ANN = Neighbourhood("Ann", ("Ann owns Bix.",))


def reply(*scores: int) -> str:
    return json.dumps({"reason": "so", **dict(zip(CRITERIA, scores, strict=True))})


def by_entity(request):
    return reply(8, 9, 10, 4, 6) if tagged(request, "entity") == "Bix" else reply(6, 7, 10, 10, 1)


def test_scores_and_means_by_hand():
    backend = Scripted(model="judge", script=by_entity)
    scores = NeighbourhoodMeasure().score([BIX, ANN], asker(backend))
    assert {name: values.tolist() for name, values in scores.values.items()} == {
        "correctness": [8, 6],
        "relevance": [9, 7],
        "consistency": [10, 10],
        "redundancy": [4, 10],
        "comprehensiveness": [6, 1],
    }
    assert scores.means() == {
        "correctness": 7,
        "relevance": 8,
        "consistency": 10,
        "redundancy": 7,
        "comprehensiveness": 3.5,
    }
    assert scores.entities == ("Bix", "Ann")
    assert scores.left_out == (0, 0)
    assert [request.subject for request in backend.asked] == ["Bix", "Ann"]
    assert tagged(backend.asked[0], "neighbourhood") == (
        "Facts:\n[1] Bix barks.\n[2] Bix barks.\n[3] Ann owns Bix.\nNeighbouring entities:\n[1] Ann\n[2] dog"
    )


def test_the_cap_is_kept_and_counted():
    backend = Scripted(model="judge", script=by_entity)
    scores = NeighbourhoodMeasure(max_facts=2, max_neighbours=1).score([BIX, ANN], asker(backend))
    assert scores.left_out == (2, 0)
    assert "owns" not in tagged(backend.asked[0], "neighbourhood")
    assert "dog" not in tagged(backend.asked[0], "neighbourhood")


def test_an_empty_neighbourhood_is_skipped_and_a_failed_one_counted():
    def script(request):
        return Failure("server", "500") if tagged(request, "entity") == "Ann" else by_entity(request)

    lonely = Neighbourhood("Zed")
    backend = Scripted(model="judge", script=script)
    scores = NeighbourhoodMeasure().score([lonely, BIX, ANN], asker(backend))
    np.testing.assert_array_equal(scores.values["correctness"], [np.nan, 8, np.nan])
    assert scores.counts()["redundancy"] == {"scored": 1, "skipped": 1, "failed": 1}
    assert scores.means()["correctness"] == 8
    assert "Zed" not in {request.subject for request in backend.asked}


def test_nothing_scored_has_no_mean():
    scores = NeighbourhoodMeasure().score([Neighbourhood("Zed")], asker(Scripted(script=by_entity)))
    assert all(np.isnan(value) for value in scores.means().values())


@pytest.mark.parametrize("bad", [reply(11, 9, 10, 4, 6), reply(-1, 9, 10, 4, 6), '{"correctness": 3}'])
def test_scores_out_of_range_or_missing_are_asked_for_again_then_failed(bad):
    backend = Scripted(model="judge", script=lambda request: bad)
    scores = NeighbourhoodMeasure().score([BIX], asker(backend))
    assert scores.failed.tolist() == [True]
    assert len(backend.asked) == 3
    assert np.isnan(scores.values["relevance"][0])


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 4), max_size=12), st.integers(1, 12))
def test_most_mentioned_is_a_stable_order(mentions, n):
    found = most_mentioned(mentions, n)
    assert len(found) == min(n, len(mentions))
    assert found == most_mentioned(dict(reversed(mentions.items())), n)
    left = [name for name in mentions if name not in found]
    assert all((-mentions[a], a) < (-mentions[b], b) for a in found for b in left)


@given(st.lists(st.text(max_size=4), max_size=6), st.lists(st.text(max_size=4), max_size=6), st.integers(1, 7))
def test_what_is_shown_and_what_is_left_out_add_up(facts, neighbours, cap):
    text, left_out = render(Neighbourhood("x", tuple(facts), tuple(neighbours)), cap, cap)
    shown = sum(line.startswith("[") for line in text.split("\n"))
    assert shown + left_out == len(facts) + len(neighbours)
    assert left_out == max(0, len(facts) - cap) + max(0, len(neighbours) - cap)


def test_no_judge_and_bad_numbers_are_refused():
    with pytest.raises(ConfigError, match=r"llm\.judge"):
        NeighbourhoodMeasure().score([BIX])
    with pytest.raises(ConfigError, match="max_facts"):
        NeighbourhoodMeasure(max_facts=0)
    with pytest.raises(DataError, match="n: got 0"):
        most_mentioned({"a": 1}, 0)

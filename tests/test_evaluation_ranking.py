from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.errors import DataError
from aeg.evaluation import ranking_metrics

KS = (1, 2, 5, 10)
DOCS = [f"d{i}" for i in range(14)]

# Few distinct scores, so that ties are frequent; trec_eval orders equal scores by falling document id.
scored = st.dictionaries(st.sampled_from(DOCS), st.integers(0, 3).map(float), max_size=12)
golds = st.sets(st.sampled_from([*DOCS, "never", "retrieved"]), min_size=1, max_size=12)


def in_order(scores: dict[str, float]) -> list[str]:
    by_id = sorted(scores, reverse=True)
    return sorted(by_id, key=lambda doc: -scores[doc])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(scored, golds), min_size=1, max_size=5))
def test_agrees_with_ir_measures(queries):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ir_measures import RR, R, iter_calc, nDCG
    qrels = {f"q{i}": dict.fromkeys(gold, 1) for i, (_, gold) in enumerate(queries)}
    run = {f"q{i}": scores for i, (scores, _) in enumerate(queries) if scores}
    theirs = {"mrr": RR}
    for k in KS:
        theirs |= {f"recall@{k}": R @ k, f"mrr@{k}": RR @ k, f"ndcg@{k}": nDCG @ k}
    # RR@k comes from another provider with another tie rule: it sees the ranks as scores.
    untied = {f"q{i}": {d: -float(r) for r, d in enumerate(in_order(scores))} for i, (scores, _) in enumerate(queries)}
    ours = ranking_metrics([in_order(scores) for scores, _ in queries], [gold for _, gold in queries], KS)
    assert ours.keys() == theirs.keys()
    cut = [measure for name, measure in theirs.items() if name.startswith("mrr@")]
    rest = [measure for measure in theirs.values() if measure not in cut]
    found = [*iter_calc(rest, qrels, run), *iter_calc(cut, qrels, untied)]
    expected = {(m.query_id, str(m.measure)): m.value for m in found}
    for name, measure in theirs.items():
        values = [expected.get((f"q{i}", str(measure)), 0.0) for i in range(len(queries))]
        assert ours[name].dtype == np.float64
        np.testing.assert_allclose(ours[name], values, atol=1e-9, err_msg=name)


def test_known_values():
    values = ranking_metrics([["x", "a", "y", "b"]], [["a", "b", "c"]], ks=[2, 4])
    assert values["recall@2"][0] == pytest.approx(1 / 3)
    assert values["recall@4"][0] == pytest.approx(2 / 3)
    assert values["mrr"][0] == 0.5
    gain = 1 / np.log2(3) + 1 / np.log2(5)
    assert values["ndcg@4"][0] == pytest.approx(gain / (1 + 1 / np.log2(3) + 0.5))


def test_query_without_gold_is_nan_and_empty_ranking_is_zero():
    values = ranking_metrics([["a"], []], [[], ["a"]], ks=[1])
    for name in values:
        assert np.isnan(values[name][0])
        assert values[name][1] == 0


def test_no_queries():
    assert all(value.shape == (0,) for value in ranking_metrics([], [], ks=[2, 5]).values())


@pytest.mark.parametrize(
    ("ranked", "gold", "ks", "words"),
    [
        ([["a", "b", "a"]], [["a"]], [2], "ranking 0: document 'a' stands twice"),
        ([["a"]], [], [2], "1 rankings, 0 gold sets"),
        ([["a"]], [["a"]], [0, 2], "at least 1"),
    ],
)
def test_errors(ranked, gold, ks, words):
    with pytest.raises(DataError, match=words):
        ranking_metrics(ranked, gold, ks)

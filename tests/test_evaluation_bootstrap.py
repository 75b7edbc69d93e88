from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aeg.errors import DataError
from aeg.evaluation import aggregate, bootstrap_difference, bootstrap_mean, compare
from aeg.evaluation import bootstrap as module

VALUES = np.random.default_rng(5).beta(0.6, 0.4, size=400)


def test_agrees_with_scipy():
    ours = bootstrap_mean(VALUES, seed=3)
    theirs = stats.bootstrap((VALUES,), np.mean, method="percentile", n_resamples=10_000, rng=1)
    assert ours.value == pytest.approx(VALUES.mean())
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.002)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.002)


def test_interval_covers_the_true_mean_about_95_times_in_100():
    rng = np.random.default_rng(0)
    samples = rng.beta(2, 3, size=(400, 60))
    inside = 0
    for sample in samples:
        interval = bootstrap_mean(sample, resamples=400)
        inside += interval.low <= 0.4 <= interval.high
    assert 0.90 <= inside / 400 <= 0.98


def test_seed_decides_and_level_widens():
    one, same, other = (bootstrap_mean(VALUES, resamples=500, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert (one.low, one.high) != (other.low, other.high)
    narrow = bootstrap_mean(VALUES, resamples=500, seed=1, level=0.5)
    assert one.low < narrow.low < narrow.value < narrow.high < one.high


def test_memory_tiles_do_not_change_the_result(monkeypatch):
    whole = bootstrap_mean(VALUES, resamples=300)
    monkeypatch.setattr(module, "_CELLS", 400 * 7 + 3)
    tiled = bootstrap_mean(VALUES, resamples=300)
    assert (tiled.low, tiled.high) == pytest.approx((whole.low, whole.high), abs=1e-12)


def test_missing_values_are_excluded_and_counted():
    with_gaps = np.concatenate([VALUES, [np.nan] * 7])
    gaps, plain = bootstrap_mean(with_gaps, resamples=200), bootstrap_mean(VALUES, resamples=200)
    assert (gaps.n, gaps.excluded) == (400, 7)
    assert (gaps.value, gaps.low, gaps.high) == (plain.value, plain.low, plain.high)


@pytest.mark.parametrize("values", [[], [np.nan, np.nan]])
def test_nothing_to_average(values):
    interval = bootstrap_mean(values, resamples=10)
    assert np.isnan([interval.value, interval.low, interval.high]).all()
    assert (interval.n, interval.excluded) == (0, len(values))
    assert bootstrap_difference(values, values, resamples=10).p_value is None


def test_one_query_gives_a_point():
    interval = bootstrap_mean([0.25], resamples=10)
    assert (interval.value, interval.low, interval.high, interval.n) == (0.25, 0.25, 0.25, 1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from("abc"), st.sampled_from("xy")), min_size=1))
def test_nested_strata_are_means_of_means(queries):
    values, types, parts = (list(column) for column in zip(*queries, strict=True))
    expected = np.mean(
        [
            np.mean(
                [
                    np.mean([v for v, t, p in queries if (t, p) == (kind, part)])
                    for part in sorted({p for _, t, p in queries if t == kind})
                ]
            )
            for kind in sorted(set(types))
        ]
    )
    interval = bootstrap_mean(values, strata=list(zip(types, parts, strict=True)), resamples=20)
    assert interval.value == pytest.approx(expected)
    assert interval.low - 1e-9 <= interval.high
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9


def test_stratified_resampling_stays_within_strata():
    interval = bootstrap_mean([1.0] * 30 + [0.0] * 10, strata=["a"] * 30 + ["b"] * 10, resamples=100)
    assert (interval.value, interval.low, interval.high) == pytest.approx((0.5, 0.5, 0.5))
    plain = bootstrap_mean([1.0] * 30 + [0.0] * 10, resamples=100)
    assert plain.low < 0.75 < plain.high


def test_paired_difference():
    noise = np.random.default_rng(1).normal(0, 0.02, size=400)
    better = bootstrap_difference(VALUES + 0.01 + noise, VALUES, resamples=2000)
    assert 0 < better.low < better.value < better.high
    assert better.p_value == pytest.approx(2 / 2001)
    same = bootstrap_difference(VALUES + noise - noise.mean(), VALUES, resamples=2000)
    assert same.low < 0 < same.high
    assert same.p_value > 0.5
    assert bootstrap_difference(VALUES, VALUES, resamples=50).p_value == 1.0
    gaps = bootstrap_difference([1.0, np.nan, 0.5], [0.0, 0.0, np.nan], resamples=50)
    assert (gaps.value, gaps.n, gaps.excluded) == (1.0, 1, 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bootstrap_mean([1.0], resamples=0), "0 resamples"),
        (lambda: bootstrap_mean([1.0], level=1.0), "level 1.0"),
        (lambda: bootstrap_mean([np.inf]), "finite"),
        (lambda: bootstrap_mean([[1.0]]), r"shape \[1, 1\]"),
        (lambda: bootstrap_mean([1.0], strata=["a", "b"]), "2 labels for 1 values"),
        (lambda: bootstrap_mean([1.0, 1.0], strata=[("a",), ("a", "b")]), "equally nested"),
        (lambda: bootstrap_difference([1.0], [1.0, 0.0]), "the same queries"),
        (lambda: aggregate("m", {"mrr": [1.0]}, ["all"]), "'all'"),
        (lambda: aggregate("m", {"mrr": [1.0, 0.0]}, ["a"]), r"mrr: got values of shape \[2\]"),
        (lambda: aggregate("m", {"mrr": [1.0]}, ["a"], parts=[]), "0 parts"),
    ],
)
def test_errors(call, words):
    with pytest.raises(DataError, match=words):
        call()


def test_aggregate_rows():
    values = {"recall@2": [1.0, 0.0, 1.0, np.nan, 0.5], "mrr": [0.5, 0.5, 0.5, 0.5, 0.0]}
    rows = aggregate("ppr", values, ["b", "b", "a", "a", ""], resamples=200)
    assert [row.metric for row in rows] == ["recall@2"] * 5 + ["mrr"] * 5
    assert [row.group for row in rows[:5]] == ["all", "(no type)", "a", "b", "macro"]
    assert [row.value for row in rows[:5]] == pytest.approx([0.625, 0.5, 1.0, 0.5, 2 / 3])
    assert [(row.n, row.excluded) for row in rows[:5]] == [(4, 1), (1, 0), (1, 1), (2, 0), (4, 1)]
    assert all(row.ci_low <= row.value <= row.ci_high for row in rows)
    assert {row.method for row in rows} == {"ppr"}


def test_parts_weigh_alike():
    # Type t: part x has three questions (mean 1), part y one (0): 1/2. Type u: only in x.
    values = {"mrr": [1.0, 1.0, 1.0, 0.0, 0.25]}
    rows = aggregate("m", values, list("ttttu"), parts=list("xxxyx"), resamples=50)
    assert {row.group: row.value for row in rows} == {"all": 0.65, "t": 0.5, "u": 0.25, "macro": 0.375}
    untyped = aggregate("m", values, [""] * 5, parts=list("xxxyx"), resamples=50)
    assert untyped[-1].group == "macro"
    assert untyped[-1].value == pytest.approx((3.25 / 4 + 0) / 2)


def test_untyped_single_part_has_only_all():
    assert [row.group for row in aggregate("m", {"mrr": [1.0, 0.0]}, ["", ""], resamples=10)] == ["all"]


def test_a_metric_does_not_depend_on_the_others():
    types = ["a", "b"] * 200
    both = aggregate("m", {"x": VALUES, "y": 1 - VALUES}, types, resamples=100)
    alone = aggregate("m", {"y": 1 - VALUES}, types, resamples=100)
    for row, single in zip(both[len(alone) :], alone, strict=True):
        assert (row.group, row.n) == (single.group, single.n)
        assert (row.value, row.ci_low, row.ci_high) == pytest.approx((single.value, single.ci_low, single.ci_high))


def test_compare_rows():
    first, second = {"mrr": VALUES, "extra": VALUES}, {"mrr": VALUES - 0.125}
    rows = compare(("a", first), ("b", second), ["t"] * 400, resamples=100)
    assert [(row.method, row.metric, row.group) for row in rows] == [
        ("a - b", "mrr", group) for group in ("all", "t", "macro")
    ]
    assert [row.value for row in rows] == pytest.approx([0.125] * 3)
    assert all(row.p_value == pytest.approx(2 / 101) for row in rows)

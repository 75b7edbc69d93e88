"""The statistics of comparisons: the rates they promise, and agreement with references."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from aeg.errors import DataError
from aeg.evaluation.bootstrap import bootstrap_differences
from aeg.experiment.compare.statistics import detectable, holm, randomisation_p

NAN = float("nan")


def scores(rng: np.random.Generator, systems: int, questions: int) -> np.ndarray:
    """Scores of one method under several seeds: a question's difficulty, and chance; recall@5 of four gold passages."""
    difficulty = rng.beta(1.2, 0.6, size=questions)
    return rng.binomial(4, np.broadcast_to(difficulty, (systems, questions))) / 4


def within(count: int, trials: int, rate: float) -> bool:
    """Whether a count is what chance gives in all but one of 10,000 cases."""
    low, high = stats.binom.interval(1 - 1e-4, trials, rate)
    return bool(low <= count <= high)


@pytest.mark.parametrize("graded", [False, True])
def test_a_method_against_itself_is_rejected_in_five_percent_of_the_cases(graded):
    rng = np.random.default_rng(1)
    p_values: list[float] = []
    for draw in range(40):  # the rows of one call share their signs, hence several calls
        pairs = [scores(rng, 2, 120) for _ in range(50)]
        blur = rng.normal(0, 0.1, size=(50, 120)) if graded else np.zeros((50, 120))
        p_values += randomisation_p([a - b + c for (a, b), c in zip(pairs, blur, strict=True)], flips=999, seed=draw)
    assert within(sum(p <= 0.05 for p in p_values), len(p_values), 0.05)
    for level in (0.01, 0.2):
        count = sum(p <= level for p in p_values)
        if graded:
            assert within(count, len(p_values), level)
        else:  # few values are possible, so that sums are often equal, and count against the difference
            assert count <= stats.binom.ppf(1 - 1e-4, len(p_values), level)


def test_holm_keeps_the_rate_over_a_whole_table():
    rng = np.random.default_rng(2)
    tables = 200
    wrong = 0
    for table in range(tables):
        runs = scores(rng, 7, 100)
        p_values = randomisation_p(list(runs[1:] - runs[0]), flips=499, seed=table)
        wrong += min(holm(p_values)) <= 0.05
    assert wrong <= stats.binom.ppf(1 - 1e-4, tables, 0.05)


def test_a_real_difference_of_the_detectable_size_is_found_in_eighty_percent_of_the_cases():
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 0.3, size=(2000, 150))
    size = detectable(rng.normal(0, 0.3, size=200_000)) * math.sqrt(200_000 / 150)
    p_values: list[float] = []
    for at in range(0, 2000, 50):
        p_values += randomisation_p(list(noise[at : at + 50] + size), flips=499, seed=at)
    assert sum(p <= 0.05 for p in p_values) / 2000 == pytest.approx(0.8, abs=0.04)


def test_paired_intervals_cover_at_their_rate():
    rng = np.random.default_rng(4)
    covered = trials = 0
    grid = stats.beta(1.2, 0.6).ppf((np.arange(100_000) + 0.5) / 100_000)
    truth = float((grid - grid**1.3).mean())  # over difficulties: the questions are a sample
    for draw in range(20):
        difficulty = rng.beta(1.2, 0.6, size=(50, 200))
        ours, theirs = rng.binomial(4, difficulty) / 4, rng.binomial(4, difficulty**1.3) / 4
        found = bootstrap_differences(list(ours), list(theirs), resamples=600, seed=draw)
        covered += sum(interval.low <= truth <= interval.high for interval in found)
        trials += 50
    assert within(covered, trials, 0.95)


@pytest.mark.parametrize("n", [6, 40])
def test_the_randomisation_test_agrees_with_scipys(n):
    rng = np.random.default_rng(n)
    d = rng.normal(0.2, 0.5, size=n)
    theirs = stats.permutation_test(
        (d, np.zeros(n)),
        lambda a, b: abs((a - b).mean()),
        permutation_type="samples",
        n_resamples=20_000,
        rng=1,
        alternative="greater",
    )
    (ours,) = randomisation_p([d], flips=20_000)
    assert ours == pytest.approx(theirs.pvalue, abs=0.01)


def test_the_randomisation_test_leaves_out_and_weighs():
    d = np.array([0.3, 0.1, NAN, 0.4, 0.2, 0.5, 0.1])
    (left_out,) = randomisation_p([d], flips=2000)
    (shorter,) = randomisation_p([d[~np.isnan(d)]], flips=2000)
    assert left_out == pytest.approx(2 / 64, abs=0.012) == pytest.approx(shorter, abs=0.015)
    assert randomisation_p([np.zeros(5)]) == [1.0]
    assert math.isnan(randomisation_p([np.full(5, NAN)])[0])
    (nothing,) = randomisation_p([[1.0] + [0.01, -0.02] * 10], [[0.0] + [1.0] * 20], flips=2000)
    assert nothing > 0.05  # the large difference has no weight
    assert randomisation_p([d], flips=500, seed=3) == randomisation_p([d], flips=500, seed=3)
    with pytest.raises(DataError, match="finite or NaN"):
        randomisation_p([[1.0, math.inf]])
    with pytest.raises(DataError, match="weights"):
        randomisation_p([[1.0, 2.0]], [[1.0]])


def by_closed_testing(p_values: list[float]) -> list[float]:
    """Holm's method by its definition: a hypothesis falls with every intersection that has it, by Bonferroni."""
    n = len(p_values)
    subsets = [s for size in range(1, n + 1) for s in itertools.combinations(range(n), size)]
    worst = {subset: min(1.0, len(subset) * min(p_values[at] for at in subset)) for subset in subsets}
    return [max(worst[subset] for subset in subsets if at in subset) for at in range(n)]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_closed_bonferroni_testing(p_values):
    assert holm(p_values) == pytest.approx(by_closed_testing(p_values), abs=1e-12)


def test_holm_by_hand():
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])
    corrected = holm([0.04, NAN, 0.03])
    assert corrected[0] == pytest.approx(0.06)
    assert math.isnan(corrected[1])
    assert holm([]) == []


def test_the_detectable_difference():
    d = np.random.default_rng(5).normal(0.1, 0.4, size=400)
    assert detectable(d) == pytest.approx((1.959964 + 0.841621) * d.std(ddof=1) / 20, rel=1e-6)
    assert detectable([*d.tolist(), NAN]) == pytest.approx(detectable(d))
    assert detectable(np.zeros(9)) == 0
    assert math.isnan(detectable([0.3]))

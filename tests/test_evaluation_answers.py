"""Exact match, token F1 and ROUGE-L, and how their gaps are counted in the averages."""

from __future__ import annotations

import re
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeg.core.records import Query
from aeg.errors import DataError
from aeg.evaluation.aggregate import aggregate
from aeg.evaluation.answers import answer_metrics, exact_match, normalised, references_of, tally, token_f1

words = st.sampled_from(["the", "A", "an", "Bix", "bix,", "dog", "dog.", "U.S.", "青岛", "Zürich", "--", "1998", "  "])
texts = st.lists(words, max_size=6).map(" ".join)


def squad_tokens(text: str) -> list[str]:
    """SQuAD's formula step by step: lower, punctuation out, articles out, white space."""
    kept = "".join(char for char in text.lower() if char not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def squad_f1(answer: str, gold: str) -> float:
    ours, theirs = squad_tokens(answer), squad_tokens(gold)
    if not ours or not theirs:
        return float(ours == theirs)
    left = list(theirs)
    shared = 0
    for token in ours:
        if token in left:
            left.remove(token)
            shared += 1
    if shared == 0:
        return 0.0
    precision, recall = shared / len(ours), shared / len(theirs)
    return 2 * precision * recall / (precision + recall)


def longest_common(ours: list[str], theirs: list[str]) -> int:
    table = [[0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]
    for i, a in enumerate(ours):
        for j, b in enumerate(theirs):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(texts, texts)
def test_exact_match_and_f1_are_squads(answer, gold):
    assert exact_match(answer, gold) == float(" ".join(squad_tokens(answer)) == " ".join(squad_tokens(gold)))
    assert token_f1(answer, gold) == pytest.approx(squad_f1(answer, gold))


@given(texts, texts)
def test_f1_is_symmetric_bounded_and_one_for_a_match(answer, gold):
    assert token_f1(answer, gold) == token_f1(gold, answer)
    assert 0.0 <= token_f1(answer, gold) <= 1.0
    assert exact_match(answer, gold) <= token_f1(answer, gold)


@given(texts, st.lists(texts, min_size=1, max_size=4), texts)
def test_one_more_alias_never_lowers_a_score(answer, references, alias):
    few = answer_metrics([answer], [references], rouge=False).values
    more = answer_metrics([answer], [[*references, alias]], rouge=False).values
    for name, values in few.items():
        assert not more[name][0] < values[0]


@given(texts)
def test_normalised_text_has_no_case_no_punctuation_and_no_articles(text):
    once = normalised(text)
    assert once == once.strip().lower()
    assert not set(once) & set(string.punctuation)
    assert not {"a", "an", "the"} & set(once.split())


def test_known_values():
    scores = answer_metrics(
        ["The Eiffel Tower, in Paris!", "in 1998", ""],
        [["Eiffel Tower", "the eiffel tower in Paris"], ["1998"], ["Bix"]],
    )
    assert scores.values["exact_match"].tolist() == [1.0, 0.0, 0.0]
    assert scores.values["token_f1"].tolist() == pytest.approx([1.0, 2 / 3, 0.0])
    # ROUGE-L has no articles to drop: 5 tokens each for the second reference; 1 of 2 against 1 of 1.
    assert scores.values["rouge_l"].tolist() == pytest.approx([1.0, 2 / 3, 0.0])
    assert not scores.failed.any()


@given(st.lists(st.sampled_from(["red", "dog", "ice", "ann", "1998"]), min_size=1, max_size=7), st.data())
def test_rouge_l_is_the_f_measure_of_the_longest_common_subsequence(ours, data):
    theirs = data.draw(st.lists(st.sampled_from(["red", "dog", "ice", "ann", "1998"]), min_size=1, max_size=7))
    found = answer_metrics([" ".join(ours)], [[" ".join(theirs)]]).values["rouge_l"][0]
    assert found == pytest.approx(2 * longest_common(ours, theirs) / (len(ours) + len(theirs)))


def test_rouge_l_stems_and_takes_the_order_into_account():
    values = answer_metrics(["dogs barking", "barks dog"], [["dog barks"], ["dog barks"]]).values["rouge_l"]
    assert values.tolist() == pytest.approx([1.0, 0.5])


def test_rouge_l_skips_a_script_that_it_cannot_read():
    scores = answer_metrics(["青岛", "x"], [["青岛"], ["青岛", "x"]])
    assert scores.values["exact_match"].tolist() == [1.0, 1.0]
    np.testing.assert_array_equal(scores.values["rouge_l"], [np.nan, 1.0])
    assert scores.counts()["rouge_l"] == {"scored": 1, "skipped": 1, "failed": 0}


def test_no_reference_is_skipped_no_answer_has_failed_and_neither_is_zero():
    scores = answer_metrics(["Bix", None, None, "dog"], [["Bix"], ["Bix"], [], ["", "  "]])
    for values in scores.values.values():
        np.testing.assert_array_equal(values, [1.0, np.nan, np.nan, np.nan])
    assert scores.failed.tolist() == [False, True, False, False]
    assert scores.counts()["token_f1"] == {"scored": 1, "skipped": 2, "failed": 1}


def test_a_blank_alias_does_not_match_the_empty_answer():
    assert answer_metrics([""], [["Bix", ""]], rouge=False).values["exact_match"][0] == 0.0
    assert references_of(Query("q", "?", answer="", aliases=("Bix", " "))) == ("Bix",)


def test_lengths_must_agree():
    with pytest.raises(DataError, match="2 answers for 1"):
        answer_metrics(["a", "b"], [["a"]])


def test_counts_stand_beside_every_mean_and_types_weigh_equally():
    answers = ["Bix", "no", None, "Bix", "Bix"]
    scores = answer_metrics(answers, [["Bix"], ["Bix"], ["Bix"], [], ["Bix"]], rouge=False)
    types = ["fact", "fact", "fact", "fact", "why"]
    rows = aggregate("rag", scores.values, types, resamples=100, failed=scores.failures())
    by_group = {row.group: row for row in rows if row.metric == "exact_match"}
    counted = {group: (row.n, row.skipped, row.failed, row.excluded) for group, row in by_group.items()}
    assert counted == {"all": (3, 1, 1, 2), "fact": (2, 1, 1, 2), "why": (1, 0, 0, 0), "macro": (3, 1, 1, 2)}
    assert by_group["all"].value == pytest.approx(2 / 3)
    assert by_group["fact"].value == 0.5
    assert by_group["macro"].value == 0.75


def test_failures_do_not_move_an_average():
    values = {"x": [1.0, np.nan, 0.5]}
    without = aggregate("m", values, ["", "", ""], resamples=100)[0]
    with_them = aggregate("m", values, ["", "", ""], resamples=100, failed={"x": [False, True, False]})[0]
    assert (without.value, without.ci_low, without.failed) == (with_them.value, with_them.ci_low, 0)
    assert (with_them.failed, with_them.skipped) == (1, 0)


@pytest.mark.parametrize(
    ("failed", "message"),
    [
        ({"x": [True, False]}, "failed has a value"),
        ({"x": [False]}, "shape"),
        ({"y": [False, False]}, "'y' has no values"),
    ],
)
def test_failures_that_contradict_the_values_are_refused(failed, message):
    with pytest.raises(DataError, match=message):
        aggregate("m", {"x": [1.0, np.nan]}, ["", ""], resamples=100, failed=failed)


def test_tally_refuses_a_failed_question_with_a_value():
    with pytest.raises(DataError, match="question 1"):
        tally(np.array([np.nan, 0.0]), np.array([False, True]))

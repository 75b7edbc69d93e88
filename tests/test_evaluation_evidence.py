from __future__ import annotations

import functools
import hashlib
import json
import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.core.idf import Idf
from aeg.core.keys import atom_text
from aeg.core.text import content_stems, sentences
from aeg.errors import DataError
from aeg.evaluation import EvidenceMeasure
from aeg.evaluation.reading import Portion, Reader


def token_spans(texts):
    """A judge's tokenizer for tests: words and single punctuation marks."""
    return [[match.span() for match in re.finditer(r"\w+|[^\w\s]", text)] for text in texts]


@functools.cache
def bucket(stem):
    return int(hashlib.sha1(stem.encode()).hexdigest(), 16)


class Judge:
    """A real, if plain, encoder: hashed bags of stems; it keeps what it was asked to encode."""

    def __init__(self, dimensions: int = 512) -> None:
        self.dimensions = dimensions
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> torch.Tensor:
        self.asked += texts
        vectors = torch.zeros(len(texts), self.dimensions)
        for row, text in enumerate(texts):
            buckets = [bucket(stem) % self.dimensions for stem in content_stems(text) or {""}]
            vectors[row, buckets] = 1
        return torch.nn.functional.normalize(vectors, dim=1)


PASSAGES = [
    "Surgery is the most common treatment of basal cell carcinoma. It removes the tumour.",
    "Radiation treats tumours that surgery cannot reach.",
    "A dietitian belongs to the care team for pancreatic cancer.",
]


def measure(budgets=(4, 8, 100), **options):
    return EvidenceMeasure(PASSAGES, Judge(), token_spans, budgets=budgets, **options)


def test_coverage_by_hand():
    idf = Idf.of(PASSAGES)
    statement = "Surgery removes tumours, and surgery is common."
    stems = ["surgeri", "remov", "tumour", "surgeri", "common"]
    # 4 tokens: "Surgery is the most"; 8: "... common treatment of basal"; a word counts once per occurrence in g.
    scores = measure().score([[statement]], {"m": [PASSAGES]})["m"]
    total = sum(idf(stem) for stem in stems)
    assert scores.coverage[4][0] == pytest.approx(2 * idf("surgeri") / total)
    assert scores.coverage[8][0] == pytest.approx((2 * idf("surgeri") + idf("common")) / total)
    assert scores.coverage[100][0] == pytest.approx(1.0)


def test_idf_of_a_word_that_no_passage_has():
    idf = Idf.of(PASSAGES)
    assert idf("zzz") == pytest.approx(math.log(2 * 3 + 2))
    assert idf("surgeri") == pytest.approx(math.log(1 + 1.5 / 2.5))
    assert Idf.of(["same"])("same") > 0


def test_similarity_is_the_best_sentence_not_the_whole_text():
    judge = Judge()
    scores = measure(budgets=(13, 100)).score([["Surgery removes the tumour."]], {"m": [PASSAGES[:1]]})["m"]
    first, second = (judge([sentence]) for sentence in sentences(PASSAGES[0]))
    gold = judge(["Surgery removes the tumour."])
    assert scores.similarity[100][0] == pytest.approx(float(max((gold @ first.T), (gold @ second.T))), abs=1e-6)
    cut = judge(["It removes"])  # 11 tokens make the first sentence, the budget ends in the second
    assert scores.similarity[13][0] == pytest.approx(float(max((gold @ first.T), (gold @ cut.T))), abs=1e-6)


def test_mean_over_statements_and_nan_without_any():
    statements = [["Surgery is common.", "Zebras fly."], [], ["It is."]]
    scores = measure().score(statements, {"m": [PASSAGES] * 3})["m"]
    assert scores.coverage[100][0] == pytest.approx(0.5)
    assert np.isnan(scores.coverage[100][1:]).all()
    assert np.isnan(scores.similarity[100][1:]).all()
    assert (scores.statements, scores.skipped) == (2, 1)
    assert set(scores.metrics()) == {f"evidence_{m}@{b}" for m in ("coverage", "similarity") for b in (4, 8, 100)}


def test_nothing_retrieved_scores_zero_and_is_counted_as_unfilled():
    scores = measure().score([["Surgery is common."]] * 2, {"m": [[], ["", " "]]})["m"]
    for values in scores.metrics().values():
        assert values.tolist() == [0.0, 0.0]
    assert scores.unfilled == {4: 2, 8: 2, 100: 2}


def test_last_text_cut_or_left_out():
    texts = ["one two three", "four five six", "seven"]
    reader = Reader(token_spans)
    reader.tokenise(texts)
    assert reader.within(texts, 4) == ([Portion("one two three"), Portion("four five six", 4)], True)
    assert reader.within(texts, 4, partial=False) == ([Portion("one two three")], True)
    assert reader.within(texts, 2, partial=False) == ([Portion("one two three", 7)], True)
    assert reader.within(texts, 3) == ([Portion("one two three")], True)
    assert reader.within(texts, 7) == ([Portion(text) for text in texts], True)
    assert reader.within(texts, 8) == ([Portion(text) for text in texts], False)


def test_a_word_that_the_budget_cuts_does_not_count():
    def letters(texts):
        return [[(i, i + 1) for i in range(len(text))] for text in texts]

    texts = ["surgery helps"]
    scores = EvidenceMeasure(PASSAGES, Judge(), letters, budgets=(6, 7)).score([["surgery"]], {"m": [texts]})["m"]
    assert (scores.coverage[6][0], scores.coverage[7][0]) == (0.0, 1.0)


def test_each_distinct_text_is_encoded_once_over_all_methods():
    judge = Judge()
    scores = EvidenceMeasure(PASSAGES, judge, token_spans, budgets=(100,), tile=2).score(
        [["Surgery is common."], ["Surgery is common.", "Care teams."]],
        {"a": [PASSAGES, PASSAGES], "b": [PASSAGES[::-1], PASSAGES[1:]]},
    )
    assert len(judge.asked) == len(set(judge.asked)) == 2 + 4
    assert scores["a"].coverage[100][0] == scores["b"].coverage[100][0]


texts_strategy = st.lists(
    st.lists(st.sampled_from(["surgery", "tumour.", "the", "care", "cancer?", "zebra", "青岛。", "."])).map(" ".join),
    max_size=5,
)


@settings(max_examples=25, deadline=None)
@given(first=texts_strategy, second=texts_strategy, gold=texts_strategy, tile=st.integers(1, 5))
def test_tiles_and_other_methods_change_nothing_and_budgets_only_add(first, second, gold, tile):
    budgets = (2, 5, 50)
    queries = [gold, ["Surgery treats tumours."]]
    both = measure(budgets, tile=tile).score(queries, {"a": [first, second], "b": [second, first]})
    alone = measure(budgets).score(queries, {"a": [first, second]})
    for name, values in alone["a"].metrics().items():
        np.testing.assert_allclose(both["a"].metrics()[name], values, atol=1e-6)
        assert ((values >= 0) & (values <= 1) | np.isnan(values)).all()
    for small, large in ((2, 5), (5, 50)):
        grown = both["a"].coverage[large] - both["a"].coverage[small]
        assert (grown[~np.isnan(grown)] >= -1e-12).all()


@pytest.mark.parametrize(
    ("encode", "words"),
    [
        (lambda texts: torch.ones(len(texts), 4), "not finite unit vectors"),
        (lambda texts: torch.full((len(texts), 4), float("nan")), "not finite unit vectors"),
        (lambda texts: torch.zeros(1, 4), "got shape"),
    ],
)
def test_bad_encoders(encode, words):
    bad = EvidenceMeasure(PASSAGES, encode, token_spans)
    with pytest.raises(DataError, match=words):
        bad.score([["Surgery.", "Care."]], {"m": [PASSAGES]})


def test_other_errors():
    with pytest.raises(DataError, match="m: got texts for 2 queries, expected 1"):
        measure().score([["Surgery."]], {"m": [[], []]})
    with pytest.raises(DataError, match="at least 1"):
        measure(budgets=(0,))
    with pytest.raises(DataError, match="at least 1"):
        measure(budgets=())
    wrong = EvidenceMeasure(PASSAGES, Judge(), lambda texts: [])
    with pytest.raises(DataError, match="token_spans: got 0 lists, expected 3"):
        wrong.score([["Surgery."]], {"m": [PASSAGES]})


@pytest.mark.data
def test_deleting_most_atoms_lowers_both_on_medical(data_root):
    folder = data_root / "medical"
    chunks = json.loads((folder / "chunks.json").read_text())
    questions = json.loads((folder / "questions.json").read_text())[::26]
    lines = (folder / "extraction.jsonl").read_text().splitlines()
    atoms = sorted({atom_text(atom["text"]) for line in lines for atom in json.loads(line)["atoms"]})
    assert len(atoms) == 5600
    judge = Judge()
    vectors, asked = judge(atoms), judge([question["question"] for question in questions])

    def ranked(rows):
        order = torch.argsort(asked @ vectors[rows].T, dim=1, descending=True, stable=True)[:, :120]
        return [[atoms[rows[i]] for i in row] for row in order.tolist()]

    few = np.random.default_rng(0).choice(len(atoms), size=100, replace=False).tolist()
    scores = EvidenceMeasure(chunks, judge, token_spans).score(
        [question["evidence"] for question in questions], {"all": ranked(range(len(atoms))), "few": ranked(few)}
    )
    assert scores["all"].skipped == 0
    for budget in (256, 512, 1024):
        assert scores["all"].unfilled[budget] == 0
        assert scores["few"].coverage[budget].mean() < scores["all"].coverage[budget].mean() - 0.15
        assert scores["few"].similarity[budget].mean() < scores["all"].similarity[budget].mean() - 0.15

"""Baselines without a graph (dense, BM25) and the union of a question's effective queries."""

from __future__ import annotations

import json
import math
import re

import pytest
import Stemmer
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.core.records import Passage
from aeg.errors import ConfigError, DataError
from aeg.retrieval import baselines
from aeg.retrieval.baselines import bm25, dense, searchable
from aeg.retrieval.merge import merge_effective


def unit(seed: int, rows: int, dim: int = 8) -> torch.Tensor:
    values = torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))
    return values / values.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("k", [1, 5, 40])
def test_dense_equals_a_full_sort(k):
    vectors, queries = unit(0, 23), unit(1, 6)
    rows, scores = dense(queries, vectors, k)
    truth = queries @ vectors.T
    assert rows.shape == scores.shape == (6, k)
    found = min(k, 23)
    torch.testing.assert_close(scores[:, :found], truth.sort(1, descending=True).values[:, :found])
    torch.testing.assert_close(truth.gather(1, rows[:, :found]), scores[:, :found])
    assert bool((rows[:, found:] == -1).all())
    assert bool((scores[:, found:] == 0).all())
    assert k < 23 or bool((scores < 0).any())  # what points away still ranks


def test_dense_ties_are_in_row_order_and_empty_input_is_no_error():
    vectors = unit(2, 3)[[0, 1, 0, 2, 0]]
    rows, _ = dense(vectors[:1], vectors, 3)
    assert rows.tolist() == [[0, 2, 4]]
    assert dense(torch.zeros(0, 8), vectors, 2)[0].shape == (0, 2)
    assert dense(vectors, torch.zeros(0, 8), 2)[0].tolist() == [[-1, -1]] * 5


def test_dense_takes_an_index_and_names_bad_input():
    class Index:
        def search(self, queries: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.tensor([[0.5, -9.0]]), torch.tensor([[3, -1]])

    rows, scores = dense(unit(3, 1), unit(0, 5), 3, index=Index())
    assert (rows.tolist(), scores.tolist()) == ([[3, -1, -1]], [[0.5, 0.0, 0.0]])
    with pytest.raises(DataError, match=r"queries \(1, 4\) and vectors \(5, 8\)"):
        dense(unit(3, 1, 4), unit(0, 5), 3)
    with pytest.raises(ConfigError, match="k: got 0"):
        dense(unit(3, 1), unit(0, 5), 0)


TEXTS = [
    "The tumours are treated with surgery.",
    "Surgery treats a tumour; surgery is common.",
    "A dog barks.",
    "",
    "Tarn Lab is led by Mira Voss.",
    "The tumours are treated with surgery.",
]


STOP = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to
was will with
"""


def plain_bm25(texts: list[str], query: str, k1: float, b: float) -> list[float]:
    """BM25 as Lucene scores it, word by word."""
    stem = Stemmer.Stemmer("english").stemWord
    stop = set(STOP.split())

    def words(text: str) -> list[str]:
        return [stem(w) for w in re.findall(r"(?u)\b\w\w+\b", text.lower()) if w not in stop]

    docs = [words(text) for text in texts]
    mean = sum(map(len, docs)) / len(docs)
    out = []
    for doc in docs:
        score = 0.0
        for word in words(query):
            df, tf = sum(word in d for d in docs), doc.count(word)
            idf = math.log(1 + (len(docs) - df + 0.5) / (df + 0.5))
            score += idf * tf / (tf + k1 * (1 - b + b * len(doc) / mean)) if tf else 0.0
        out.append(score)
    return out


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (1.2, 0.0)])
@pytest.mark.parametrize(
    "query", ["Which tumour is treated by surgery?", "Does Mira lead a lab? A lab!", "barking dogs"]
)
def test_bm25_equals_the_formula(k1, b, query):
    rows, scores = bm25(TEXTS, [query], 6, k1, b)
    truth = plain_bm25(TEXTS, query, k1, b)
    ranked = sorted((n for n, s in enumerate(truth) if s > 0), key=lambda n: (-round(truth[n], 6), n))
    assert rows[0].tolist() == ranked + [-1] * (6 - len(ranked))
    assert scores[0, : len(ranked)].tolist() == pytest.approx([truth[n] for n in ranked], rel=1e-5)


def test_bm25_ties_blocks_and_odd_input(monkeypatch):
    rows, _ = bm25(TEXTS, ["tumour surgery"], 3)
    assert rows[0].tolist() == [0, 5, 1]
    queries = ["tumour", "", "dog", "zebra", "the of", "Voss"]
    whole = bm25(TEXTS, queries, 2)
    assert whole[0][[1, 3, 4]].tolist() == [[-1, -1]] * 3
    monkeypatch.setattr(baselines, "_BLOCK", 1)
    narrow = bm25(TEXTS, queries, 2)
    assert torch.equal(whole[0], narrow[0])
    assert torch.equal(whole[1], narrow[1])
    assert bm25([], ["dog"], 2)[0].tolist() == [[-1, -1]]
    assert bm25(["", "the"], ["dog"], 2)[0].tolist() == [[-1, -1]]
    assert bm25(TEXTS, [], 2)[0].shape == (0, 2)
    assert bm25(["青岛 是 城市"], ["青岛"], 1)[0].tolist() == [[0]]
    with pytest.raises(ConfigError, match="b = 2"):
        bm25(TEXTS, ["dog"], 2, b=2)
    with pytest.raises(ConfigError, match="k: got -1"):
        bm25(TEXTS, ["dog"], -1)


def test_bm25_prints_nothing(capfd):
    bm25(TEXTS, ["dog"], 2)
    assert capfd.readouterr() == ("", "")


def test_searchable():
    assert searchable(Passage("1", "1", "text")) == "text"
    assert searchable(Passage("1", "1", "text", "Title")) == "Title\ntext"


def plain_merge(rows, scores, query_of, num_queries, k):
    """The union by definition, for scores that are equal or far apart."""
    out = []
    for query in range(num_queries):
        best: dict[int, float] = {}
        for found, values, owner in zip(rows, scores, query_of, strict=True):
            for row, score in zip(found, values, strict=True):
                if owner == query and row >= 0:
                    best[row] = max(score, best.get(row, -math.inf))
        ranked = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
        out.append(ranked + [(-1, 0.0)] * (k - len(ranked)))
    return out


@st.composite
def candidates(draw):
    num_queries, effective, width = draw(st.integers(1, 4)), draw(st.integers(0, 6)), draw(st.integers(0, 5))
    cell = st.tuples(st.integers(-1, 7), st.sampled_from([-0.5, 0.0, 0.125, 0.25, 0.5, 0.75]))
    cells = draw(st.lists(st.lists(cell, min_size=width, max_size=width), min_size=effective, max_size=effective))
    query_of = draw(st.lists(st.integers(0, num_queries - 1), min_size=effective, max_size=effective))
    return cells, query_of, width, num_queries, draw(st.integers(1, 6))


@settings(max_examples=200, deadline=None)
@given(candidates())
def test_merge_equals_the_definition(case):
    cells, query_of, width, num_queries, k = case
    rows = [[row for row, _ in line] for line in cells]
    scores = [[score for _, score in line] for line in cells]
    found_rows, found_scores = merge_effective(
        torch.tensor(rows, dtype=torch.int64).reshape(len(rows), width),
        torch.tensor(scores, dtype=torch.float32).reshape(len(rows), width),
        torch.tensor(query_of, dtype=torch.int64),
        num_queries,
        k,
    )
    truth = plain_merge(rows, scores, query_of, num_queries, k)
    assert found_rows.tolist() == [[row for row, _ in line] for line in truth]
    assert found_scores.tolist() == [[score for _, score in line] for line in truth]


def test_merge_near_ties_are_in_row_order():
    scores = torch.tensor([[0.5, 0.3], [0.5 * (1 - 6e-8), 0.1]])
    rows, _ = merge_effective(torch.tensor([[9, 4], [2, 3]]), scores, torch.tensor([0, 0]), 1, 4)
    assert rows.tolist() == [[2, 9, 4, 3]]


def test_merge_names_bad_shapes():
    rows, scores = torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3)
    with pytest.raises(DataError, match=r"rows \(2, 3\), scores \(2, 3\) and questions \(1,\)"):
        merge_effective(rows, scores, torch.tensor([0]), 1, 2)
    with pytest.raises(DataError, match="questions 0 to 5, expected 0 to 1"):
        merge_effective(rows, scores, torch.tensor([0, 5]), 2, 2)


@pytest.mark.data
def test_bm25_finds_what_is_published_on_2wiki(data_root):
    folder = data_root / "2wikimultihopqa"
    corpus = json.loads((folder / "corpus.json").read_text())
    questions = json.loads((folder / "questions.json").read_text())
    titles = [item["title"] for item in corpus]
    texts = [searchable(Passage(str(n), str(n), item["text"], item["title"])) for n, item in enumerate(corpus)]
    rows, _ = bm25(texts, [question["question"] for question in questions], 5)
    recall = [
        len({titles[row] for row in found} & set(question["gold_titles"])) / len(set(question["gold_titles"]))
        for found, question in zip(rows.tolist(), questions, strict=True)
    ]
    assert round(100 * sum(recall) / len(recall), 1) == 65.6  # published for all 1,000 questions: 65.3

"""Passages are exact stretches of their documents that cover every token."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeg.core.records import Corpus, Document
from aeg.corpus import chunk, chunker
from aeg.errors import ConfigError, DataError


def words(texts):
    return [[match.span() for match in re.finditer(r"\w+|[^\w\s]", text)] for text in texts]


def texts_of(passages):
    return [passage.text for passage in passages]


def test_windows_advance_by_size_less_overlap():
    corpus = Corpus((Document("d", "  a b c d e f g  ", "T"),))
    passages = chunk(corpus, words, max_tokens=3, overlap=1)
    assert texts_of(passages) == ["a b c", "c d e", "e f g"]
    assert [passage.id for passage in passages] == ["d#0", "d#1", "d#2"]
    assert [(passage.start, passage.end) for passage in passages] == [(2, 7), (6, 11), (10, 15)]
    assert {(passage.doc_id, passage.title) for passage in passages} == {("d", "T")}


def test_last_window_is_no_part_of_the_one_before():
    corpus = Corpus((Document("d", "a b c d e f"),))
    assert texts_of(chunk(corpus, words, max_tokens=4, overlap=2)) == ["a b c d", "c d e f"]
    assert texts_of(chunk(corpus, words, max_tokens=4, overlap=3)) == ["a b c d", "b c d e", "c d e f"]
    assert texts_of(chunk(corpus, words, max_tokens=5, overlap=0)) == ["a b c d e", "f"]


@pytest.mark.parametrize("text", ["", "  \n ", " a b ", "a b c"])
def test_short_document_is_one_whole_passage(text):
    (passage,) = chunk(Corpus((Document("d", text, "T"),)), words, max_tokens=3, overlap=1)
    assert (passage.id, passage.doc_id, passage.text, passage.title) == ("d", "d", text, "T")
    assert (passage.start, passage.end) == (0, len(text))


def test_prechunked_documents_stay_whole_and_are_not_tokenised():
    def refuse(texts):
        raise AssertionError("tokenised")

    passages = chunk(Corpus((Document("d", "a b c d e f"),), prechunked=True), refuse, max_tokens=2, overlap=0)
    assert [(passage.id, passage.text) for passage in passages] == [("d", "a b c d e f")]


def test_batches_are_bounded_and_in_order(monkeypatch):
    monkeypatch.setattr(chunker, "BATCH_TEXTS", 3)
    monkeypatch.setattr(chunker, "BATCH_CHARACTERS", 10)
    sizes = []

    def spy(texts):
        sizes.append([len(text) for text in texts])
        return words(texts)

    lengths = [1, 1, 1, 1, 9, 2, 50, 0, 4]
    corpus = Corpus(tuple(Document(str(n), "x" * length) for n, length in enumerate(lengths)))
    passages = chunk(corpus, spy)
    assert sizes == [[1, 1, 1], [1, 9], [2], [50], [0, 4]]
    assert [passage.id for passage in passages] == [str(n) for n in range(9)]


@pytest.mark.parametrize(("size", "overlap"), [(4, 4), (4, 5), (4, -1), (0, 0), (-1, 0)])
def test_sizes_out_of_range(size, overlap):
    with pytest.raises(ConfigError, match="expected"):
        chunk(Corpus((Document("d", "a"),)), words, max_tokens=size, overlap=overlap)


def test_clashing_passage_ids_are_an_error():
    corpus = Corpus((Document("d", "a b c"), Document("d#1", "a")))
    with pytest.raises(DataError, match=r"'d#1' comes from documents 'd' and 'd#1'"):
        chunk(corpus, words, max_tokens=2, overlap=0)


@given(
    texts=st.lists(st.text(st.sampled_from("ab é青 .\n\t"), max_size=60), min_size=1, max_size=4),
    size=st.integers(1, 9),
    data=st.data(),
)
def test_passages_are_exact_cover_all_tokens_and_overlap_as_asked(texts, size, data):
    overlap = data.draw(st.integers(0, size - 1))
    documents = tuple(Document(str(n), text) for n, text in enumerate(texts))
    passages = chunk(Corpus(documents), words, max_tokens=size, overlap=overlap)
    assert len({passage.id for passage in passages}) == len(passages)
    for document, tokens in zip(documents, words(texts), strict=True):
        own = [passage for passage in passages if passage.doc_id == document.id]
        held = [{n for n, (a, b) in enumerate(tokens) if p.start <= a and b <= p.end} for p in own]
        assert all(passage.text == document.text[passage.start : passage.end] for passage in own)
        assert set().union(*held) == set(range(len(tokens)))
        if len(tokens) <= size:
            assert [passage.text for passage in own] == [document.text]
            continue
        starts, ends = {a for a, _ in tokens}, {b for _, b in tokens}
        assert all(passage.start in starts and passage.end in ends for passage in own)
        assert all(len(tokens_in) == size for tokens_in in held[:-1])
        assert overlap < len(held[-1]) <= size
        assert all(len(a & b) == overlap for a, b in pairwise(held))
        assert not held[-1] <= held[-2]

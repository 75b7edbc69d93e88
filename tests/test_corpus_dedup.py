"""Documents of the same content become one, and gold follows."""

from __future__ import annotations

import unicodedata

import pytest

from aeg.core.records import Document, Query
from aeg.corpus.dedup import content_hash, unite
from aeg.errors import DataError


def test_first_of_equal_documents_is_kept_and_gold_follows():
    documents = [
        Document("a", "Ann owns Bix.", "Ann"),
        Document("b", "Zürich is old.", "Z"),
        Document("c", " Ann\n owns  Bix. ", "Ann "),
        Document("d", unicodedata.normalize("NFD", "Zürich is old."), "Z"),
        Document("e", "Ann owns Bix.", "Other title"),
    ]
    queries = [Query("q", "?", gold_doc_ids=("c", "b", "a", "d", "e")), Query("r", "?")]
    corpus = unite(documents, queries, source="test", counts={"none": 0, "some": 2})
    assert [document.id for document in corpus.documents] == ["a", "b", "e"]
    assert corpus.documents[0] is documents[0]
    assert corpus.duplicates == {"c": "a", "d": "b"}
    assert dict(corpus.counts) == {"duplicate_documents": 2, "some": 2}
    assert [query.gold_doc_ids for query in corpus.queries] == [("a", "b", "e"), ()]
    assert not corpus.prechunked


def test_titles_can_be_ignored():
    documents = [Document("a.txt", "Ann owns Bix.", "a"), Document("b.txt", "Ann owns Bix.", "b")]
    assert len(unite(documents, source="test").documents) == 2
    assert unite(documents, source="test", ignore_titles=True).duplicates == {"b.txt": "a.txt"}


def test_empty_documents_are_never_merged():
    corpus = unite([Document("a", ""), Document("b", " \n"), Document("c", "")], source="test")
    assert [document.id for document in corpus.documents] == ["a", "b", "c"]
    assert not corpus.counts


def test_title_and_text_do_not_run_together():
    assert content_hash("a b", "c") != content_hash("a", "b c")
    assert content_hash("Ann", "x") != content_hash("ann", "x")


@pytest.mark.parametrize(
    ("documents", "queries", "expected"),
    [
        ([], [], "got no documents"),
        ([Document("a", "x"), Document("a", "y")], [], "document id 'a' is given 2 times"),
        ([Document("a", "x")], [Query("q", "?"), Query("q", "?")], "question id 'q' is given 2 times"),
        ([Document("a", "x")], [Query("q", "?", gold_doc_ids=("b",))], "question 'q' has gold document 'b'"),
    ],
)
def test_inconsistent_corpora_are_errors(documents, queries, expected):
    with pytest.raises(DataError, match=expected) as caught:
        unite(documents, queries, source="x.json")
    assert str(caught.value).startswith("x.json: ")

"""JSON lines, BEIR, a folder of texts, and the sample that ships with the package."""

from __future__ import annotations

import json
import os

import pytest
from corpus_helpers import error_of

from aeg.core.records import Document, Query
from aeg.corpus import CORPORA, CorpusLoader
from aeg.errors import ConfigError


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def test_every_loader_is_registered():
    expected = ["beir", "graphrag_bench", "hotpotqa", "jsonl", "musique", "sample", "text_folder", "two_wiki"]
    assert set(expected) <= set(CORPORA)
    assert all(issubclass(CORPORA.get(name), CorpusLoader) for name in expected)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("beir", {"path": "no"}),
        ("graphrag_bench", {"path": "no"}),
        ("graphrag_bench", {"path": "no/novel-*"}),
        ("hotpotqa", {"path": "no"}),
        ("jsonl", {"documents": "no"}),
        ("musique", {"path": "no"}),
        ("text_folder", {"path": "no"}),
        ("two_wiki", {"path": "no"}),
    ],
)
def test_missing_data_set_says_how_to_get_it(name, params, tmp_path):
    text = error_of(CORPORA.make(name, **params), tmp_path)
    assert str(tmp_path / "no") in text
    assert "expected" in text
    assert "set data_root or AEG_DATA" in text


def test_folder_loaders_need_a_path():
    for name in ("beir", "text_folder"):
        with pytest.raises(ConfigError, match="path"):
            CORPORA.make(name)


DOCUMENTS = [
    {"id": 1, "text": "Ann owns Bix.", "title": "Ann"},
    {"id": "two", "text": "", "title": None},
    {"id": "3", "text": "Ann owns Bix.", "title": "Ann", "url": "x"},
]


def test_jsonl(tmp_path):
    write_lines(tmp_path / "d.jsonl", DOCUMENTS)
    question = {
        "id": 7, "question": "Who owns Bix?", "answer": "Ann", "aliases": ["A."], "type": "easy",
        "gold_doc_ids": ["3", 1, "two"], "evidence": ["Ann owns Bix."], "note": 1,
    }  # fmt: skip
    write_lines(tmp_path / "q.jsonl", [question, {"id": "8", "question": "Why?"}])
    corpus = CORPORA.make("jsonl", documents="d.jsonl", questions="q.jsonl").load(tmp_path)
    assert corpus.documents == (Document("1", "Ann owns Bix.", "Ann"), Document("two", ""))
    assert corpus.queries[0] == Query(
        "7", "Who owns Bix?", "Ann", ("A.",), "easy", gold_doc_ids=("1", "two"), evidence=("Ann owns Bix.",)
    )
    assert corpus.queries[1] == Query("8", "Why?")
    assert dict(corpus.counts) == {
        "duplicate_documents": 1, "ignored_field:url": 1, "ignored_field:note": 1
    }  # fmt: skip
    assert not corpus.prechunked


def test_jsonl_without_questions_and_with_an_absolute_path(tmp_path):
    write_lines(tmp_path / "d.jsonl", DOCUMENTS)
    loader = CORPORA.make("jsonl", documents=str(tmp_path / "d.jsonl"))
    assert loader.load(None).queries == ()
    assert loader.parts(None) == [("", loader)]


@pytest.mark.parametrize(
    ("documents", "questions", "expected"),
    [
        (
            [{"id": 1, "text": "x"}, {"id": "1", "text": "y"}],
            None,
            ("d.jsonl, line 2: document id '1'", "line 1;"),
        ),
        ([], None, ("d.jsonl: got no documents",)),
        ([{"id": 1, "text": 3}], None, ("d.jsonl, line 1, field 'text': got int 3",)),
        ([{"id": 1}], None, ("d.jsonl, line 1: no field 'text'",)),
        (DOCUMENTS, [], ("q.jsonl: got no questions",)),
        (DOCUMENTS, [{"id": 1, "question": " "}], ("q.jsonl, line 1, field 'question': got str ' ', expected",)),
        (
            DOCUMENTS,
            [{"id": 1, "question": "a"}, {"id": 1, "question": "b"}],
            ("q.jsonl, line 2: question id '1'", "q.jsonl, line 1;"),
        ),
        (
            DOCUMENTS,
            [{"id": 1, "question": "a", "gold_doc_ids": ["1", "Ann"]}],
            ("q.jsonl, line 1, field 'gold_doc_ids': got 'Ann', which names no document",),
        ),
        (
            DOCUMENTS,
            [{"id": 1, "question": "a", "gold_doc_ids": [1.5]}],
            ("got float 1.5, expected a string",),
        ),
        (DOCUMENTS, [{"id": 1, "question": "a", "aliases": "b"}], ("got str 'b', expected a list",)),
    ],
)
def test_jsonl_errors(documents, questions, expected, tmp_path):
    write_lines(tmp_path / "d.jsonl", documents)
    params = {"documents": "d.jsonl"}
    if questions is not None:
        write_lines(tmp_path / "q.jsonl", questions)
        params["questions"] = "q.jsonl"
    text = error_of(CORPORA.make("jsonl", **params), tmp_path)
    assert all(part in text for part in expected), text


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "tiny"
    corpus = [{"_id": f"d{n}", "title": "T", "text": f"text {n}", "metadata": {}} for n in range(3)]
    write_lines(folder / "corpus.jsonl", [*corpus, {"_id": "d3", "title": "T", "text": "text 0"}])
    write_lines(folder / "queries.jsonl", [{"_id": f"q{n}", "text": f"question {n}"} for n in range(4)])
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq2\td3\t2\nq0\td1\t1\nq0\td2\t1\nq0\td0\t0\nq1\td0\t0\n"
    )
    (folder / "qrels" / "dev.tsv").write_bytes(b"query-id\tcorpus-id\tscore\r\nq3\td1\t1\r\n\r\n")
    return folder


def test_beir(beir):
    corpus = CORPORA.make("beir", path="tiny").load(beir.parent)
    assert [document.id for document in corpus.documents] == ["d0", "d1", "d2"]
    assert corpus.documents[1] == Document("d1", "text 1", "T")
    assert corpus.queries == (
        Query("q0", "question 0", gold_doc_ids=("d1", "d2")),
        Query("q2", "question 2", gold_doc_ids=("d0",)),
    )
    assert dict(corpus.counts) == {
        "queries_without_qrels": 2, "qrels_not_positive": 2, "duplicate_documents": 1
    }  # fmt: skip
    assert [query.id for query in CORPORA.make("beir", path="tiny", split="dev").load(beir.parent).queries] == ["q3"]


@pytest.mark.parametrize(
    ("qrels", "expected"),
    [
        (
            "query-id\tcorpus-id\tscore\nq0\td9\t1\n",
            "test.tsv, line 2: got id 'd9', which is not in corpus.jsonl",
        ),
        (
            "query-id\tcorpus-id\tscore\nq9\td1\t1\n",
            "test.tsv, line 2: got id 'q9', which is not in queries.jsonl",
        ),
        ("query-id\tcorpus-id\tscore\n\nq0\td1\n", "test.tsv, line 3: got 'q0\\td1', expected query id"),
        ("query-id\tcorpus-id\tscore\nq0\td1\thigh\n", "integer score"),
        ("q0\td1\t1\n", "test.tsv, line 1: got 'q0\\td1\\t1', expected the header"),
        ("", "line 1: got '', expected the header"),
        ("query-id\tcorpus-id\tscore\nq0\td1\t0\n", "test.tsv: got no questions"),
    ],
)
def test_beir_errors(qrels, expected, beir):
    (beir / "qrels" / "test.tsv").write_text(qrels)
    assert expected in error_of(CORPORA.make("beir", path="tiny"), beir.parent)


def test_beir_split_that_is_not_there_lists_the_others(beir):
    text = error_of(CORPORA.make("beir", path="tiny", split="train"), beir.parent)
    assert "train.tsv: no such split; found: dev, test" in text


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "notes"
    (root / "b" / ".hidden").mkdir(parents=True)
    (root / "z.txt").write_bytes(b"\xef\xbb\xbf# no heading here\r\nAnn owns Bix.")
    (root / "b" / "note.MD").write_text(
        "```sh\n# a comment\n```\n#tag\n\n## Zürich `x` ##\n# Later\n", encoding="utf-8"
    )
    (root / "b" / "plain.md").write_text("No heading.")
    (root / "a.txt").write_text("")
    (root / "copy of z.txt").write_bytes(b"# no heading here\r\nAnn owns Bix.")
    (root / "c.pdf").write_bytes(b"\xff")
    (root / "b" / ".hidden" / "x.md").write_text("hidden")
    return root


def test_text_folder_takes_names_for_titles_only_when_asked(folder):
    corpus = CORPORA.make("text_folder", path="notes").load(folder.parent)
    assert [document.title for document in corpus.documents] == ["", "Zürich `x`", "", ""]


def test_text_folder(folder):
    corpus = CORPORA.make("text_folder", path="notes", title="name").load(folder.parent)
    assert [(document.id, document.title) for document in corpus.documents] == [
        ("a.txt", "a"),
        ("b/note.MD", "Zürich `x`"),
        ("b/plain.md", "plain"),
        ("copy of z.txt", "copy of z"),
    ]
    assert corpus.documents[0].text == ""
    assert corpus.documents[3].text == "# no heading here\r\nAnn owns Bix."
    assert corpus.duplicates == {"z.txt": "copy of z.txt"}
    assert dict(corpus.counts) == {"skipped_files": 2, "duplicate_documents": 1}
    assert corpus.queries == ()
    assert not corpus.prechunked


def test_text_folder_with_questions(folder):
    write_lines(folder.parent / "q.jsonl", [{"id": 1, "question": "Who?", "gold_doc_ids": ["z.txt"]}])
    corpus = CORPORA.make("text_folder", path="notes", questions="q.jsonl").load(folder.parent)
    assert corpus.queries == (Query("1", "Who?", gold_doc_ids=("copy of z.txt",)),)


def test_text_folder_errors(folder):
    loader = CORPORA.make("text_folder", path="notes")
    (folder / "b" / "bad.md").write_bytes("abc é".encode("latin-1"))
    assert f"{folder}/b/bad.md: not UTF-8 (byte 4 is 0xe9)" in error_of(loader, folder.parent)
    assert "a file; expected a folder" in error_of(CORPORA.make("text_folder", path="a.txt"), folder)


def test_text_folder_without_texts(tmp_path):
    (tmp_path / "x.pdf").write_bytes(b"")
    assert "got no .txt or .md file" in error_of(CORPORA.make("text_folder", path="."), tmp_path)


def test_text_folder_refuses_names_that_are_not_unicode(tmp_path):
    (tmp_path / os.fsdecode(b"\xff.txt")).write_text("x")
    assert "lone surrogate" in error_of(CORPORA.make("text_folder", path="."), tmp_path)


def test_sample_ships_with_the_package():
    corpus = CORPORA.make("sample").load(None)
    assert len(corpus.documents) >= 120
    assert len(corpus.queries) >= 60
    assert len({query.type for query in corpus.queries}) == 4
    assert all(document.text.strip() for document in corpus.documents)
    assert not corpus.counts
    assert corpus.prechunked


def test_jsonl_prechunked(tmp_path):
    write_lines(tmp_path / "documents.jsonl", [{"id": 1, "text": "Ann owns Bix."}])
    assert CORPORA.make("jsonl", prechunked=True).load(tmp_path).prechunked

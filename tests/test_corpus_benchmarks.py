"""The data folder's layouts: small files first, then the real data where it is there."""

from __future__ import annotations

import pytest
from corpus_helpers import error_of, write_json

from aeg.core.records import Document, Query
from aeg.corpus import CORPORA
from aeg.errors import ConfigError


def bench(folder, chunks=("a b", "c", "a  b", "d"), ids=("q1", "q2")):
    write_json(folder / "chunks.json", list(chunks))
    questions = [
        {"id": name, "question": f"What is {name}?", "answer": "a", "question_type": "Fact Retrieval",
         "evidence": ["s1", "s2"]}
        for name in ids
    ]  # fmt: skip
    write_json(folder / "questions.json", questions)


def test_graphrag_bench_ids_keep_their_rows_past_a_duplicate(tmp_path):
    bench(tmp_path / "med")
    corpus = CORPORA.make("graphrag_bench", path="med").load(tmp_path)
    assert [document.id for document in corpus.documents] == ["med-00000", "med-00001", "med-00003"]
    assert corpus.duplicates == {"med-00002": "med-00000"}
    assert corpus.prechunked
    assert corpus.queries[0] == Query("q1", "What is q1?", "a", type="Fact Retrieval", evidence=("s1", "s2"))


def test_graphrag_bench_document(tmp_path):
    bench(tmp_path / "med")
    loader = CORPORA.make("graphrag_bench", path="med", source="document")
    assert "document.json: no such file" in error_of(loader, tmp_path)
    write_json(tmp_path / "med" / "document.json", "One long text.")
    corpus = loader.load(tmp_path)
    assert corpus.documents == (Document("med", "One long text."),)
    assert not corpus.prechunked
    with pytest.raises(ConfigError, match="source"):
        CORPORA.make("graphrag_bench", source="text")


def test_graphrag_bench_parts(tmp_path):
    for name in ("novel-2", "novel-10"):
        bench(tmp_path / "novel" / name)
    (tmp_path / "novel" / "novel-readme").write_text("no folder")
    loader = CORPORA.make("graphrag_bench", path="novel/novel-*")
    parts = loader.parts(tmp_path)
    assert [label for label, _ in parts] == ["novel-10", "novel-2"]
    assert [part.path for _, part in parts] == ["novel/novel-10", "novel/novel-2"]
    assert parts[0][1].load(tmp_path).documents[0].id == "novel-10-00000"
    assert "matches 2 folders (novel-10, novel-2, ...), expected one" in error_of(loader, tmp_path)
    absolute = CORPORA.make("graphrag_bench", path=f"{tmp_path}/novel/*")
    assert [part.load(None).documents[0].id for _, part in absolute.parts(None)] == [
        "novel-10-00000",
        "novel-2-00000",
    ]
    one = CORPORA.make("graphrag_bench", path="novel/*-2")
    assert one.load(tmp_path).documents == parts[1][1].load(tmp_path).documents
    assert [label for label, _ in one.parts(tmp_path)] == ["novel-2"]


def test_graphrag_bench_parts_of_the_same_name_are_told_apart(tmp_path):
    for name in ("a/text", "b/text"):
        bench(tmp_path / name)
    parts = CORPORA.make("graphrag_bench", path="*/text").parts(tmp_path)
    assert [label for label, _ in parts] == ["a/text", "b/text"]


@pytest.mark.parametrize(
    ("file", "value", "expected"),
    [
        ("questions.json", [], "questions.json: got no questions"),
        ("questions.json", {"q": []}, "got an object with keys q, expected a list"),
        ("questions.json", [{"id": "a"}], "questions.json, item 0: no field 'question'"),
        ("questions.json", [{"id": "a", "question": "?", "evidence": "s"}], "field 'evidence': got str 's'"),
        (
            "questions.json",
            [{"id": "a", "question": "?"}, {"id": "a", "question": "!"}],
            "item 1: question id 'a' was given before at",
        ),
        ("chunks.json", ["a", 1], "chunks.json, item 1: got int 1, expected a string"),
        ("chunks.json", [], "got no documents"),
    ],
)
def test_graphrag_bench_errors(file, value, expected, tmp_path):
    bench(tmp_path / "med")
    write_json(tmp_path / "med" / file, value)
    assert expected in error_of(CORPORA.make("graphrag_bench", path="med"), tmp_path)


PASSAGES = [
    {"title": "Ann", "text": "Ann owns Bix."},
    {"title": "Bix", "text": "Bix is a dog."},
    {"title": "Ann", "text": "Ann  owns Bix."},
    {"title": "Cey", "text": "Cey is a cat."},
    {"title": "Cey", "text": "Cey is a river."},
]


def data_folder(folder, **gold):
    write_json(folder / "corpus.json", PASSAGES)
    question = {"id": "q", "question": "Who owns a dog?", "answer": "Ann", "question_type": "bridge"}
    write_json(folder / "questions.json", [question | gold])


@pytest.mark.parametrize(
    ("name", "gold", "prefix"),
    [
        ("two_wiki", {"gold_titles": ["Bix", "Ann"]}, "two_wiki"),
        ("hotpotqa", {"gold": [1, 2], "answer_aliases": []}, "hotpotqa"),
        ("musique", {"gold": [1, 2, 0], "answer_aliases": []}, "musique"),
    ],
)
def test_data_folder_layout(name, gold, prefix, tmp_path):
    data_folder(tmp_path / "x", **gold)
    corpus = CORPORA.make(name, path="x").load(tmp_path)
    assert [document.id for document in corpus.documents] == [f"{prefix}-0000{row}" for row in (0, 1, 3, 4)]
    assert corpus.documents[1] == Document(f"{prefix}-00001", "Bix is a dog.", "Bix")
    assert corpus.queries == (
        Query("q", "Who owns a dog?", "Ann", type="bridge", gold_doc_ids=(f"{prefix}-00001", f"{prefix}-00000")),
    )
    assert dict(corpus.counts) == {"duplicate_documents": 1}
    assert corpus.prechunked


@pytest.mark.parametrize(
    ("name", "gold", "expected"),
    [
        (
            "two_wiki",
            {"gold_titles": ["Bixx"]},
            "item 0, field 'gold_titles': got gold title 'Bixx', which no",
        ),
        (
            "two_wiki",
            {"gold_titles": ["Cey"]},
            "names 2 different documents (two_wiki-00003, two_wiki-00004)",
        ),
        ("two_wiki", {"gold": [1]}, "no field 'gold_titles'"),
        ("hotpotqa", {"gold": [5]}, "item 0, field 'gold': got row 5, expected 0 to 4"),
        ("hotpotqa", {"gold": [-1]}, "got row -1"),
        ("musique", {"gold": ["1"]}, "got str '1', expected an integer"),
        ("musique", {"gold": [True]}, "got bool True, expected an integer"),
        ("musique", {}, "no field 'gold'"),
    ],
)
def test_data_folder_errors(name, gold, expected, tmp_path):
    data_folder(tmp_path / "x", **gold)
    assert expected in error_of(CORPORA.make(name, path="x"), tmp_path)


@pytest.mark.parametrize("name", ["two_wiki", "hotpotqa", "musique"])
def test_data_folder_with_files_missing_or_empty(name, tmp_path):
    data_folder(tmp_path / "x", gold=[], gold_titles=[])
    assert dict(CORPORA.make(name, path="x").load(tmp_path).counts)["questions_without_gold"] == 1
    write_json(tmp_path / "x" / "questions.json", [])
    assert "questions.json: got no questions" in error_of(CORPORA.make(name, path="x"), tmp_path)
    (tmp_path / "x" / "questions.json").unlink()
    assert "questions.json: no such file" in error_of(CORPORA.make(name, path="x"), tmp_path)
    (tmp_path / "x" / "corpus.json").unlink()
    text = error_of(CORPORA.make(name, path="x"), tmp_path)
    assert "none of its files; expected corpus.json and questions.json, or" in text


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "documents", "queries", "types"),
    [
        ("graphrag_bench", 1030, 1031, {"Fact Retrieval": 549, "Complex Reasoning": 255}),
        (
            "two_wiki",
            6119,
            434,
            {"compositional": 167, "comparison": 119, "bridge_comparison": 116, "inference": 32},
        ),
        ("musique", 4648, 354, {"2hop": 272, "3hop": 67, "4hop": 15}),
        ("hotpotqa", 7212, 110, {"bridge": 87, "comparison": 23}),
    ],
)
def test_real_data(name, documents, queries, types, data_root):
    corpus = CORPORA.make(name).load(data_root)
    assert (len(corpus.documents), len(corpus.queries)) == (documents, queries)
    assert not corpus.counts
    assert corpus.prechunked
    ids = {document.id for document in corpus.documents}
    assert {gold for query in corpus.queries for gold in query.gold_doc_ids} <= ids
    for kind, number in types.items():
        assert sum(query.type == kind for query in corpus.queries) == number
    if name != "graphrag_bench":
        assert min(len(query.gold_doc_ids) for query in corpus.queries) == 2


@pytest.mark.data
def test_real_items(data_root):
    medical = CORPORA.make("graphrag_bench").load(data_root)
    query = next(query for query in medical.queries if query.id == "Medical-73586ddc")
    assert query.question == "What is the most common type of skin cancer?"
    assert query.evidence == (query.answer,)
    assert medical.documents[-1].id == "medical-01029"
    document = CORPORA.make("graphrag_bench", source="document").load(data_root).documents
    assert [(one.id, len(one.text)) for one in document] == [("medical", 1_052_159)]
    wiki = CORPORA.make("two_wiki").load(data_root)
    titles = {document.id: document.title for document in wiki.documents}
    query = next(query for query in wiki.queries if query.id == "83bf3b5a0bd911eba7f7acde48001122")
    assert [titles[gold] for gold in query.gold_doc_ids] == ["Lothair II", "Ermengarde of Tours"]


@pytest.mark.data
def test_real_novels(data_root):
    parts = CORPORA.make("graphrag_bench", path="novel/novel-*").parts(data_root)
    corpora = {label: loader.load(data_root) for label, loader in parts}
    assert len(corpora) == 10
    assert sum(len(corpus.documents) for corpus in corpora.values()) == 2786
    assert sum(len(corpus.queries) for corpus in corpora.values()) == 1015
    assert len(corpora["novel-10146"].documents) == 231
    assert not any(corpus.counts for corpus in corpora.values())

"""HotpotQA, 2WikiMultiHopQA and MuSiQue in their published formats and in HippoRAG's."""

from __future__ import annotations

import json
import re

import pytest
from corpus_helpers import error_of, write_json

from aeg.core.records import Query
from aeg.corpus import CORPORA

PASSAGES = [
    {"title": "Ann", "text": "Ann owns Bix."},
    {"title": "Bix", "text": "Bix is a dog."},
    {"title": "Ann", "text": "Ann  owns Bix."},
    {"title": "Cey", "text": "Cey is a cat."},
    {"title": "Cey", "text": "Cey is a river."},
]


def hotpot(identifier, context, facts, **more):
    return {
        "_id": identifier, "question": f"Question {identifier}?", "answer": "yes", "type": "comparison",
        "level": "hard", "supporting_facts": facts, "context": context, **more,
    }  # fmt: skip


HOTPOT = [
    hotpot(
        "h1",
        [["Cey", ["Cey is a cat.", " It sleeps."]], ["Bix", ["Bix is a dog."]]],
        [["Cey", 1], ["Cey", 0]],
    ),
    hotpot("h2", [["Cey", ["Cey is a river."]], ["Bix", ["Bix is a dog."]]], [["Cey", 0], ["Bix", 0]]),
]


def gold_texts(corpus):
    texts = {document.id: document.text for document in corpus.documents}
    return [[texts[gold] for gold in query.gold_doc_ids] for query in corpus.queries]


def test_published_hotpotqa_resolves_gold_in_each_questions_own_context(tmp_path):
    write_json(tmp_path / "hotpotqa" / "hotpot_dev_distractor_v1.json", HOTPOT)
    corpus = CORPORA.make("hotpotqa").load(tmp_path)
    assert gold_texts(corpus) == [["Cey is a cat. It sleeps."], ["Cey is a river.", "Bix is a dog."]]
    assert (corpus.queries[0].id, corpus.queries[0].answer, corpus.queries[0].type) == (
        "h1",
        "yes",
        "comparison",
    )
    ids = [document.id for document in corpus.documents]
    assert len(ids) == 3
    assert ids == sorted(ids)
    assert all(re.fullmatch("hotpotqa-[0-9a-f]{16}", identifier) for identifier in ids)
    assert dict(corpus.counts) == {"repeated_paragraphs": 1}
    assert corpus.prechunked
    write_json(tmp_path / "part.json", HOTPOT[1:])
    part = CORPORA.make("hotpotqa", path="part.json").load(tmp_path)
    assert part.queries == corpus.queries[1:], "ids depend on the other questions"


def test_published_hotpotqa_without_answers(tmp_path):
    row = hotpot("h1", [["Cey", ["Cey is a cat."]]], [])
    for key in ("answer", "supporting_facts", "type"):
        del row[key]
    write_json(tmp_path / "test.json", [row])
    corpus = CORPORA.make("hotpotqa", path="test.json").load(tmp_path)
    assert corpus.queries == (Query("h1", "Question h1?"),)
    assert dict(corpus.counts) == {"questions_without_gold": 1}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], "got no questions"),
        (
            [hotpot("a", [["T", ["x"]]], [["U", 0]])],
            "item 0, field 'supporting_facts': got title 'U', which is not",
        ),
        (
            [hotpot("a", [["T", ["x"]], ["T", ["y"]]], [["T", 0]])],
            "which 2 different paragraphs of the context have",
        ),
        ([hotpot("a", [["T", [1]]], [])], "paragraph 'T': got int 1, expected a string"),
        ([hotpot("a", [["T", "x"]], [])], "field 'context'[0]: got str 'x', expected a list"),
        ([hotpot("a", {"title": []}, [])], "field 'context': got an object with keys title, expected a list"),
        ([hotpot("a", [["T", ["x"]]], [])] * 2, "item 1: question id 'a' was given before"),
    ],
)
def test_published_hotpotqa_errors(rows, expected, tmp_path):
    write_json(tmp_path / "h.json", rows)
    assert expected in error_of(CORPORA.make("hotpotqa", path="h.json"), tmp_path)


def test_two_published_files_in_a_folder_are_ambiguous(tmp_path):
    for name in ("hotpot_train_v1.1.json", "hotpot_dev_distractor_v1.json"):
        write_json(tmp_path / name, HOTPOT)
    text = error_of(CORPORA.make("hotpotqa", path="."), tmp_path)
    assert "got 2 files (hotpot_dev_distractor_v1.json, hotpot_train_v1.1.json)" in text


def subset(folder, stem, samples, passages=PASSAGES):
    write_json(folder / f"{stem}_corpus.json", passages)
    write_json(folder / f"{stem}.json", samples)


def test_two_wiki_in_hipporags_layout(tmp_path):
    rows = [
        hotpot("w1", [["Cey", ["Cey is", "a river."]], ["Bix", ["Bix."]]], [["Cey", 0], ["Bix", 0], ["Cey", 1]]),
        hotpot("w2", [["Ann", ["Ann owns Bix."]]], [["Ann", 0]]),
    ]
    subset(tmp_path, "2wikimultihopqa", rows)
    corpus = CORPORA.make("two_wiki", path=".").load(tmp_path)
    assert [query.gold_doc_ids for query in corpus.queries] == [
        ("two_wiki-00004", "two_wiki-00001"),
        ("two_wiki-00000",),
    ]
    assert dict(corpus.counts) == {"gold_by_title": 1, "duplicate_documents": 1}
    rows[0]["context"][0][1][0] = "Cey was"
    subset(tmp_path, "2wikimultihopqa", rows)
    text = error_of(CORPORA.make("two_wiki", path="."), tmp_path)
    assert "2wikimultihopqa.json, item 0: got gold title 'Cey', which names 2 different documents" in text


def test_two_wiki_published_file_joins_sentences_with_a_space(tmp_path):
    write_json(tmp_path / "dev.json", [hotpot("w", [["Bix", ["Bix is a dog.", "He barks."]]], [["Bix", 0]])])
    corpus = CORPORA.make("two_wiki", path="dev.json").load(tmp_path)
    assert gold_texts(corpus) == [["Bix is a dog. He barks."]]


def test_hotpotqa_in_hipporags_layout(tmp_path):
    subset(tmp_path, "hotpotqa", [hotpot("h", [["Bix", ["Bix is a d", "og."]]], [["Bix", 0]])])
    corpus = CORPORA.make("hotpotqa", path=".").load(tmp_path)
    assert corpus.queries[0].gold_doc_ids == ("hotpotqa-00001",)
    assert "gold_by_title" not in corpus.counts


def musique(identifier, *paragraphs, **more):
    rows = [
        {"idx": n, "title": title, "paragraph_text": text, "is_supporting": gold}
        for n, (title, text, gold) in enumerate(paragraphs)
    ]
    return {
        "id": identifier, "question": f"Question {identifier}?", "answer": "a", "answer_aliases": ["A"],
        "answerable": True, "question_decomposition": [], "paragraphs": rows, **more,
    }  # fmt: skip


MUSIQUE = [
    musique(
        "2hop__1_2",
        ("Cey", "Cey is a cat.", False),
        ("Cey", "Cey is a river.", True),
        ("Ann", "Ann owns.", True),
    ),
    musique("2hop__1_2", ("Dee", "Only in the unanswerable one.", False), answerable=False),
    musique("3hop1__1_2_3", ("Ann", "Ann  owns.", True), ("Cey", "Cey is a cat.", True)),
    musique("4hop3__1", ("Ann", "Ann owns.", True)),
    musique("other", ("Ann", "Ann owns.", False)),
]
del MUSIQUE[2]["answerable"]


def check_musique(corpus):
    assert [query.type for query in corpus.queries] == ["2hop", "3hop", "4hop", ""]
    assert corpus.queries[0].aliases == ("A",)
    assert corpus.counts["unanswerable_questions"] == 1
    assert corpus.counts["questions_without_gold"] == 1


def test_published_musique(tmp_path):
    path = tmp_path / "musique" / "musique_full_v1.0_dev.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join(json.dumps(row) for row in MUSIQUE) + "\n")
    corpus = CORPORA.make("musique").load(tmp_path)
    check_musique(corpus)
    assert gold_texts(corpus)[:3] == [
        ["Cey is a river.", "Ann owns."],
        ["Ann owns.", "Cey is a cat."],
        ["Ann owns."],
    ]
    assert len(corpus.documents) == 3
    assert corpus.counts["repeated_paragraphs"] == 4
    path.write_text(path.read_text() + "{\n")
    assert f"{path}, line 6: broken JSON" in error_of(CORPORA.make("musique"), tmp_path)
    path.write_text(json.dumps(MUSIQUE[1]))
    assert "got no questions" in error_of(CORPORA.make("musique"), tmp_path)


def test_musique_in_hipporags_layout(tmp_path):
    passages = [{"title": p["title"], "text": p["paragraph_text"]} for row in MUSIQUE for p in row["paragraphs"]]
    subset(tmp_path, "musique", MUSIQUE, passages)
    corpus = CORPORA.make("musique", path=".").load(tmp_path)
    check_musique(corpus)
    assert corpus.queries[0].gold_doc_ids == ("musique-00001", "musique-00002")
    assert corpus.queries[1].gold_doc_ids == ("musique-00002", "musique-00000")

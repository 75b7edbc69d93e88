"""Decomposition and recorded mentions: the file of analyses, eq. 4, and everything that can be wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aeg.core.matching import KeyedText
from aeg.core.records import EffectiveQuery, Query
from aeg.errors import ConfigError, DataError
from aeg.query import DECOMPOSITIONS, MENTIONS
from aeg.query.analysis import locate, read_analyses

QUERIES = [Query("a", "Who was Lothair II's mother?"), Query("b", "Where was Ann Lee born?"), Query("c", "Why?")]


def line(identifier: object, complexity: object, entities: object = (), subs: object = (), **more: object) -> str:
    return json.dumps({"id": identifier, "complexity": complexity, "entities": entities, "sub_questions": subs, **more})


def write(folder: Path, *lines: str, name: str = "analysis.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def recorded(folder: Path, **params: object):
    return DECOMPOSITIONS.make("recorded", path="analysis.jsonl", **params).decompose(QUERIES, folder)


def test_none_keeps_questions():
    assert DECOMPOSITIONS.make("none").decompose(QUERIES) == [
        EffectiveQuery(n, q.question) for n, q in enumerate(QUERIES)
    ]


def test_eq4_threshold_is_inclusive_and_the_question_comes_first(tmp_path):
    write(tmp_path, line("c", 9, [], []), line("b", 6.4, [], ["x"]), line("a", 6.5, [], ["s1", "s2", "s3", "s4"]))
    found = recorded(tmp_path)
    assert [(e.query, e.text) for e in found] == [
        (0, QUERIES[0].question), (0, "s1"), (0, "s2"), (0, "s3"), (1, QUERIES[1].question), (2, "Why?"),
    ]  # fmt: skip
    assert [e.query for e in recorded(tmp_path, complexity_threshold=6.4, max_sub_questions=1)] == [0, 0, 1, 1, 2]
    assert [e.query for e in recorded(tmp_path, max_sub_questions=0)] == [0, 1, 2]


def test_repeated_sub_questions_count_once_and_everything_is_counted(tmp_path):
    write(
        tmp_path,
        line("a", 8, [], ["s1", " Who was  Lothair II's mother?", "s1", "s2", "s3", "s4"], note="x"),
        line("zz", 1),
        line(7, 1),
    )
    method = DECOMPOSITIONS.make("recorded", path="analysis.jsonl", missing="none")
    assert [e.text for e in method.decompose(QUERIES, tmp_path)][1:4] == ["s1", "s2", "s3"]
    assert dict(method.counts(QUERIES, tmp_path)) == {
        "decomposed": 1, "sub_questions": 3, "sub_questions_cut": 1, "sub_questions_repeated": 2,
        "missing_questions": 2, "unknown_ids": 2, "ignored_field:note": 1,
    }  # fmt: skip
    assert method.source_files(tmp_path) == [tmp_path / "analysis.jsonl"]


def test_a_question_without_analysis_is_an_error_that_names_it(tmp_path):
    path = write(tmp_path, line("a", 1))
    with pytest.raises(DataError, match=r"no analysis of 2 of 3 questions \('b', 'c'\)") as caught:
        recorded(tmp_path)
    assert str(path) in str(caught.value)
    with pytest.raises(DataError, match="no analysis"):
        MENTIONS.make("recorded", path="analysis.jsonl").mentions([], QUERIES, tmp_path)
    with pytest.raises(ConfigError, match="missing"):
        recorded(tmp_path, missing="nope")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", r"line 2: broken JSON \(column 2: Expecting property name"),
        ("[1]", r"line 2: got a list of 1: \[1\], expected an object"),
        ('{"id": "b", "complexity": 1, "entities": []}', r"line 2: no field 'sub_questions'"),
        (line("b", 10.5), r"line 2, field 'complexity': got float 10\.5"),
        (line("b", -1), r"line 2, field 'complexity'"),
        (line("b", True), r"line 2, field 'complexity': got bool True"),
        (line("b", "7"), r"line 2, field 'complexity': got str '7'"),
        ('{"id": "b", "complexity": NaN, "entities": [], "sub_questions": []}', r"field 'complexity': got float nan"),
        (line("b", 1, "Ann"), r"line 2, field 'entities': got str 'Ann', expected a list of strings"),
        (line("b", 1, ["Ann", 3]), r"line 2, field 'entities'\[1\]: got int 3"),
        (line("b", 1, [], [" "]), r"line 2, field 'sub_questions'\[0\]: got str ' '"),
        (line("b", 1, [], None), r"line 2, field 'sub_questions': got null"),
        (line("b", 1, ["\ud800"]), r"line 2, field 'entities'\[0\].*lone surrogate"),
        (line(None, 1), r"line 2, field 'id': got null"),
        (line("", 1), r"line 2, field 'id'"),
        (line("a", 1), r"line 2: question id 'a' was given before at .*analysis\.jsonl, line 1; expected distinct ids"),
    ],
)
def test_malformed_lines_are_named(tmp_path, bad, message):
    path = write(tmp_path, line("a", 1), bad)
    with pytest.raises(DataError, match=message) as caught:
        read_analyses(path)
    assert str(path) in str(caught.value)


def test_missing_files_broken_bytes_and_blank_lines(tmp_path):
    with pytest.raises(DataError, match=r"gone\.jsonl: no such file; expected question analyses .*; set data_root"):
        read_analyses(tmp_path / "gone.jsonl")
    path = tmp_path / "x.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf" + line("a", 1, ["Z\u00fcrich\u2028X"]).encode() + b"\r\n\n\n" + line(8, 2).encode()
    )
    assert list(read_analyses(path).by_id) == ["a", "8"]
    path.write_bytes(line("a", 1).encode() + b"\n\xff\n")
    with pytest.raises(DataError, match=r"line 2: not UTF-8 \(byte 0 is 0xff\)"):
        read_analyses(path)


def test_recorded_mentions_of_question_and_sub_questions(tmp_path):
    write(
        tmp_path,
        line("a", 8, ["Lothair II", "LOTHAIR  II", "Ann", "C", "青岛"], []),
        line("b", 1, ["Ann Lee"]),
        line("c", 1, []),
    )
    subs = ["Who wed Lothair Ii's son Anna?", "Did ann write C++?", "Is C in 青岛市?", "Who?"]
    effective = [
        EffectiveQuery(0, QUERIES[0].question), *(EffectiveQuery(0, text) for text in subs),
        EffectiveQuery(1, QUERIES[1].question), EffectiveQuery(2, "Why?"),
    ]  # fmt: skip
    found = MENTIONS.make("recorded", path="analysis.jsonl").mentions(effective, QUERIES, tmp_path)
    assert found == [
        ("Lothair II", "Ann", "C", "青岛"), ("Lothair II",), ("Ann",), ("C", "青岛"), (), ("Ann Lee",), (),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Zürich", "In Zu\u0308rich?", True),
        (".NET", "Who made .NET?", True),
        ("net", "Who made the network?", False),
        ("O'Neill", "O'Neill's play", True),
        ("Neill", "O'Neill's play", False),
        ("(BCC)", "What is BCC, exactly?", True),
        ("...", "...", False),
        ("an", "Ann can an", True),
    ],
)
def test_occurs(name, text, expected):
    assert KeyedText(text).mentions(name) is expected


def test_builtin_sample_lies_in_the_package():
    path = locate(Path("/elsewhere"), "builtin:sample")
    assert path.parts[-4:] == ("aeg", "corpus", "sample_data", "question_analysis.jsonl")
    assert read_analyses(path).by_id


@pytest.mark.data
def test_recorded_analyses_of_2wiki(data_root):
    path = "2wikimultihopqa/question_analysis.jsonl"
    questions = json.loads((data_root / "2wikimultihopqa/questions.json").read_text())
    queries = [Query(q["id"], q["question"]) for q in questions]
    method = DECOMPOSITIONS.make("recorded", path=path)
    effective = method.decompose(queries, data_root)
    assert len(effective) == 434 + 855
    counts = method.counts(queries, data_root)
    assert (counts["decomposed"], counts["missing_questions"], counts["unknown_ids"]) == (430, 0, 0)
    mentions = MENTIONS.make("recorded", path=path).mentions(effective, queries, data_root)
    assert all(mentions[n] for n, item in enumerate(effective) if item.text == queries[item.query].question)

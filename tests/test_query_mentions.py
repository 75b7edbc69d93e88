"""Syntactic mentions: named entities, proper-noun chunks and quoted strings."""

from __future__ import annotations

import pytest

from aeg.core.matching import distinct
from aeg.core.records import EffectiveQuery, Query
from aeg.query import MENTIONS
from aeg.query.mentions import quoted

TEXTS = [
    "Who is the mother of the director of film Polish-Russian War?",
    "Did Marie Curie work in Paris in 1903?",
    "Who sang 'it rained again' and “the long day”?",
    "why does it rain?",
]


def of(**params: object) -> list[tuple[str, ...]]:
    return MENTIONS.make("syntactic", **params).mentions([EffectiveQuery(0, text) for text in TEXTS], [])


def test_proper_nouns_and_quotes():
    found = of()
    assert found[1] == ("Marie Curie", "Paris")
    assert {"it rained again", "the long day"} <= set(found[2])
    assert found[3] == ()
    assert any("Russian War" in mention for mention in found[0])


def test_options():
    assert "1903" in of(numbers=True)[1]
    whole = of(chunks="all")[0]
    assert {"mother", "director"} <= set(whole)
    assert of(batch_size=1) == of()
    assert MENTIONS.make("syntactic").mentions([], []) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Who is \"Ann\" to 'Bo'?", ["Ann", "Bo"]),
        ("Ann's dog and the dogs' house", []),
        ("Is 'Ann's Dog' «gone»?", ["Ann's Dog", "gone"]),
        ('an empty "" or "..." one', []),
        ("谁写了「青岛」?", ["青岛"]),
    ],
)
def test_quoted(text, expected):
    assert [content for _, content in quoted(text)] == expected
    assert all(text[start : start + len(content)] == content for start, content in quoted(text))


def test_distinct_keeps_the_first_form():
    assert distinct(["Zürich", "ZU\u0308RICH", " ", "!?", "C", "C++"]) == ("Zürich", "C", "C++")


def test_whole_chunks_keep_their_determiners_and_leave_out_pronouns():
    text = "What is the most common type of skin cancer, and who treats it?"
    query = Query("1", text)
    method = MENTIONS.make("syntactic", chunks="whole", named_entities=False)
    assert method.mentions([EffectiveQuery(0, text)], [query]) == [("the most common type", "skin cancer")]


def test_the_question_itself_as_its_mention():
    found = MENTIONS.make("question").mentions(
        [EffectiveQuery(0, "Who?"), EffectiveQuery(0, "When?")], [Query("1", "Who?")]
    )
    assert found == [("Who?",), ("When?",)]

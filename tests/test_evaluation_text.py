from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.core.text import content_stems, content_words, sentence_spans, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n ", []),
        ("One", ["One"]),
        ("It grows. It spreads!  Does it? Yes…", ["It grows.", "It spreads!", "Does it?", "Yes…"]),
        ("He said: “Go.” She went.", ["He said: “Go.”", "She went."]),
        ("Dr. J. Smith saw Mrs. Voss. He left.", ["Dr. J. Smith saw Mrs. Voss.", "He left."]),
        ("It was approved by the U.S. FDA. Good.", ["It was approved by the U.S. FDA.", "Good."]),
        ("Born in the U.S. She left.", ["Born in the U.S.", "She left."]),
        ("Take vitamin C. The dose is 3.5 mg.", ["Take vitamin C.", "The dose is 3.5 mg."]),
        ("Smith et al. report it, e.g. in Fig. 2 here.", ["Smith et al. report it, e.g. in Fig. 2 here."]),
        ("It works at Bix Inc. Later it failed.", ["It works at Bix Inc.", "Later it failed."]),
        ("A film by A. A. Milne (d. 1956) is here.", ["A film by A. A. Milne (d. 1956) is here."]),
        ("The site is x.org. now gone.", ["The site is x.org. now gone."]),
        (
            "surgery removes it. see chapter 2 : tests. the end",
            ["surgery removes it.", "see chapter 2 : tests.", "the end"],
        ),
        ("a dose of 2. 5 mg is given. stop.", ["a dose of 2. 5 mg is given.", "stop."]),
        ("Title\n\nFirst one. Second\n one.", ["Title", "First one.", "Second\n one."]),
        ("青岛在山东。它很大！是吗？", ["青岛在山东。", "它很大！", "是吗？"]),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.text(), st.lists(st.sampled_from(["Dr", ".", " ", "\n", "a", "B", "!", "”", "2", "。", "the"])).map("".join)
    )
)
def test_spans_cover_everything_but_white_space_in_order(text):
    spans = sentence_spans(text)
    covered = 0
    for start, end in spans:
        assert covered <= start < end <= len(text)
        assert not text[covered:start].strip()
        assert text[start:end] == text[start:end].strip()
        covered = end
    assert not text[covered:].strip()


def test_content_words_keep_their_place():
    text = "The tumours' treatment: C++, 青岛 and Zürich's U.S. trials don't."
    words = content_words(text)
    assert [text[word.start : word.end] for word in words] == [
        "tumours",
        "treatment",
        "C++",
        "青",
        "岛",
        "Zürich",
        "U.S",
        "trials",
    ]
    assert [word.stem for word in words[:2]] == ["tumour", "treatment"]


def test_stems_ignore_case_and_inflection():
    assert content_stems("TREATING treated, treats!") == {"treat"}
    assert content_stems("It is of the and.") == frozenset()

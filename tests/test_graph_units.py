"""Passages as units of the graph ("w/o KA"): the same entities and relations, other units."""

from __future__ import annotations

import pytest
import torch

from aeg.config.schema import GraphConfig, OperatorConfig, RetrievalConfig
from aeg.core.keys import atom_text
from aeg.core.records import ExtractedAtom, Extraction, Passage
from aeg.core.seeds import Seeds
from aeg.errors import ConfigError, DataError
from aeg.graph import build, collect, load, operator, save, statistics
from aeg.propagation import METHODS
from aeg.retrieval.baselines import searchable
from aeg.retrieval.search import DocumentMap, retrieve

PASSAGES = [
    Passage("d0#0", "d0", "Ann owns Bix. Bix\nbarks.", "Ann", 0, 24),
    Passage("d0#1", "d0", "It rained again.", "Ann", 20, 36),
    Passage("d1", "d1", "Cid sees Bix.", "", 0, 13),
    Passage("d2", "d2", " \n", "", 0, 2),
    Passage("d3", "d3", "Cid sees Bix.", "", 0, 13),
]
EXTRACTIONS = [
    Extraction(
        "d0#0",
        ("Ann",),
        (("Ann", "owns", "Bix"), ("Bix", "is", "BIX")),
        (ExtractedAtom("Ann owns Bix.", ("Ann", "bix")), ExtractedAtom("Bix barks.", ("Bix",))),
    ),
    Extraction("d0#1", status="no_entities"),
    Extraction("d1", (), (("Cid", "sees", "Dot"),), (ExtractedAtom("Cid sees Bix.", ("Bix",)),)),
    Extraction("d2", status="empty"),
    Extraction("d3", ("Eve",), (), ()),
]


class LetterEncoder:
    def encode(self, texts, kind="passage"):
        table = torch.tensor([[float(text.casefold().count(c)) for c in "abcdefghijklmnop"] for text in texts])
        return torch.nn.functional.normalize(table + 1e-3, dim=1)


def graphs():
    return (
        build(PASSAGES, EXTRACTIONS, GraphConfig(units=units, synonym_threshold=0.4), LetterEncoder())
        for units in ("atoms", "passages")
    )


def test_a_passage_is_the_unit_and_mentions_every_entity_found_in_it():
    _, graph = graphs()
    texts, keys = list(graph.atoms.texts), list(graph.entities.keys)
    assert sorted(texts) == ["Ann Ann owns Bix. Bix barks.", "Ann It rained again.", "Cid sees Bix."]
    mentions = {
        (texts[a].split(".")[0], keys[e]) for a, e in graph.data["atom", "mentions", "entity"].edge_index.T.tolist()
    }
    assert mentions == {
        ("Ann Ann owns Bix", "ann"),
        ("Ann Ann owns Bix", "bix"),
        ("Cid sees Bix", "bix"),
        ("Cid sees Bix", "cid"),  # of a triple
        ("Cid sees Bix", "dot"),
        ("Cid sees Bix", "eve"),  # of the other passage with this text
    }
    assert graph.counts["empty_passages"] == 1
    assert graph.counts["extracted_atoms"] == 3


def test_a_unit_reads_as_dense_passage_retrieval_reads_it():
    _, graph = graphs()
    assert set(graph.atoms.texts) == {atom_text(searchable(p)) for p in PASSAGES if p.text.strip()}


def test_entities_names_relations_and_synonyms_are_those_of_the_atom_graph():
    atoms, passages = graphs()
    assert atoms.entities.keys == passages.entities.keys == ["ann", "bix", "cid", "dot", "eve"]
    assert atoms.entities.names == passages.entities.names
    for kind in ("relates", "synonym"):
        one, two = (graph.data["entity", kind, "entity"] for graph in (atoms, passages))
        assert torch.equal(one.edge_index, two.edge_index)
        assert torch.equal(one.edge_weight, two.edge_weight)
    assert atoms.data["entity", "synonym", "entity"].edge_index.shape[1] > 0


def test_a_unit_spans_its_whole_passage_and_one_text_is_one_unit():
    _, graph = graphs()
    row = list(graph.atoms.texts).index("Cid sees Bix.")
    at = (graph.atoms.occurrence_atom == row).nonzero().squeeze(1)
    assert graph.atoms.occurrence_passage[at].tolist() == [2, 4]
    assert graph.atoms.occurrence_span[at].tolist() == [[0, 13], [0, 13]]


def test_atoms_are_the_default_and_are_unchanged_by_it():
    assert collect(PASSAGES, EXTRACTIONS).atoms.ids == collect(PASSAGES, EXTRACTIONS, "atoms").atoms.ids
    assert sorted(collect(PASSAGES, EXTRACTIONS).atoms.texts) == ["Ann owns Bix.", "Bix barks.", "Cid sees Bix."]
    with pytest.raises(ConfigError, match="expected one of atoms, passages"):
        GraphConfig(units="sentences")


def test_a_self_loop_alone_makes_no_entity_in_either_graph():
    found = [Extraction("d1", (), (("Fox", "is", "FOX"),), (ExtractedAtom("x", ()),))]
    passage = [PASSAGES[2]]
    assert [list(collect(passage, found, units).entities.keys) for units in ("atoms", "passages")] == [[], []]


def test_only_blank_passages_are_an_error():
    with pytest.raises(DataError, match="no atom"):
        collect([PASSAGES[3]], [EXTRACTIONS[3]], "passages")


def test_it_is_saved_propagated_and_mapped_to_documents(tmp_path):
    _, graph = graphs()
    save(graph, tmp_path)
    graph = load(tmp_path)
    assert statistics(graph).atoms == 3
    documents = DocumentMap(graph.atoms, graph.passages, "sum")
    assert documents.ids == ["d0", "d1", "d2", "d3"]
    cid = len(graph.atoms) + list(graph.entities.keys).index("cid")
    found = retrieve(
        METHODS.make("ppr"),
        operator(graph, OperatorConfig()),
        Seeds.from_lists(graph.num_nodes, [[(cid, 1.0)]]),
        torch.tensor([0]),
        1,
        documents,
        len(graph.atoms),
        RetrievalConfig(top_k=2, depth=2, passage_top_k=3),
    )
    assert graph.atoms.texts[int(found.atoms[0, 0])] == "Cid sees Bix."
    assert [documents.ids[row] for row in found.documents[0].tolist()] == ["d1", "d3", "d0"]

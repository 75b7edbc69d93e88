"""The Atom-Entity Graph: inventories, keys, edges, options of the operator, statistics, storage."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.config.schema import GraphConfig, OperatorConfig
from aeg.core.keys import atom_text, canonical_key
from aeg.core.records import ExtractedAtom, Extraction, Passage
from aeg.errors import DataError
from aeg.graph import EDGE_TYPES, build, collect, load, operator, save, statistics, typed_operators


class LetterEncoder:
    """Counts of letters as unit vectors: deterministic, needs no model, equal for anagrams."""

    def encode(self, texts, kind="passage"):
        table = torch.tensor(
            [[float(text.casefold().count(c)) for c in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
        )
        return torch.nn.functional.normalize(table + 1e-3, dim=1)


def passage(at: int) -> Passage:
    return Passage(f"p{at}", f"d{at}", f"Text {at}.", "", 0, 7)


def graph_of(*extractions: Extraction, config: GraphConfig | None = None, encoder=None):
    passages = [Passage(e.passage_id, e.passage_id, "", "", 0, 0) for e in extractions]
    return build(passages, extractions, config, encoder)


def test_case_and_spacing_scenario_2():
    found = Extraction(
        "p",
        triples=(("Mira Voss", "leads", "Tarn Lab"),),
        atoms=(ExtractedAtom("Mira Voss leads Tarn Lab", ("MIRA VOSS", "Tarn  Lab")),),
    )
    graph = graph_of(found)
    assert list(graph.entities.keys) == ["mira voss", "tarn lab"]
    assert graph.data["atom", "mentions", "entity"].edge_index.shape[1] == 2
    assert graph.data["entity", "relates", "entity"].edge_weight.tolist() == [1.0]


def test_scripts_and_symbols_scenario_2():
    names = ("青岛", "山东", "Zürich", "Zu\u0308rich", "C++", "C", "C#", ".NET")
    graph = graph_of(Extraction("p", atoms=(ExtractedAtom("All of them.", names),)))
    assert sorted(graph.entities.keys) == sorted(["青岛", "山东", "zürich", "c++", "c", "c#", ".net"])
    assert graph.data["atom", "mentions", "entity"].edge_index.shape[1] == 7


@settings(max_examples=300)
@given(st.text())
def test_canonical_key_is_idempotent(name):
    key = canonical_key(name)
    assert canonical_key(key) == key
    assert canonical_key(f'  "{name}" ') == key
    assert canonical_key(name.upper()) == canonical_key(name.upper().lower())


def test_empty_keys_are_rejected_counted_and_listed():
    found = Extraction(
        "p",
        entities=("...", "Bix"),
        triples=(("—", "owns", "Bix"), ("Bix", "is", "BIX")),
        atoms=(ExtractedAtom("Bix barks.", ("Bix", "…")), ExtractedAtom("  ", ("Bix",))),
    )
    inventory = collect([Passage("p", "d", "")], [found])
    assert inventory.counts["empty_entity_keys"] == 3
    assert inventory.rejected == ("...", "—", "…")
    assert inventory.counts["triples_with_empty_end"] == 1
    assert inventory.counts["triples_self_loop"] == 1
    assert inventory.counts["empty_atoms"] == 1
    assert list(inventory.entities.keys) == ["bix"]


def test_relation_weight_counts_distinct_labels_in_either_direction():
    triples = (("A", "owns", "B"), ("B", "Owns", "A"), ("A", "owns", "B"), ("A", "sees", "B"), ("A", "sees", "C"))
    graph = graph_of(Extraction("p", triples=triples, atoms=(ExtractedAtom("x"),)))
    store = graph.data["entity", "relates", "entity"]
    assert store.edge_index.tolist() == [[0, 0], [1, 2]]
    assert store.edge_weight.tolist() == [2.0, 1.0]


def test_one_atom_per_text_with_the_union_of_its_entities_and_every_occurrence():
    graph = graph_of(
        Extraction("p0", atoms=(ExtractedAtom("Ann owns\n Bix.", ("Ann",), 3, 17),)),
        Extraction("p1", atoms=(ExtractedAtom("Ann owns Bix.", ("Bix",)), ExtractedAtom("Other."))),
    )
    assert sorted(graph.atoms.texts) == ["Ann owns Bix.", "Other."]
    assert list(graph.atoms.ids) == sorted(graph.atoms.ids)
    row = list(graph.atoms.texts).index("Ann owns Bix.")
    assert graph.data["atom", "mentions", "entity"].edge_index.tolist() == [[row, row], [0, 1]]
    at = (graph.atoms.occurrence_atom == row).nonzero().squeeze(1)
    assert graph.atoms.occurrence_passage[at].tolist() == [0, 1]
    assert graph.atoms.occurrence_span[at].tolist() == [[3, 17], [-1, -1]]
    assert graph.counts["extracted_atoms"] == 3


def test_rows_do_not_depend_on_the_order_of_passages_beyond_ids():
    one = Extraction("p0", atoms=(ExtractedAtom("Ann.", ("Ann",)),))
    two = Extraction("p1", atoms=(ExtractedAtom("Bix.", ("Bix", "Ann")),))
    first, second = graph_of(one, two), graph_of(two, one)
    assert first.atoms.ids == second.atoms.ids
    for kind in EDGE_TYPES.values():
        assert torch.equal(first.data[kind].edge_index, second.data[kind].edge_index)


def test_names_are_the_most_frequent_surface_form():
    atoms = tuple(ExtractedAtom(f"x{i}", (name,)) for i, name in enumerate(["ann", "Ann", "Ann", "ANN"]))
    assert list(graph_of(Extraction("p", atoms=atoms)).entities.names) == ["Ann"]


def test_mismatched_extractions_are_an_error():
    good = Extraction("p0", atoms=(ExtractedAtom("x"),))
    with pytest.raises(DataError, match="extraction of passage 'p0', expected 'q'"):
        collect([Passage("q", "q", "")], [good])
    with pytest.raises(DataError, match="extractions of 1 passages, expected 2"):
        collect([Passage("p0", "d", ""), Passage("p1", "d", "")], [good])
    with pytest.raises(DataError, match="no atom"):
        collect([Passage("p0", "d", "")], [Extraction("p0", entities=("A",))])


def test_synonym_edges_are_above_the_threshold_once_each():
    names = ("listen", "silent", "enlist", "zebra")
    found = Extraction("p", atoms=(ExtractedAtom("x", names),))
    graph = graph_of(found, encoder=LetterEncoder(), config=GraphConfig(synonym_threshold=0.9))
    store = graph.data["entity", "synonym", "entity"]
    keys = list(graph.entities.keys)
    pairs = {(keys[a], keys[b]) for a, b in store.edge_index.T.tolist()}
    assert pairs == {("enlist", "listen"), ("enlist", "silent"), ("listen", "silent")}
    assert bool((store.edge_index[0] < store.edge_index[1]).all())
    assert store.edge_weight.tolist() == pytest.approx([1.0] * 3, abs=1e-5)
    capped = graph_of(found, encoder=LetterEncoder(), config=GraphConfig(synonym_threshold=0.01, synonym_top_k=1))
    assert capped.counts["synonym_edges_cut"] > 0
    off = graph_of(found, encoder=LetterEncoder(), config=GraphConfig(synonym=False))
    assert off.data["entity", "synonym", "entity"].edge_index.shape == (2, 0)


SMALL = (
    Extraction(
        "p0",
        triples=(("Ann", "owns", "Bix"), ("Ann", "feeds", "Bix"), ("Bix", "chases", "Cat")),
        atoms=(ExtractedAtom("Ann owns Bix.", ("Ann", "Bix")), ExtractedAtom("Ann is here.", ("Ann",))),
    ),
    Extraction("p1", atoms=(ExtractedAtom("It rained again."),)),
)


def dense(graph, **options):
    return operator(graph, OperatorConfig(**options)).scipy().toarray()


def test_operator_puts_atoms_first_and_is_symmetric():
    graph = graph_of(*SMALL)
    whole = dense(graph)
    atoms = len(graph.atoms)
    assert whole.shape == (6, 6)
    assert np.array_equal(whole, whole.T)
    assert not whole[:atoms, :atoms].any()
    ann, bix, cat = (atoms + list(graph.entities.keys).index(key) for key in ("ann", "bix", "cat"))
    assert whole[ann, bix] == 2
    assert whole[bix, cat] == 1
    rained = list(graph.atoms.texts).index("It rained again.")
    assert not whole[rained].any()


def test_type_factors_and_specificity():
    graph = graph_of(*SMALL)
    atoms = len(graph.atoms)
    assert np.array_equal(dense(graph, relates=0.5), dense(graph, relates=0) + 0.5 * dense(graph, mentions=0))
    specificity = np.ones(graph.num_nodes)
    mentions = graph.entities.mentions.numpy()
    specificity[atoms:] = 1 / (1 + np.log(1 + mentions))
    expected = dense(graph) * specificity * specificity[:, None]
    assert np.allclose(dense(graph, entity_specificity=True), expected)
    parts = typed_operators(graph)
    assert np.allclose(sum(part.scipy().toarray() for part in parts.values()), dense(graph))


def test_beta_bounds_auxiliary_weight():
    graph = graph_of(*SMALL)
    atoms = len(graph.atoms)
    beta = 0.5
    plain, mentions = dense(graph), dense(graph, relates=0, synonym=0)
    held, auxiliary = mentions.sum(0)[atoms:], (plain - mentions).sum(0)[atoms:]
    share = np.where(held > 0, np.minimum(1, beta * held / auxiliary), 1)
    expected = mentions.copy()
    expected[atoms:, atoms:] = (plain - mentions)[atoms:, atoms:] * np.minimum(share, share[:, None])
    bounded = operator(graph, OperatorConfig(beta=beta))
    assert np.allclose(bounded.scipy().toarray(), expected)
    assert bounded.counts["entities_without_mentions"] == 1


@pytest.mark.parametrize("block", [7, 2048])
def test_statistics_against_networkx(monkeypatch, block):
    import importlib

    from aeg.graph import statistics as _  # noqa: F401

    module = importlib.import_module("aeg.graph.statistics")
    monkeypatch.setattr(module, "_BLOCK", block)
    rng = np.random.default_rng(0)
    names = [f"E{i}" for i in range(25)]
    triples = tuple((names[a], "r", names[b]) for a, b in rng.integers(0, 25, (60, 2)))
    atoms = tuple(ExtractedAtom(f"atom {i}", tuple(names[j] for j in rng.integers(0, 25, 2))) for i in range(30))
    graph = graph_of(Extraction("p", triples=triples, atoms=(*atoms, ExtractedAtom("alone"))))
    found = statistics(graph)
    other = nx.from_scipy_sparse_array(operator(graph).scipy())
    assert found.average_clustering == pytest.approx(nx.average_clustering(other), abs=1e-12)
    assert found.edges == found.relates + found.synonym + found.mentions == other.number_of_edges()
    assert found.average_degree == pytest.approx(2 * other.number_of_edges() / other.number_of_nodes())
    assert (found.isolated_atoms, found.atoms) == (1, 31)


@pytest.mark.parametrize("with_features", [True, False])
def test_save_load_move_keep_shapes_scenario_6(tmp_path, with_features):
    encoder = LetterEncoder() if with_features else None
    graph = graph_of(*SMALL, encoder=encoder, config=GraphConfig(synonym=False))
    save(graph, tmp_path / "one")
    again = load(tmp_path / "one")
    assert list(again.atoms.ids) == list(graph.atoms.ids)
    assert list(again.entities.names) == list(graph.entities.names)
    assert tuple(again.passages) == tuple(graph.passages)
    assert again.counts == graph.counts
    for kind in EDGE_TYPES.values():
        assert torch.equal(again.data[kind].edge_index, graph.data[kind].edge_index)
        assert torch.equal(again.data[kind].edge_weight, graph.data[kind].edge_weight)
    assert again.data["entity", "synonym", "entity"].edge_index.shape == (2, 0)
    assert again.data["atom"].num_nodes == 3
    assert ("x" in again.data["atom"]) == with_features
    moved = load(tmp_path / "one").data.to("meta")
    assert moved["entity", "synonym", "entity"].edge_index.shape == (2, 0)
    save(again, tmp_path / "two")
    for file in sorted((tmp_path / "one").iterdir()):
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes(), file.name


def test_a_graph_without_entities_is_a_graph(tmp_path):
    graph = graph_of(Extraction("p", atoms=(ExtractedAtom("It rained again."),)), encoder=LetterEncoder())
    save(graph, tmp_path)
    again = load(tmp_path)
    assert len(again.entities) == 0
    assert statistics(again).isolated_atoms == 1
    assert operator(again).num_nodes == 1


def test_a_damaged_graph_is_told(tmp_path):
    save(graph_of(*SMALL), tmp_path)
    (tmp_path / "graph.safetensors").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="build the index again"):
        load(tmp_path)
    with pytest.raises(DataError, match=r"graph\.safetensors"):
        load(tmp_path / "missing")


@pytest.mark.data
def test_medical_counts(data_root: Path):
    chunks = json.loads((data_root / "medical" / "chunks.json").read_text(encoding="utf-8"))
    passages = [
        Passage(f"medical-{at:05d}", f"medical-{at:05d}", text, "", 0, len(text)) for at, text in enumerate(chunks)
    ]
    lines = (data_root / "medical" / "extraction.jsonl").read_text(encoding="utf-8").splitlines()
    extractions = [
        Extraction(
            f"medical-{record['chunk']:05d}",
            tuple(record["entities"]),
            tuple(tuple(triple) for triple in record["triples"]),
            tuple(ExtractedAtom(atom["text"], tuple(atom["entities"])) for atom in record["atoms"]),
        )
        for record in map(json.loads, lines)
    ]
    found = statistics(build(passages, extractions))
    assert (found.atoms, found.entities, found.mentions) == (5600, 4453, 15380)
    assert found.isolated_atoms == 0


def test_atom_text_is_idempotent():
    assert atom_text(atom_text(" a\u0301  b ")) == atom_text("\u00e1 b") == "\u00e1 b"

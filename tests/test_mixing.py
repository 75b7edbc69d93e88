"""Mixing propagated scores with similarity and words, trust in links, topics, and diversity, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.config.schema import MixConfig, RetrievalConfig, SeedsConfig
from aeg.core.bm25 import Bm25
from aeg.core.idf import Idf
from aeg.core.records import EffectiveQuery, Passage
from aeg.core.tables import AtomTable, EntityTable
from aeg.errors import ConfigError, DataError
from aeg.query.links import Link, Links
from aeg.query.seeds import build_seeds
from aeg.query.trust import trust
from aeg.retrieval.diversity import diversified
from aeg.retrieval.mixing import Mixing
from aeg.retrieval.search import DocumentMap

TEXTS = ["Ann leads Tarn Lab.", "Bix barks at night.", "Tarn Lab is old.", "Ann owns Bix."]
PASSAGES = [
    Passage("a#0", "a", "Ann leads Tarn Lab. Bix barks at night.", "Ann"),
    Passage("a#1", "a", "Tarn Lab is old.", "Ann"),
    Passage("b", "b", "Ann owns Bix. Bix barks at night.", "Bix (dog)"),
]
OF_ATOM, OF_PASSAGE = [0, 1, 2, 3, 1], [0, 0, 1, 2, 2]
QUESTIONS = ["Who leads the old lab?", "Does Bix bark?"]


def atom_table() -> AtomTable:
    vectors = torch.nn.functional.normalize(torch.randn(4, 5, generator=torch.Generator().manual_seed(3)))
    pairs = torch.tensor(OF_ATOM), torch.tensor(OF_PASSAGE)
    return AtomTable([str(row) for row in range(4)], TEXTS, vectors, *pairs, torch.full((5, 2), -1))


def queries() -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(2, 5, generator=torch.Generator().manual_seed(4)))


def plainly_mixed(scores, trusted, config):
    """The formula of `Mixing`, atom by atom and document by document."""
    atoms, asked = atom_table(), queries().numpy()
    vectors = atoms.embeddings.numpy()
    members = [[a for a, p in zip(OF_ATOM, OF_PASSAGE, strict=True) if p == passage] for passage in range(3)]
    means = np.array([vectors[rows].sum(0) / np.linalg.norm(vectors[rows].sum(0)) for rows in members])
    atom_words = Bm25(TEXTS).scores(QUESTIONS).numpy()
    passage_words = Bm25([f"{p.title}\n{p.text}" for p in PASSAGES]).scores(QUESTIONS).numpy()
    by_atom, by_document = np.zeros((4, 2)), np.zeros((2, 2))
    for q in range(2):
        weight = config.floor + (1 - config.floor) * (1 - float(trusted[q]))
        near = np.maximum(means @ asked[q], 0)
        for a in range(4):
            passages = [p for other, p in zip(OF_ATOM, OF_PASSAGE, strict=True) if other == a]
            exponent = config.similarity * max(float(vectors[a] @ asked[q]), 0)
            exponent += config.passage_similarity * max(near[p] for p in passages)
            exponent += config.bm25 * atom_words[a, q] / max(atom_words[:, q].max(), 1e-30)
            share = max(float(scores[a, q]) / float(scores[:4, q].max()), 1e-5)
            by_atom[a, q] = share * math.exp(weight * exponent)
        words = np.array([max(passage_words[0, q], passage_words[1, q]), passage_words[2, q]])
        walked = np.array([max(scores[a, q] for a in (0, 1, 2)), max(scores[a, q] for a in (1, 3))])
        for d, rows in enumerate(((0, 1), (2,))):
            exponent = config.document_similarity * max(near[p] for p in rows)
            exponent += config.document_bm25 * words[d] / max(words.max(), 1e-30)
            by_document[d, q] = max(walked[d] / walked.max(), 1e-5) * math.exp(weight * exponent)
    return by_atom, by_document


@pytest.mark.parametrize(
    "config", [MixConfig(), MixConfig(1, 0, 0, 0, 3, floor=0.0), MixConfig(0, 2, 5, 1, 0, floor=1.0)]
)
def test_mixed_scores_equal_the_formula(config):
    documents = DocumentMap(atom_table(), PASSAGES, "max")
    mixing = Mixing(config, atom_table(), PASSAGES, documents.of_passage, 2)
    trusted = torch.tensor([0.25, 1.0], dtype=torch.float64)
    scores = torch.tensor([[0.4, 0.0], [0.1, 0.6], [0.3, 0.0], [0.2, 0.4]])
    mixed = mixing.of(QUESTIONS, queries(), trusted)
    atoms, of_documents = mixed.tile(0, scores.clone(), documents.scores(scores))
    by_atom, by_document = plainly_mixed(scores.numpy(), trusted, config)
    np.testing.assert_allclose(atoms.numpy(), by_atom, rtol=1e-5)
    np.testing.assert_allclose(of_documents.numpy(), by_document, rtol=1e-5)
    part = mixed.part(1, 2).tile(0, scores[:, 1:].clone(), documents.scores(scores[:, 1:].contiguous()))
    np.testing.assert_allclose(part[0].numpy(), by_atom[:, 1:], rtol=1e-5)


def test_a_query_that_the_walk_did_not_reach_is_ranked_by_its_text():
    documents = DocumentMap(atom_table(), PASSAGES, "max")
    mixing = Mixing(MixConfig(), atom_table(), PASSAGES, documents.of_passage, 2)
    nothing = torch.zeros(4, 1)
    atoms, _ = mixing.of(QUESTIONS[:1], queries()[:1], torch.zeros(1)).tile(0, nothing, documents.scores(nothing))
    assert bool((atoms > 0).all())
    assert len(set(atoms.squeeze(1).tolist())) == 4


def test_topics_score_documents_and_the_best_atom_stands_in_where_there_is_none():
    documents = DocumentMap(atom_table(), PASSAGES, "topic", topics=torch.tensor([1, 1, -1]))
    assert documents.needs_entities
    scores = torch.tensor([[0.4], [0.1], [0.3], [0.2], [0.05], [0.15]])  # four atoms, two entities
    assert documents.scores(scores, 4).squeeze(1).tolist() == pytest.approx([0.15, 0.2])
    assert not DocumentMap(atom_table(), PASSAGES, "topic").needs_entities


def test_trust_is_the_weighted_share_of_named_content():
    idf = Idf.of([passage.text for passage in PASSAGES])
    asked = [EffectiveQuery(0, "Who leads Tarn Lab?"), EffectiveQuery(1, "Tarn Lab"), EffectiveQuery(2, "the of")]
    links = Links.from_lists([[Link(0, 1.0, "Tarn Lab")], [Link(0, 1.0, "Tarn Lab")], []])
    named, other = idf("tarn") + idf("lab"), idf("lead")
    assert trust(asked, links, idf).tolist() == pytest.approx([named / (named + other), 1.0, 0.0])


def seeded(config: SeedsConfig, trusted=None, words=None):
    table = EntityTable(["ann", "bix"], ["Ann", "Bix"], torch.tensor([2, 2]), None)
    found = Links.from_lists([[Link(1, 1.0, "Bix")], []])
    return build_seeds(found, atom_table(), table, queries(), config, trust=trusted, words=words)


def test_trust_decides_how_much_of_the_seeds_is_on_atoms():
    config = SeedsConfig("trust", atom_share=0.5, atom_top_k=3, fallback_top_k=2)
    _, trace = seeded(config, torch.tensor([0.6, 0.0], dtype=torch.float64))
    assert trace.atom_mass.tolist() == pytest.approx([0.2, 1.0])
    assert trace.flags["fallback"].tolist() == [False, True]
    with pytest.raises(DataError, match="needs one for each query"):
        seeded(config)


def test_words_take_their_share_of_the_atoms_mass():
    config = SeedsConfig("share", atom_share=0.5, atom_top_k=3, lexical_share=0.25, fallback_top_k=2)
    words = torch.tensor([[3, 1, 0], [-1, -1, -1]]), torch.tensor([[5.0, 3.0, 1.0], [0.0, 0.0, 0.0]])
    plain, _ = seeded(SeedsConfig("share", atom_share=0.5, atom_top_k=3, fallback_top_k=2))
    seeds, trace = seeded(config, words=words)
    before, after = plain.tile(0, 2), seeds.tile(0, 2)
    expected = before[:4, 0] / before[:4, 0].sum() * 0.75 + torch.tensor([0.0, 0.5, 0.0, 1.0]) / 1.5 * 0.25
    torch.testing.assert_close(after[:4, 0] / after[:, 0].sum(), 0.5 * expected)
    torch.testing.assert_close(after[:, 1] / after[:, 1].sum(), before[:, 1] / before[:, 1].sum())  # no word in common
    assert trace.num_atoms.tolist()[0] == int((after[:4, 0] > 0).sum())
    with pytest.raises(DataError, match="lexical_share"):
        seeded(config)
    with pytest.raises(ConfigError, match="atom_top_k"):
        SeedsConfig("share", atom_top_k=None, lexical_share=0.5)


def greedily(rows, scores, vectors, strength, k):
    """Maximal marginal relevance, one atom at a time."""
    left = [(row, math.log(score)) for row, score in zip(rows, scores, strict=True) if row >= 0]
    chosen, values = [], []
    while left and len(chosen) < k:
        worth = [
            value - strength * max([0.0, *(float(vectors[row] @ vectors[other]) for other in chosen)])
            for row, value in left
        ]
        at = int(np.argmax(np.float32(worth)))
        chosen.append(left.pop(at)[0])
        values.append(worth[at])
    return chosen, values


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(0, 4), st.floats(0, 6), st.integers(1, 12))
def test_diversified_is_greedy_and_never_rises(seed, pool, missing, strength, k):
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.nn.functional.normalize(torch.randn(20, 4, generator=generator))
    missing, k = min(missing, pool - 1), min(k, pool)
    rows = torch.randperm(20, generator=generator)[:pool]
    scores = torch.rand(pool, generator=generator).add(0.1).sort(descending=True).values
    rows[pool - missing :], scores[pool - missing :] = -1, 0
    found, values = diversified(rows.unsqueeze(0), scores.unsqueeze(0), vectors, strength, k)
    chosen, worth = greedily(rows.tolist(), scores.tolist(), vectors.double(), strength, k)
    assert found[0][: len(chosen)].tolist() == chosen
    assert (found[0][len(chosen) :] == -1).all()
    np.testing.assert_allclose(values[0][: len(chosen)].log(), worth, atol=1e-4)
    assert bool((values[0][1:] <= values[0][:-1] * (1 + 1e-6)).all())


def test_bm25_of_nothing():
    assert Bm25([]).scores(["dog"]).shape == (0, 1)
    assert Bm25(["the"]).scores(["dog"]).tolist() == [[0.0]]
    assert Bm25(["a dog"]).scores([]).shape == (1, 0)


def test_the_shipped_preset_is_what_is_documented():
    from aeg.config.load import load_config

    config = load_config("preset/zero_llm")
    assert config.query.seeds == SeedsConfig(
        "trust", atom_share=0.5, atom_top_k=10, lexical_share=0.5, fallback_top_k=10
    )
    assert config.retrieval == RetrievalConfig(passage_score="topic", diversity=5.0, mix=MixConfig())
    for name in ("quickstart", "two_wiki", "musique", "hotpotqa", "medical", "medical_document", "novel"):
        other = load_config(name)
        assert (other.query, other.retrieval, other.operator) == (config.query, config.retrieval, config.operator)
        assert other.graph == config.graph

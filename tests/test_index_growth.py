"""Ten thousand documents added, removed and replaced, a few at a time: always the graph built from nothing."""

from __future__ import annotations

import dataclasses
import random
from functools import cache

import pytest
import torch
from index_methods import Hashed, extracted

from aeg.backends.nearest import pairs as pairs_module
from aeg.backends.nearest.pairs import Known, capped
from aeg.config.schema import GraphConfig
from aeg.core.records import Extraction, Passage
from aeg.graph import EDGE_TYPES, AtomEntityGraph, build

UPDATES = 10_000
CHECKED = 4  # one graph in so many is compared with a rebuild
NAMES = [
    *(
        "Ann Marlow",
        "Anna Marlow",
        "Ann Marlowe",
        "ANN MARLOW",
        "Anne Marlow",
        "Ann Marlows",
        "Tarn Laboratory",
        "Tarn Laboratories",
        "The Tarn",
    ),
    *("Zürich", "Zurich", "Bix", "Bixby", "Bix Cey", "Keswick", "KESWICK", "Edith Crane", "Edith Craner", "Crane"),
]
LINKS = ["leads", "founded", "was seen near", "met", "and"]
CONFIG = GraphConfig(synonym_threshold=0.6, synonym_top_k=1)


@cache
def document(name: str, version: int) -> tuple[Passage, Extraction]:
    chance = random.Random(f"{name} {version}")
    sentences = []
    for _ in range(chance.randint(0, 3)):
        words = chance.sample(NAMES, chance.randint(1, 3))
        sentences.append(f" {chance.choice(LINKS)} ".join(words) if chance.random() < 0.9 else "it rained again")
    text = ". ".join(sentences)
    passage = Passage(name, name, text, "", 0, len(text))
    return passage, extracted(passage)


class Updates:
    """A graph that is changed by adding, removing and replacing documents, one or several at once."""

    def __init__(self, seed: int) -> None:
        self.chance, self.encoder = random.Random(seed), Hashed().load()
        self.held: dict[str, int] = {"d0": 0, "d1": 1}
        self.version = 2
        self.graph = self.built(None)

    def built(self, previous: AtomEntityGraph | None) -> AtomEntityGraph | None:
        records = [document(name, version) for name, version in sorted(self.held.items())]
        passages, extractions = zip(*records, strict=True)
        if not any(found.atoms for found in extractions):
            return None
        return build(passages, iter(extractions), CONFIG, self.encoder, "cpu", previous)

    def step(self) -> int:
        """Change some documents, then the graph; return how many."""
        updates = self.chance.choice((1, 2, 4, 8, 8))
        for _ in range(updates):
            kind = self.chance.random()
            if kind < 0.45 and len(self.held) < 8:
                self.held[f"d{self.chance.randrange(40)}"] = self.version % 300
            elif kind < 0.8 and len(self.held) > 1:
                del self.held[self.chance.choice(sorted(self.held))]
            else:
                self.held[self.chance.choice(sorted(self.held))] = self.version % 300
            self.version += 1
        self.graph = self.built(self.graph)
        return updates


def assert_same(one: AtomEntityGraph, other: AtomEntityGraph) -> None:
    for table in ("atoms", "entities"):
        for field in dataclasses.fields(getattr(one, table)):
            left, right = (getattr(getattr(graph, table), field.name) for graph in (one, other))
            same = torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right
            assert same, f"{table}.{field.name}"
    for kind in EDGE_TYPES.values():
        for part in ("edge_index", "edge_weight"):
            assert torch.equal(one.data[kind][part], other.data[kind][part]), (kind, part)
    assert one.passages == other.passages
    assert one.counts == other.counts
    assert (one.cut is None) == (other.cut is None)
    assert one.cut is None or torch.equal(one.cut, other.cut)


def test_ten_thousand_mixed_updates_equal_rebuilds():
    updates, done, steps, grown, cut, atoms = Updates(0), 0, 0, 0, 0, 0
    while done < UPDATES:
        before = updates.graph
        done, steps = done + updates.step(), steps + 1
        graph = updates.graph
        if graph is None:
            continue
        grown += before is not None
        cut += graph.cut is not None and graph.cut.shape[1] > 0
        atoms = max(atoms, len(graph.atoms))
        if steps % CHECKED == 0 or done > UPDATES - 100:
            assert_same(graph, updates.built(None))
    assert grown > 0.9 * steps > 1500
    assert cut > 0.2 * steps  # the cap on synonyms decides often
    assert atoms > 10


def test_only_new_texts_are_encoded(monkeypatch):
    updates, encoded = Updates(1), []
    encode = updates.encoder.encode
    monkeypatch.setattr(updates.encoder, "encode", lambda texts: encoded.extend(texts) or encode(texts))
    for _ in range(30):
        before = updates.graph
        encoded.clear()
        updates.step()
        if before is None or updates.graph is None:
            continue
        known = {*before.atoms.texts}, {*before.entities.names}
        new = [t for t in updates.graph.atoms.texts if t not in known[0]]
        assert encoded == new + [n for n in updates.graph.entities.names if n not in known[1]]


def unit(rows: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(max(rows // 8, 1), 8, generator=generator)
    near = centres[torch.randint(len(centres), (rows,), generator=generator)]
    return torch.nn.functional.normalize(near + 0.3 * torch.randn(rows, 8, generator=generator), dim=1)


@pytest.mark.parametrize("top_k", [1, 3, 1000])
def test_pairs_of_new_rows_with_all_equal_a_whole_search(top_k, monkeypatch):
    monkeypatch.setattr(pairs_module, "_CPU_BLOCK", 23)
    chance = random.Random(top_k)
    for seed in range(12):
        vectors = unit(150, seed)
        old = torch.tensor(sorted(chance.sample(range(150), chance.choice((1, 75, 110, 149, 150)))))
        found, cut = capped(vectors[old], 0.8, top_k)
        place = old[torch.cat([torch.stack([found.src, found.dst]), cut.long()], dim=1)]
        order = (place[0] * 150 + place[1]).argsort()
        cosine = torch.cat([found.cosine, torch.full((cut.shape[1],), torch.nan)])
        fresh = torch.tensor(sorted(set(range(150)) - set(old.tolist())), dtype=torch.int64)
        known = Known(place[0, order], place[1, order], cosine[order], fresh)
        (grown, left), (whole, right) = capped(vectors, 0.8, top_k, known=known), capped(vectors, 0.8, top_k)
        for one, other in zip((*grown[:3], left), (*whole[:3], right), strict=True):
            assert torch.equal(one, other)
        assert grown.cut == whole.cut


def test_more_pairs_than_are_held_are_searched_row_by_row(monkeypatch):
    vectors = unit(120, 5)
    whole, cut = capped(vectors, 0.5, 2)
    monkeypatch.setattr(pairs_module, "_MOST", 50)
    rows, unknown = capped(vectors, 0.5, 2)
    assert torch.equal(rows.src, whole.src)
    assert torch.equal(rows.cosine, whole.cosine)
    assert unknown is None
    assert cut is not None
    everything = torch.cat([torch.stack([whole.src, whole.dst]), cut.long()], dim=1)
    order = (everything[0] * 120 + everything[1]).argsort()
    nothing = torch.full((everything.shape[1],), torch.nan)
    known = Known(everything[0, order], everything[1, order], nothing, torch.zeros(0, dtype=torch.int64))
    again, unknown = capped(vectors, 0.5, 2, known=known)
    assert torch.equal(again.src, whole.src)
    assert unknown is None

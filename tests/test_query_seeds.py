"""Seeds: eq. 5 and 6 against explicit dense formulas, both balances, the fall-back and the odd queries."""

from __future__ import annotations

import hashlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.config.schema import SeedsConfig
from aeg.core.records import EffectiveQuery
from aeg.core.tables import AtomTable, EntityTable
from aeg.errors import ConfigError, DataError
from aeg.query import Link, Links, build_seeds, needs_atoms, query_keys
from aeg.query import similarity as similarity_module

ATOMS, ENTITIES, DIM = 12, 5, 6


def config_of(balance: str = "alpha", **params: object) -> SeedsConfig:
    """The paper's settings, whatever the defaults are."""
    paper = {"alpha": 0.1, "atom_share": 0.5, "atom_top_k": None, "fallback_top_k": 30}
    return SeedsConfig(**{"balance": balance, **paper, **params})


def unit(seed: int, rows: int) -> torch.Tensor:
    values = torch.randn(rows, DIM, generator=torch.Generator().manual_seed(seed))
    return values / values.norm(dim=1, keepdim=True)


def atom_table(vectors: torch.Tensor | None, count: int = ATOMS) -> AtomTable:
    none = torch.zeros(0, dtype=torch.int64)
    texts = [f"atom {n}" for n in range(count)]
    return AtomTable(texts, texts, vectors, none, none, none.reshape(0, 2))


KEYS = [f"e{n}" for n in range(ENTITIES)]
TABLE = EntityTable(KEYS, KEYS, torch.ones(ENTITIES, dtype=torch.int64), None)
VECTORS = unit(0, ATOMS)
QUERIES = [EffectiveQuery(n, f"query {n}") for n in range(4)]
DEFAULT = atom_table(VECTORS)
LINKS = [(Link(2, 0.5, "a"), Link(0, 0.25, "b")), (), (Link(4, 1.0, "c"),), (Link(1, 0.3, "d"), Link(3, 0.2, "e"))]


def built(config: SeedsConfig, links=LINKS, embeddings="default", atoms=DEFAULT, nearest=None):
    queries = QUERIES[: len(links)]
    given_vectors = unit(1, len(links)) if isinstance(embeddings, str) else embeddings
    keys = query_keys(queries)
    return build_seeds(Links.from_lists(links), atoms, TABLE, given_vectors, config, nearest, keys)


def min_max(cosines: torch.Tensor, k: int | None) -> torch.Tensor:
    """r_atom of one query by the definition, float64 [atoms]."""
    order = sorted(range(len(cosines)), key=lambda row: (-float(cosines[row]), row))[: k or len(cosines)]
    considered = cosines[order]
    out = torch.zeros(len(cosines), dtype=torch.float64)
    span = considered.max() - considered.min()
    out[order] = (considered - considered.min()) / span if span > 0 else torch.ones_like(considered)
    return out


def expected(config: SeedsConfig, links, embeddings: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """The normalised personalisation by the definition, float64 [nodes, queries]."""
    out = torch.zeros(len(vectors) + ENTITIES, len(links), dtype=torch.float64)
    for q, found in enumerate(links):
        entity = torch.zeros(ENTITIES, dtype=torch.float64)
        for link in found:
            entity[link.entity] = link.weight
        cosines = vectors.double() @ embeddings[q].double()
        fallback = not found and config.fallback_top_k > 0
        atom = min_max(cosines, config.fallback_top_k if fallback else config.atom_top_k)
        if config.balance == "alpha":
            column = torch.cat([atom if fallback else config.alpha * atom, entity])
        elif not found:
            column = torch.cat([atom * needs_atoms(config) if not fallback else atom, entity])
        else:
            column = torch.cat([config.atom_share * atom / atom.sum(), (1 - config.atom_share) * entity / entity.sum()])
        out[:, q] = column / column.sum() if column.sum() > 0 else column
    return out


def normalised(seeds) -> torch.Tensor:
    tile = seeds.tile(0, seeds.num_queries).double()
    return tile / tile.sum(0).clamp(min=1e-30)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["alpha", "share"]),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.sampled_from([None, 1, 2, 5, 50]),
    st.sampled_from([0, 1, 3, 30]),
    st.integers(0, 50),
    st.sampled_from([1, 1 << 25]),
    st.sampled_from([0, 1 << 24]),
)
def test_seeds_equal_the_definition(balance, value, top_k, fallback, seed, block, kept):
    config = config_of(balance, alpha=value, atom_share=value, atom_top_k=top_k, fallback_top_k=fallback)
    embeddings = unit(seed, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity_module, "_BLOCK", block)
        patch.setattr(similarity_module, "_KEPT", kept)
        seeds, trace = built(config, embeddings=embeddings)
    truth = expected(config, LINKS, embeddings, VECTORS)
    torch.testing.assert_close(normalised(seeds), truth, atol=2e-6, rtol=0)
    torch.testing.assert_close(trace.atom_mass, truth[:ATOMS].sum(0), atol=2e-6, rtol=0)
    torch.testing.assert_close(trace.entity_mass, truth[ATOMS:].sum(0), atol=2e-6, rtol=0)
    assert trace.num_entities.tolist() == (truth[ATOMS:] > 0).sum(0).tolist()
    assert trace.num_atoms.tolist() == (truth[:ATOMS] > 0).sum(0).tolist()
    assert trace.flags["fallback"].tolist() == [False, fallback > 0, False, False]
    assert trace.flags["no_seeds"].tolist() == (truth.sum(0) == 0).tolist()
    assert (seeds.dense is not None) == (top_k is None and needs_atoms(config))


def test_alpha_weighs_raw_scores():
    seeds, _ = built(config_of(alpha=0.1), embeddings=unit(3, 4))
    tile = seeds.tile(0, 4)
    assert float(tile[:ATOMS, 0].max()) == pytest.approx(0.1, abs=1e-6)
    assert float(tile[:ATOMS, 0].min()) == pytest.approx(0.0, abs=1e-6)
    assert tile[ATOMS:, 0].tolist() == [0.25, 0.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("top_k", [None, 4])
def test_share_sums(top_k):
    seeds, trace = built(config_of("share", atom_share=0.8, atom_top_k=top_k, fallback_top_k=0))
    tile = seeds.tile(0, 4)
    assert tile[:ATOMS].sum(0).tolist() == pytest.approx([0.8, 1.0, 0.8, 0.8], abs=1e-5)
    assert tile[ATOMS:].sum(0).tolist() == pytest.approx([0.2, 0.0, 0.2, 0.2], abs=1e-6)
    assert trace.atom_mass.tolist() == pytest.approx([0.8, 1.0, 0.8, 0.8], abs=1e-9)


@pytest.mark.parametrize("config", [config_of(alpha=0.5), config_of(alpha=0.5, atom_top_k=5)])
def test_equal_scores_weigh_one(config):
    same = unit(5, 1).repeat(ATOMS, 1)
    seeds, trace = built(config, atoms=atom_table(same), embeddings=unit(6, 4))
    atom_part = seeds.tile(0, 4)[:ATOMS, 0]
    assert sorted(set(atom_part.tolist())) in ([0.5], [0.0, 0.5])
    assert int((atom_part == 0.5).sum()) == int(trace.num_atoms[0]) == (config.atom_top_k or ATOMS)
    if config.atom_top_k:
        assert atom_part.nonzero().squeeze(1).tolist() == [0, 1, 2, 3, 4]  # ties in row order


def test_without_embeddings_where_none_are_needed():
    config = config_of(alpha=0.0)
    assert not needs_atoms(config)
    assert needs_atoms(config_of())
    assert needs_atoms(config_of("share", alpha=0.0))
    assert not needs_atoms(config_of("share", atom_share=0.0))
    seeds, trace = built(config, embeddings=None, atoms=atom_table(None))
    assert seeds.dense is None
    assert seeds.ptr.tolist() == [0, 2, 2, 3, 5]
    assert seeds.nodes.tolist() == [12, 14, 16, 13, 15]
    assert seeds.weights.tolist() == pytest.approx([0.25, 0.5, 1.0, 0.3, 0.2])
    assert seeds.flags["no_seeds"].tolist() == [False, True, False, False]
    assert not seeds.flags["fallback"].any()
    assert trace.entity_mass.tolist() == [1.0, 0.0, 1.0, 1.0]


def test_missing_or_misshapen_input_is_named():
    with pytest.raises(ConfigError, match=r"alpha = 0\.1 seeds atoms"):
        built(config_of(), embeddings=None)
    with pytest.raises(ConfigError, match=r"atom_share = 0\.5"):
        built(config_of("share"), embeddings=None)
    with pytest.raises(DataError, match="atoms without any"):
        built(config_of(), atoms=atom_table(None))
    with pytest.raises(DataError, match=r"\(4, 3\), expected \(4, 6\)"):
        built(config_of(), embeddings=torch.ones(4, 3))
    with pytest.raises(DataError, match=r"\(4, 6\), expected \(3, 6\)"):
        built(config_of(), links=LINKS[:3], embeddings=unit(1, 4))
    with pytest.raises(DataError, match="4 keys, expected 3"):
        build_seeds(Links.from_lists(LINKS[:3]), DEFAULT, TABLE, None, config_of(alpha=0.0), keys=query_keys(QUERIES))
    with pytest.raises(DataError, match="entities 9 to 9, expected 0 to 4"):
        built(config_of(alpha=0.0), links=[(Link(9, 1.0, "x"),)], embeddings=None)
    with pytest.raises(DataError, match=r"weight -1\.0"):
        built(config_of(alpha=0.0), links=[(Link(1, -1.0, "x"),)], embeddings=None)


@pytest.mark.parametrize("config", [config_of(), config_of("share", atom_top_k=3)])
@pytest.mark.parametrize("bad", [float("nan"), 0.0])
def test_a_bad_embedding_is_flagged_and_leaves_the_others_alone(config, bad):
    good = unit(1, 4)
    before, _ = built(config, embeddings=good)
    embeddings = good.clone()
    embeddings[1:3] = bad  # a query without links, and one with
    seeds, trace = built(config, embeddings=embeddings)
    assert trace.flags["bad_embedding"].tolist() == [False, True, True, False]
    assert trace.flags["no_seeds"].tolist() == [False, True, False, False]
    tile = seeds.tile(0, 4)
    torch.testing.assert_close(tile[:, [0, 3]], before.tile(0, 4)[:, [0, 3]])
    assert float(tile[:, 1].abs().sum()) == 0
    assert float(tile[:ATOMS, 2].sum()) == 0
    assert float(tile[ATOMS + 4, 2]) == 1.0


def test_an_index_is_asked_instead_of_all_vectors():
    class Index:
        def search(self, queries: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
            scores = torch.tensor([[0.9, 0.5, 0.7, 0.0]]).repeat(len(queries), 1)
            return scores, torch.tensor([[7, 3, 5, -1]]).repeat(len(queries), 1)

    seeds, trace = built(config_of(alpha=1.0, atom_top_k=4), nearest=Index(), links=[(), LINKS[0]])
    tile = seeds.tile(0, 2)
    for column in (0, 1):
        assert tile[:ATOMS, column].nonzero().squeeze(1).tolist() == [5, 7]
        assert tile[[5, 7], column].tolist() == pytest.approx([0.5, 1.0])
    assert trace.num_atoms.tolist() == [2, 2]


def test_keys_are_stable_and_small_cases_work():
    seeds, _ = built(config_of())
    digest = hashlib.sha256(b"query 2").digest()[:8]
    assert seeds.keys[2].item() == int.from_bytes(digest, "big", signed=True)
    assert seeds.keys.dtype == torch.int64
    assert len(set(seeds.keys.tolist())) == 4
    empty, trace = built(config_of(), links=[], embeddings=torch.zeros(0, DIM))
    assert empty.num_queries == 0
    assert len(trace.atom_mass) == 0
    no_atoms, trace = built(config_of(), atoms=atom_table(torch.zeros(0, DIM), 0))
    assert no_atoms.tile(0, 4).shape == (ENTITIES, 4)
    assert trace.flags["no_seeds"].tolist() == [False, True, False, False]
    one, trace = built(config_of(), atoms=atom_table(VECTORS[:1], 1))
    assert trace.atom_mass[1].item() == 1.0
    assert one.tile(0, 4)[0].tolist() == pytest.approx([0.1, 1.0, 0.1, 0.1])

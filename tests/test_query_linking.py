"""Entity linking: longest match of words, nearest embeddings, and the two together."""

from __future__ import annotations

import hashlib
import math
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.core.key_index import KeyIndex
from aeg.core.keys import canonical_key
from aeg.core.lexicon import FUNCTION_WORDS, word_spans
from aeg.core.records import EffectiveQuery
from aeg.core.tables import EntityTable
from aeg.errors import ConfigError, DataError
from aeg.query import LINKERS
from aeg.query import embedding as embedding_module


def vector(text: str) -> torch.Tensor:
    """A unit vector that depends on the text alone."""
    raw = hashlib.sha256(canonical_key(text).encode()).digest()[:16]
    values = torch.tensor(list(raw), dtype=torch.float32) - 90.0
    return values / values.norm()


class HashEncoder:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode(self, texts: list[str], kind: str = "query") -> torch.Tensor:
        assert kind == "passage"
        self.seen += texts
        return torch.stack([vector(text) for text in texts])


def table(*names: str, mentions: list[int] | None = None, embedded: bool = True) -> EntityTable:
    keys = sorted({canonical_key(name) for name in names})
    counts = torch.tensor(mentions or [0] * len(keys), dtype=torch.int64)
    return EntityTable(keys, keys, counts, torch.stack([vector(k) for k in keys]) if embedded else None)


def linked(text: str, entities: EntityTable, **params: object) -> list[str]:
    [links] = LINKERS.make("lexical", **params).link([EffectiveQuery(0, text)], entities)
    return sorted(entities.keys[link.entity] for link in links)


@pytest.mark.parametrize(
    ("text", "keys", "expected"),
    [
        ("When did Lothair Ii's mother die?", ["Lothair II", "Lothair", "mother"], ["lothair ii"]),
        ("When did Lothair Ii’s mother die?", ["Lothair II"], ["lothair ii"]),
        ("Who founded McDonald's?", ["McDonald's", "McDonald"], ["mcdonald's"]),
        ("Who is the director of Director X?", ["director", "Director X"], ["director x"]),
        ("who is the director?", ["director"], []),
        ("What is hydrogen peroxide used for?", ["hydrogen peroxide", "hydrogen"], ["hydrogen peroxide"]),
        ("Who wrote The It?", ["who", "the it", "it"], []),
        ("Who directed The Godfather, Part Ii?", ["The Godfather", "The Godfather, Part II"],
         ["the godfather, part ii"]),
        ("Is C++ or C# older than .NET?", ["C++", "C#", ".NET", "net"], [".net", "c++"]),
        ("Was Zu\u0308rich larger than Genf?", ["Zürich", "genf"], ["genf", "zürich"]),
        ("青岛在山东吗?", ["青岛", "山东", "青"], ["山东", "青岛"]),
        ("STRASSE or Straße?", ["strasse"], ["strasse"]),
        ("Ann  Lee\nmet ANN LEE", ["Ann Lee", "ann", "lee"], ["ann lee"]),
        ("Ed Al met Al", ["al", "Ed Al Met"], ["ed al met"]),
        ("", ["ann"], []),
        ("Did Jean-Luc Godard film “Breathless (1960)”?", ["Jean-Luc Godard", "Breathless (1960)"],
         ["breathless (1960", "jean-luc godard"]),
    ],
)  # fmt: skip
def test_longest_match(text, keys, expected):
    assert linked(text, table(*keys)) == expected


def test_lower_case_tokens_can_be_allowed_but_never_function_words():
    entities = table("melanoma", "what", "is")
    assert linked("what is melanoma?", entities) == []
    assert linked("what is melanoma?", entities, lower_case_tokens=True) == ["melanoma"]


def test_greedy_from_the_left_and_bounded_in_length():
    index = KeyIndex(["ann lee", "lee park hall", "park hall"])
    assert index.longest_matches("Ann Lee Park Hall") == [(0, "Ann Lee"), (2, "Park Hall")]
    long = " ".join(f"W{n}" for n in range(13))
    assert KeyIndex([long.lower()]).longest_matches(long) == []
    assert KeyIndex([long.lower()]).longest_matches(long, max_tokens=13) == [(0, long)]


def test_weights_are_specificities_strongest_first_and_entities_come_once():
    entities = table("Ann", "Bob", "Cyd", mentions=[5, 0, 0])
    [links] = LINKERS.make("lexical").link([EffectiveQuery(0, "Ann and Cyd and Bob and ANN")], entities)
    assert [(link.entity, link.mention) for link in links] == [(1, "Bob"), (2, "Cyd"), (0, "Ann")]
    assert links[2].weight == pytest.approx(1 / (1 + math.log(6)), rel=1e-6)


def test_use_mentions_looks_up_the_mention_then_inside_it():
    entities = table("uv", "Ann Lee", "melanoma", "the who")
    method = LINKERS.make("lexical", use_mentions=True)
    assert method.needs_mentions
    assert not LINKERS.make("lexical").needs_mentions
    item = EffectiveQuery(
        0, "Ann Lee?", ("UV", "MELANOMA", "the songs of Ann Lee's band", "no melanoma here", "the who")
    )
    [links] = method.link([item], entities)
    assert {(entities.keys[link.entity], link.mention) for link in links} == {
        ("uv", "UV"), ("melanoma", "MELANOMA"), ("ann lee", "Ann Lee"), ("the who", "the who"),
    }  # fmt: skip
    assert method.link([EffectiveQuery(0, "Ann Lee?")], entities)[0] == ()


WORDS = st.sampled_from(
    ["Ann", "lee", "Lee's", "lee's", "the", "Of", "C++", ".NET", "U.S.", "x", "Straße", "Zürich", "Zu\u0308rich",
     "青岛", "7", "Éa_b's_", "½", "(ﬁn)", "ΟΔΟΣ", "Ann–Lee", "\u1100\u1161"]
)  # fmt: skip


def by_definition(text: str, rows: dict[str, int], lower: bool) -> list[tuple[int, str]]:
    """The greedy longest matches, each stretch looked up by its canonical key."""
    text = " ".join(text.split())
    spans, found, first = word_spans(text), [], 0
    while first < len(spans):
        step = 1
        for last in range(min(first + 12, len(spans)) - 1, first - 1, -1):
            words = [text[start:end].casefold() for start, end in spans[first : last + 1]]
            match = text[spans[first][0] : spans[last][1]]
            row = rows.get(canonical_key(match))
            content = [at for at, word in enumerate(words) if word not in ("'s", "’s")]
            if row is None or words[0] in ("'s", "’s") or all(word in FUNCTION_WORDS for word in words):
                continue
            single = text[slice(*spans[first + content[0]])]
            if len(content) > 1 or (len(canonical_key(match)) > 2 and (lower or not single.islower())):
                found.append((row, match))
                step = last - first + 1
                break
        first += step
    return found


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=8), st.lists(st.lists(WORDS, min_size=1, max_size=3), max_size=6), st.booleans())
def test_shortcuts_change_nothing(words, names, lower):
    text = ", ".join(words[:3]) + " " + "  ".join(words[3:])
    keys = dict.fromkeys(canonical_key(" ".join(name)) for name in names)
    rows = {key: n for n, key in enumerate(keys)}
    assert KeyIndex(list(rows)).longest_matches(text, lower_case_tokens=lower) == by_definition(text, rows, lower)


def test_lexical_linking_is_fast():
    keys = sorted(f"entity {n} of town {n % 97}" for n in range(50_000))
    entities = EntityTable(keys, keys, torch.zeros(len(keys), dtype=torch.int64), None)
    queries = [EffectiveQuery(n, f"Who is older, Entity {n} of Town {n % 97} or the mayor of it?") for n in range(2000)]
    start = time.perf_counter()
    links = LINKERS.make("lexical").link(queries, entities)
    assert time.perf_counter() - start < 5
    assert [entities.keys[found[0].entity] for found in links[:2]] == ["entity 0 of town 0", "entity 1 of town 1"]


def brute_force(mentions: tuple[str, ...], entities: EntityTable, top_k: int, threshold: float) -> dict[int, float]:
    best = {
        row: max(float(vector(m) @ entities.embeddings[row]) for m in mentions if m.strip())
        for row in range(len(entities))
        if any(m.strip() for m in mentions)
    }
    ranked = sorted(((score, row) for row, score in best.items() if score > threshold), key=lambda p: (-p[0], p[1]))
    return {row: score for score, row in ranked[:top_k]}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["ann", "Bob", "CYD", "dee", "e1", " "]), max_size=4), min_size=1, max_size=6),
    st.sampled_from([1, 3, 20]),
    st.sampled_from([0.0, 0.3, 0.6]),
    st.sampled_from([1, 40, 1 << 25]),
)
def test_embedding_linker_equals_brute_force(mentions, top_k, threshold, block):
    entities = table(*(f"name {n}" for n in range(30)), "bob", "ann")
    queries = [EffectiveQuery(n, "q", tuple(found)) for n, found in enumerate(mentions)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding_module, "_BLOCK", block)
        links = LINKERS.make("embedding", top_k=top_k, threshold=threshold).link(queries, entities, HashEncoder())
    for query, found in zip(queries, links, strict=True):
        expected = brute_force(query.mentions, entities, top_k, threshold)
        assert {link.entity for link in found} == set(expected)
        assert [link.weight for link in found] == sorted((link.weight for link in found), reverse=True)
        for link in found:
            assert link.weight == pytest.approx(expected[link.entity], abs=1e-6)
            assert float(vector(link.mention) @ entities.embeddings[link.entity]) == pytest.approx(
                link.weight, abs=1e-6
            )


def test_embedding_linker_encodes_each_mention_once_and_says_what_it_lacks():
    encoder = HashEncoder()
    queries = [EffectiveQuery(0, "q", ("Bob", "ann")), EffectiveQuery(1, "q", ("Bob",)), EffectiveQuery(2, "q")]
    links = LINKERS.make("embedding").link(queries, table("Bob", "Ann"), encoder)
    assert encoder.seen == ["Bob", "ann"]
    assert links[1][0].weight == pytest.approx(1.0)
    assert links[2] == ()
    assert LINKERS.make("embedding").link(queries[2:], table("Bob"), None)[0] == ()
    with pytest.raises(ConfigError, match="no encoder"):
        LINKERS.make("embedding").link(queries, table("Bob"), None)
    with pytest.raises(DataError, match="without embeddings"):
        LINKERS.make("embedding").link(queries, table("Bob", embedded=False), encoder)
    short = EntityTable(["bob"], ["Bob"], torch.tensor([1]), torch.ones(1, 3))
    with pytest.raises(DataError, match=r"\(2, 16\), expected \(2, 3\)"):
        LINKERS.make("embedding").link(queries, short, encoder)


def test_both_falls_back_only_where_words_find_nothing():
    entities = table("Ann", "Bob", "Cyd", mentions=[9, 9, 9])
    queries = [EffectiveQuery(0, "Is it Ann?", ("bob",)), EffectiveQuery(1, "is it bob?", ("bob",))]
    encoder = HashEncoder()
    first, second = LINKERS.make("both", threshold=0.99).link(queries, entities, encoder)
    assert [(link.entity, link.mention) for link in first] == [(0, "Ann")]
    assert [(link.entity, link.mention) for link in second] == [(1, "bob")]
    assert second[0].weight == pytest.approx(1.0)
    assert encoder.seen == ["bob"]
    assert LINKERS.make("both").link(queries[:1], entities, None)[0] == first  # nothing to embed: no encoder needed


def test_both_united_takes_the_larger_weight():
    entities = table("Ann", "Bob", "Cyd", mentions=[9, 9, 9])
    query = EffectiveQuery(0, "Is it Ann or Cyd?", ("ann", "bob"))
    [links] = LINKERS.make("both", mode="union", threshold=0.99).link([query], entities, HashEncoder())
    assert [entities.keys[link.entity] for link in links] == ["ann", "bob", "cyd"]
    assert [link.weight for link in links] == pytest.approx([1.0, 1.0, 1 / (1 + math.log(10))], rel=1e-5)

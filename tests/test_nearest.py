"""Indexes: every exact engine finds the same rows, ties go by row, approximate ones are reproducible."""

from __future__ import annotations

import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.backends.nearest import TorchIndex, build_index
from aeg.backends.nearest import exact as exact_module
from aeg.backends.nearest.faiss_index import FaissIndex
from aeg.backends.nearest.ranking import exact_scores, order
from aeg.errors import ConfigError, DependencyError

EXACT = ("flat", "torch")


def unit(rows: int, dim: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(rows, dim, generator=generator), dim=1)


def with_duplicates(seed: int = 0) -> torch.Tensor:
    """400 rows, of which 0 to 99 stand three times, one row 60 times."""
    base = unit(201, 24, seed)
    rows = torch.cat([torch.arange(100), torch.arange(200), torch.arange(100), torch.full((60,), 200)])
    shuffled = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed + 1))
    return base[rows[shuffled]]


def brute_force(vectors: torch.Tensor, queries: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sort all rows by (score, row); scores are float64 products rounded to float32."""
    scores = (queries.double() @ vectors.double().T).float()
    top = scores.sort(dim=1, descending=True, stable=True)
    return top.values[:, :k], top.indices[:, :k]


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_exact_kinds_equal_brute_force_with_duplicates(kind, k):
    vectors = with_duplicates()
    queries = torch.cat([vectors[:10], unit(20, 24, seed=5)])
    scores, rows = build_index(vectors, kind).search(queries, k)
    expected_scores, expected_rows = brute_force(vectors, queries, k)
    assert torch.equal(rows, expected_rows)
    assert torch.allclose(scores, expected_scores, atol=2e-7)
    assert rows.dtype == torch.int64
    assert scores.dtype == torch.float32
    assert bool((scores.diff(dim=1) <= 0).all())


def test_engines_agree_bit_for_bit():
    vectors, queries = unit(700, 48), unit(30, 48, seed=9)
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatIP(48)
    index.add(vectors.numpy())
    flat, torchs = FaissIndex(vectors, "cpu", "faiss-flat", index, exact=True), build_index(vectors, "flat")
    assert torchs.engine == "torch"
    assert torchs.notes == ()
    for one, other in zip(flat.search(queries, 12), torchs.search(queries, 12), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.parametrize("levels", [2, 7, 1000])
def test_the_largest_of_a_row_are_torch_s(count, levels):
    table = torch.randint(levels, (9, 700), generator=torch.Generator().manual_seed(count)) / levels
    values, columns = exact_module._largest(table, count)
    assert torch.equal(values, table.topk(count, dim=1).values)
    assert torch.equal(table.gather(1, columns), values)
    assert all(len(set(row)) == count for row in columns.tolist())
    table[3] = torch.nan
    assert torch.equal(exact_module._largest(table, count)[0][:3], values[:3])


@pytest.mark.parametrize("kind", EXACT)
def test_tie_at_rank_k_that_outgrows_the_margin(kind):
    """All rows tie: the k first rows are found although any k of 500 would do for an engine."""
    vectors = unit(1, 8).repeat(500, 1)
    scores, rows = build_index(vectors, kind).search(vectors[:2], 3)
    assert rows.tolist() == [[0, 1, 2]] * 2
    assert len(set(scores.flatten().tolist())) == 1


def test_blocks_do_not_change_the_result(monkeypatch):
    vectors, queries = with_duplicates(3), unit(23, 24, seed=4)
    whole = build_index(vectors, "torch").search(queries, 30)
    monkeypatch.setattr(exact_module, "_CPU_BLOCK", (7, 50))
    blocked = build_index(vectors, "torch").search(queries, 30)
    assert torch.equal(whole[1], blocked[1])
    assert torch.equal(whole[0], blocked[0])


@pytest.mark.parametrize("kind", ["flat", "torch", "hnsw", "ivf"])
def test_more_asked_than_there_is(kind):
    vectors = unit(3, 5)
    scores, rows = build_index(vectors, kind).search(vectors[:1], 5)
    assert rows[0, 0] == 0
    assert sorted(rows[0, :3].tolist()) == [0, 1, 2]
    assert rows[0, 3:].tolist() == [-1, -1]
    assert scores[0, 3:].tolist() == [-torch.inf, -torch.inf]


@pytest.mark.parametrize("kind", EXACT)
def test_empty_index_and_no_queries(kind):
    scores, rows = build_index(torch.empty(0, 4), kind).search(unit(2, 4), 3)
    assert rows.tolist() == [[-1] * 3] * 2
    assert bool(torch.isinf(scores).all())
    assert build_index(unit(5, 4), kind).search(torch.empty(0, 4), 3)[1].shape == (0, 3)


@pytest.mark.parametrize("kind", EXACT)
def test_a_query_that_is_not_finite_finds_nothing_and_leaves_the_others_alone(kind):
    vectors, queries = unit(50, 6), unit(8, 6, seed=2)
    index = build_index(vectors, kind)
    expected = index.search(queries, 4)[1]
    queries[3, 2] = torch.nan
    scores, rows = index.search(queries, 4)
    others = [0, 1, 2, 4, 5, 6, 7]
    assert torch.equal(rows[others], expected[others])
    assert rows[3].tolist() == [-1] * 4
    assert scores[3].tolist() == [-torch.inf] * 4


def test_wrong_shapes_and_names():
    index = build_index(unit(5, 4), "torch")
    with pytest.raises(ValueError, match=r"queries: got shape \(2, 3\), expected \[q, 4\]"):
        index.search(torch.zeros(2, 3), 1)
    with pytest.raises(ValueError, match="k: got 0"):
        index.search(torch.zeros(2, 4), 0)
    with pytest.raises(ConfigError, match="Did you mean 'flat'"):
        build_index(unit(5, 4), "flatt")
    with pytest.raises(ConfigError, match="nprobe"):
        build_index(unit(5, 4), "ivf", nprobe=0)


@pytest.mark.parametrize(
    ("kind", "params"), [("hnsw", {"m": 16, "ef_search": 64}), ("ivf", {"nlist": 20, "nprobe": 8})]
)
def test_approximate_kinds_are_reproducible_and_near(kind, params):
    vectors = torch.nn.functional.normalize(unit(40, 16)[torch.arange(2000) % 40] + 0.2 * unit(2000, 16, seed=3), dim=1)
    queries = vectors[::50]
    first = build_index(vectors, kind, **params).search(queries, 10)
    second = build_index(vectors, kind, **params).search(queries, 10)
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    true = build_index(vectors, "torch").search(queries, 10)[1]
    recall = sum(len(set(a.tolist()) & set(b.tolist())) for a, b in zip(first[1], true, strict=True)) / true.numel()
    assert recall > 0.9
    few = {"hnsw": {"m": 2, "ef_construction": 1, "ef_search": 1}, "ivf": {"nlist": 200, "nprobe": 1}}[kind]
    worse = build_index(vectors, kind, **few).search(queries, 10)[1]
    assert not torch.equal(worse, true), "the parameters have no effect"


def test_scores_do_not_depend_on_the_candidates():
    vectors, queries = unit(60, 10), unit(4, 10, seed=1)
    rows = torch.arange(60).expand(4, -1)
    scores = exact_scores(queries, vectors, rows)
    part = exact_scores(queries, vectors, rows[:, 20:23])
    assert torch.equal(scores[:, 20:23], part)
    assert torch.equal(exact_scores(queries, vectors, torch.full((4, 1), -1)), torch.full((4, 1), -torch.inf))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_order_is_by_score_then_row_whatever_the_order_of_candidates(values, random):
    """Scores on a grid, moved by less than the tie distance: the grid decides, then the row."""
    rows = list(range(len(values)))
    random.shuffle(rows)
    jitter = [random.choice([0.0, 3e-8]) for _ in values]
    scores = torch.tensor([[values[row] / 16 + jitter[row] for row in rows]])
    _, ordered = order(scores, torch.tensor([rows]), len(rows))
    assert ordered[0].tolist() == sorted(rows, key=lambda row: (-values[row], row))


class TestWithoutFaiss:
    @pytest.fixture(autouse=True)
    def _hidden(self, monkeypatch):
        from aeg.backends.nearest import probe

        monkeypatch.setitem(sys.modules, "faiss", None)
        probe.cpu_fault.cache_clear()
        yield
        probe.cpu_fault.cache_clear()

    def test_flat_needs_none(self):
        vectors = unit(30, 4)
        index = build_index(vectors, "flat")
        assert isinstance(index, TorchIndex)
        assert torch.equal(index.search(vectors, 2)[1][:, 0], torch.arange(30))

    @pytest.mark.parametrize("kind", ["hnsw", "ivf"])
    def test_approximate_kinds_say_what_to_install(self, kind):
        with pytest.raises(DependencyError, match="pip install faiss-cpu"):
            build_index(unit(5, 4), kind)


class TestProbe:
    def test_a_sound_index_passes(self):
        import faiss

        from aeg.backends.nearest.probe import search_fault

        assert search_fault(faiss.IndexFlatIP(16)) == ""

    def test_wrong_neighbours_and_failures_are_found(self):
        """An L2 index of shuffled rows answers wrongly; an index of another dimension fails."""
        import faiss

        from aeg.backends.nearest.probe import search_fault

        assert "wrong neighbours" in search_fault(faiss.IndexFlatL2(16))
        assert "failed" in search_fault(faiss.IndexFlatIP(15))

    def test_no_gpu_here_is_a_reason(self):
        from aeg.backends.nearest.probe import gpu_fault

        if torch.cuda.is_available():
            pytest.skip("there is a GPU")
        assert "GPU" in gpu_fault(0)

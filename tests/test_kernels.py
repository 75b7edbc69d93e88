"""The CPU kernels against SciPy in float64: every width and precision, odd rows, threads; tiles; stored operators."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.core import order
from aeg.core.kernels import Equation, Kernel, Matrix, TorchKernel, choose, compiled, threads, tiles
from aeg.core.kernels.threads import bounds, share
from aeg.core.operator import Operator
from aeg.core.order import locality_order, reordered
from aeg.errors import ConfigError, DataError
from aeg.propagation import METHODS, make, search
from aeg.propagation.contract import sample_graph, sample_seeds

pytest.importorskip("numba")

WIDTHS = (1, 3, 8, 16, 17, 32)
DTYPES = (torch.float32, torch.float64)
CLOSE = {torch.float32: 3e-6, torch.float64: 1e-14}


def matrix_of(op: Operator, first: int = 0, stop: int | None = None) -> Matrix:
    rows = slice(first, op.num_nodes if stop is None else stop)
    low, high = int(op.crow[rows.start]), int(op.crow[rows.stop])
    return Matrix(op.crow[rows.start : rows.stop + 1] - low, op.col[low:high], op.weight[low:high], op.num_nodes, first)


def star(spokes: int = 200) -> Operator:
    ends = torch.arange(1, spokes + 1)
    index = torch.stack([torch.zeros_like(ends), ends])
    return Operator.from_edges(spokes + 5, index, torch.linspace(0.1, 3.0, spokes))


def rectangle(rows: int, columns: int) -> Matrix:
    """A matrix that is no block of a square one."""
    generator = torch.Generator().manual_seed(rows)
    dense = torch.rand(rows, columns, generator=generator)
    sparse = torch.where(dense < 0.9, 0.0, dense)
    crow = torch.cat([torch.zeros(1, dtype=torch.int64), (sparse > 0).sum(1).cumsum(0)])
    row, col = sparse.nonzero(as_tuple=True)
    return Matrix(crow.to(torch.int32), col.to(torch.int32), sparse[row, col], columns)


def bare(nodes: int) -> Operator:
    return Operator.from_edges(nodes, torch.zeros(2, 0, dtype=torch.int64))


MATRICES = {
    "random": matrix_of(sample_graph(nodes=150, edges=500)),
    "hub": matrix_of(star()),
    "block": matrix_of(sample_graph(nodes=150, edges=500), 31, 120),
    "block without rows": matrix_of(star(), 4, 4),
    "wide": rectangle(40, 170),
    "tall": rectangle(170, 40),
    "no edges": matrix_of(bare(7)),
    "no nodes": matrix_of(bare(0)),
}


class Problem:
    """Random numbers for one step with a matrix, and what the step should give, by SciPy in float64."""

    def __init__(self, matrix: Matrix, width: int, dtype: torch.dtype, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        rows, n = len(matrix.crow) - 1, matrix.num_nodes
        self.x = torch.rand(n, width, generator=generator, dtype=torch.float64).sub(0.3).to(dtype)
        self.b, self.before = (torch.rand(rows, width, generator=generator, dtype=torch.float64) for _ in range(2))
        self.b, self.before = self.b.to(dtype), self.before.to(dtype)
        scale = torch.rand(rows, generator=generator, dtype=torch.float64).div(1000).to(dtype)
        weights = torch.rand(rows, generator=generator, dtype=torch.float64) + 0.5
        self.equation, self.omega = Equation(scale, weights, self.b, 0.7), 1.1
        self.matrix = matrix
        self.rectangular = matrix.rows.stop > n  # such a matrix has no rows of x of its own, and no residual

    def exact(self) -> list[np.ndarray]:
        from scipy.sparse import csr_array

        m, e = self.matrix, self.equation
        parts = (m.weight.double().numpy(), m.col.numpy(), m.crow.numpy())
        product = csr_array(parts, shape=(len(m.crow) - 1, m.num_nodes)) @ self.x.double().numpy()
        moved = self.b.double().numpy() + e.c * e.scale.double().numpy()[:, None] * product
        before = self.before.double().numpy()
        stepped = self.omega * (moved - before) + before
        if self.rectangular:
            return [product, moved, stepped]
        residual = moved - self.x[m.rows].double().numpy()
        return [product, moved, stepped, e.weights.numpy() @ np.abs(residual)]

    def by(self, kernel: Kernel) -> list[torch.Tensor]:
        stepped, checked = self.before.clone(), self.before.clone()
        plain, moved = torch.full_like(self.b, torch.nan), torch.full_like(self.b, torch.nan)
        kernel.affine(self.equation, self.x, plain)
        kernel.step(self.equation, self.x, stepped, self.omega)
        if self.rectangular:
            return [kernel.product(self.x), plain, stepped]
        residual = kernel.check(self.equation, self.x, checked, self.omega, moved)
        assert torch.equal(stepped, checked)
        assert torch.equal(plain, moved)
        return [kernel.product(self.x), plain, stepped, residual]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("kernel", ["torch", "numba"])
def test_kernels_agree_with_scipy(kernel, name, width, dtype):
    problem = Problem(MATRICES[name], width, dtype)
    for at, (found, exact) in enumerate(zip(problem.by(choose(problem.matrix, kernel)), problem.exact(), strict=True)):
        assert found.dtype == (dtype if at < 3 else torch.float64)
        assert found.shape == exact.shape
        scale = max(1.0, float(np.abs(exact).max(initial=0)))
        assert float(np.abs(found.double().numpy() - exact).max(initial=0)) <= CLOSE[dtype] * scale


@pytest.mark.parametrize("width", [1, 3, 16])
@pytest.mark.parametrize("kernel", ["torch", "numba"])
def test_a_step_over_its_own_right_hand_side(kernel, width):
    """What is written may be b itself."""
    problem = Problem(MATRICES["tall"], width, torch.float64)
    expected = problem.b + 0.7 * problem.equation.scale.unsqueeze(1) * TorchKernel(problem.matrix).product(problem.x)
    choose(problem.matrix, kernel).affine(problem.equation, problem.x, problem.b)
    assert torch.allclose(problem.b, expected, rtol=1e-14)


@settings(max_examples=25)
@given(
    nodes=st.integers(1, 40),
    edges=st.integers(0, 120),
    width=st.sampled_from([1, 8, 16]),
    cut=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    seed=st.integers(0, 99),
)
def test_numba_equals_torch_on_any_block_of_rows(nodes, edges, width, cut, seed):
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, nodes, (2, edges), generator=generator)
    op = Operator.from_edges(nodes, index, torch.rand(edges, generator=generator) + 0.01)
    first, stop = sorted(round(share * nodes) for share in cut)
    problem = Problem(matrix_of(op, first, stop), width, torch.float64, seed)
    for ours, theirs in zip(*(problem.by(choose(problem.matrix, k)) for k in ("numba", "torch")), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_number_of_threads_changes_no_byte(monkeypatch, dtype):
    monkeypatch.setattr(threads, "ALONE", 0)
    problem = Problem(matrix_of(sample_graph(nodes=700, edges=3000)), 16, dtype)
    kernel, found = choose(problem.matrix, "numba"), []
    before = torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            found.append(problem.by(kernel))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_column_has_its_bytes_at_every_width_of_several_columns(dtype):
    matrix = matrix_of(sample_graph(nodes=150, edges=500))
    whole = Problem(matrix, 32, dtype)
    kernel = choose(matrix, "numba")
    expected = whole.by(kernel)
    for width in (8, 16):
        part = Problem(matrix, 32, dtype)
        part.x, part.before = part.x[:, :width].contiguous(), part.before[:, :width].contiguous()
        part.b = part.b[:, :width].contiguous()
        part.equation = Equation(part.equation.scale, part.equation.weights, part.b, part.equation.c)
        for narrow, wide in zip(part.by(kernel), expected, strict=True):
            assert torch.equal(narrow, wide[..., :width])


def test_a_strided_tile_goes_through_torch():
    matrix = matrix_of(sample_graph())
    x = torch.rand(60, 32)[:, ::2]
    assert torch.equal(choose(matrix, "numba").product(x), TorchKernel(matrix).product(x))


def test_choose():
    matrix = matrix_of(sample_graph())
    assert choose(matrix).name == "numba"
    assert compiled(choose(matrix))
    assert choose(matrix, "torch").name == "torch"
    assert not compiled(choose(matrix, "torch"))
    with pytest.raises(ConfigError, match=r"kernel: got 'nmba'.*numba"):
        choose(matrix, "nmba")
    with pytest.raises(ConfigError, match="numba"):
        sample_graph().using("fast")


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("parts", [0, 1, 16])
@pytest.mark.parametrize("size", [10, 10**9])
def test_share_does_each_part_once(number, parts, size):
    before, done = torch.get_num_threads(), []
    try:
        torch.set_num_threads(number)
        share(done.append, parts, size)
    finally:
        torch.set_num_threads(before)
    assert sorted(done) == list(range(parts))


def test_share_passes_an_error_of_a_thread_on():
    def work(part: int) -> None:
        if part == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        share(work, 5, 10**9)


@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=60), parts=st.integers(1, 20))
def test_bounds_cut_the_work_into_even_shares(sizes, parts):
    work = torch.tensor([0, *np.cumsum(sizes).tolist()])
    at = bounds(work, parts)
    assert (at[0], at[-1], len(at)) == (0, len(sizes), parts + 1)
    assert at == sorted(at)
    shares = [int(work[high] - work[low]) for low, high in pairwise(at)]
    assert max(shares) <= int(work[-1]) / parts + max(sizes) + 1


@pytest.mark.parametrize("weights", [None, torch.rand(40, generator=torch.Generator().manual_seed(2)) + 0.5])
@pytest.mark.parametrize("position", [None, torch.randperm(40, generator=torch.Generator().manual_seed(1))])
@pytest.mark.parametrize("columns", [1, 7, 8, 21])
def test_load_compiled_equals_torch(columns, position, weights):
    part = torch.rand(40, columns, generator=torch.Generator().manual_seed(0)).sub(0.1).clamp(min=0)
    part[:, 0] = 0
    if columns > 5:
        part[4, 2], part[5, 3], part[6, 4], part[7, 5] = torch.nan, torch.inf, -torch.inf, -0.5
    wide = torch.zeros(40, columns + 3)
    wide[:, :columns] = part
    found = []
    for source in (part, wide[:, :columns], part.T.contiguous().T):
        for fast in (False, True):
            into = tiles.room(part, 40, 8, -(-columns // 8)).fill_(torch.nan)
            loaded = [
                (tile.seeds.clone(), tile.zero.clone(), tile.bad.clone())
                for tile in tiles.load(source, position, weights, fast, into)
            ]
            found.append([torch.cat(column, -1) for column in zip(*loaded, strict=True)])
    for seeds, zero, bad in found:
        assert torch.allclose(seeds, found[0][0], rtol=1e-6, atol=0)
        assert torch.equal(zero, found[0][1])
        assert torch.equal(bad, found[0][2])
    seeds, zero, bad = found[0]
    odd = [2, 3, 4, 5] if columns > 5 else []
    assert bad.nonzero().squeeze(1).tolist() == odd
    assert zero.nonzero().squeeze(1).tolist() == [0, *odd, *range(columns, seeds.shape[1])]
    assert torch.equal(seeds[:, zero], torch.zeros(40, int(zero.sum())))
    good = [at for at in range(columns) if not zero[at]]
    place = torch.arange(40) if position is None else position
    weights = torch.ones(40) if weights is None else weights[place]
    expected = part[:, good] / part[:, good].sum(0) * weights.unsqueeze(1)
    assert torch.allclose(seeds[place][:, good], expected, atol=1e-7)


def test_column_mass_compiled_equals_torch():
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(70, generator=generator, dtype=torch.float64)
    for columns in (1, 3, 8, 16):
        x = torch.rand(70, columns, generator=generator) - 0.5
        fast, plain = (tiles.column_mass(x, weights, fast) for fast in (True, False))
        assert fast.dtype == torch.float64
        assert torch.allclose(fast, plain, rtol=1e-14)
        assert torch.allclose(fast, weights @ x.double().clamp(min=0), rtol=1e-14)


def test_take_and_scale_rows_compiled_equal_torch():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(50, 8, generator=generator).sub(0.5)
    position = torch.randperm(50, generator=generator)[:33]
    for columns in (1, 5, 8):
        fast = tiles.take(x, position, columns, compiled=True)
        assert torch.equal(fast, x[position, :columns])
        assert torch.equal(fast, tiles.take(x, position, columns, compiled=False))
    weights, factor = torch.rand(50, generator=generator, dtype=torch.float64), torch.rand(8, dtype=torch.float64)
    for dtype in DTYPES:
        apart = [tiles.scale_rows(x.to(dtype), weights, factor, fast) for fast in (True, False)]
        assert torch.allclose(*apart, rtol=1e-6, atol=0)
        assert float(apart[0].min()) == 0
        x = torch.rand(50, 8, generator=generator).sub(0.5)


def test_an_operator_survives_its_file(tmp_path):
    op = sample_graph()
    op.save(tmp_path / "operator.safetensors")
    again = Operator.load(tmp_path / "operator.safetensors")
    for name in ("crow", "col", "weight", "degree", "isolated"):
        assert torch.equal(getattr(again, name), getattr(op, name))
        assert getattr(again, name).dtype == getattr(op, name).dtype
    seeds = sample_seeds(op)
    assert torch.equal(make("ppr")(again, seeds)[0], make("ppr")(op, seeds)[0])
    digest = hashlib.sha256((tmp_path / "operator.safetensors").read_bytes()).digest()
    again.save(tmp_path / "again.safetensors")
    assert hashlib.sha256((tmp_path / "again.safetensors").read_bytes()).digest() == digest
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "operator.safetensors").read_bytes()[:99])
    for name in ("cut", "missing"):
        with pytest.raises(DataError, match=rf"{name}.safetensors: not a readable operator .*save it again"):
            Operator.load(tmp_path / f"{name}.safetensors")


def test_reordered_is_the_same_matrix():
    op = sample_graph()
    chosen = torch.randperm(op.num_nodes, generator=torch.Generator().manual_seed(0))
    *csr, position = reordered(op.crow, op.col, op.weight, chosen)
    moved = Operator.from_csr(*csr)
    assert np.array_equal(moved.scipy().toarray(), op.scipy().toarray()[np.ix_(chosen, chosen)])
    assert torch.equal(position[chosen], torch.arange(op.num_nodes))
    x = torch.rand(op.num_nodes, 8)
    assert torch.equal(moved.w(x[chosen])[position], op.w(x))


def test_no_order_where_none_helps(monkeypatch):
    op = sample_graph()
    assert locality_order(op.crow, op.col) is None
    assert op.arranged.position is None
    assert op.arranged.op is op
    monkeypatch.setattr(order, "SMALL", 4)
    assert sorted(locality_order(op.crow, op.col).tolist()) == list(range(op.num_nodes))
    empty = bare(9)
    assert locality_order(empty.crow, empty.col) is None


@pytest.mark.parametrize("kernel", ["torch", "numba"])
@pytest.mark.parametrize("name", sorted(name for name in METHODS if not METHODS.get(name).stochastic))
def test_an_arranged_operator_gives_the_same_scores(monkeypatch, name, kernel):
    seeds = sample_seeds(sample_graph(), 20)
    plain = sample_graph().using(kernel)
    expected, _ = make(name)(plain, seeds)
    best, _, _ = search(make(name), plain, seeds, 5, 30)
    monkeypatch.setattr(order, "SMALL", 4)
    arranged = sample_graph().using(kernel)
    assert arranged.arranged.position is not None
    scores, info = make(name)(arranged, seeds)
    assert bool(info.converged.all())
    rows, _, _ = search(make(name), arranged, seeds, 5, 30)
    assert float((scores - expected).abs().sum(0).max()) <= 1e-6
    assert torch.equal(rows, best)

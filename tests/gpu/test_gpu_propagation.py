"""Propagation on a CUDA device: kernels, engines, agreement with the CPU, memory that runs out, no hidden waits."""

from __future__ import annotations

import importlib.util
import json
import logging
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from aeg.core.kernels import Equation, Kernel, Matrix, choose, triton_kernel
from aeg.core.operator import Operator
from aeg.core.ranking import top_k
from aeg.core.seeds import DenseSeeds, Seeds
from aeg.errors import ConfigError
from aeg.propagation import METHODS, Context, make
from aeg.propagation.contract import CHECKS, sample_graph, sample_seeds
from aeg.propagation.fitting import CUDA_TILE, tile_width

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

TRITON = importlib.util.find_spec("triton") is not None
KERNELS = ("torch", pytest.param("triton", marks=pytest.mark.skipif(not TRITON, reason="triton is not installed")))
DETERMINISTIC = sorted(name for name in METHODS if not METHODS.get(name).stochastic)


@pytest.fixture(scope="module")
def graph() -> Operator:
    return sample_graph(nodes=3000, edges=12_000)


def star(spokes: int = 3000) -> Operator:
    """A hub whose row is cut into pieces, a small one, isolated nodes."""
    ends = torch.arange(1, spokes + 1)
    index = torch.cat([torch.stack([torch.zeros_like(ends), ends]), torch.tensor([[1, 1], [2, 3]])], 1)
    return Operator.from_edges(spokes + 7, index, torch.linspace(0.1, 3.0, spokes + 2))


def as_seeds(columns: Tensor) -> Seeds:
    lists = [[(row, weight) for row, weight in enumerate(c) if weight != 0] for c in columns.T.tolist()]
    return Seeds.from_lists(len(columns), lists)


def dense_seeds(op: Operator, queries: int, atoms: int = 1000) -> Seeds:
    generator = torch.Generator().manual_seed(0)
    unit = torch.nn.functional.normalize
    rows = unit(torch.randn(atoms, 16, generator=generator), dim=1)
    vectors = unit(torch.randn(queries, 16, generator=generator), dim=1)
    similarity = rows @ vectors.T
    low, high = similarity.amin(0), similarity.amax(0)
    entities = torch.randint(atoms, op.num_nodes, (queries,), generator=generator).tolist()
    sparse = Seeds.from_lists(op.num_nodes, [[(node, 1.0)] for node in entities])
    dense = DenseSeeds(rows, vectors, 0.1 / (high - low), -low * 0.1 / (high - low), clipped=False)
    return Seeds(op.num_nodes, sparse.ptr, sparse.nodes, sparse.weights, dense)


def exact(restart: float, op: Operator, columns: Tensor) -> Tensor:
    """The scores of PPR by a sparse float64 solve on the CPU."""
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    weights = op.scipy()
    degree = np.where(op.degree.cpu().numpy() > 0, op.degree.cpu().numpy(), 1)
    system = eye_array(op.num_nodes) - (1 - restart) * weights.multiply(1 / degree)
    columns = columns.cpu().double().numpy()
    core = splu(system.tocsc()).solve(restart * columns / columns.sum(0))
    return torch.from_numpy(core / core.sum(0))


def l1(scores: Tensor, expected: Tensor) -> float:
    return float((scores.cpu().double() - expected.cpu().double()).abs().sum(0).max())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", sorted(METHODS))
def test_contract(name, check):
    check(METHODS.make(name), sample_graph().to("cuda"))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_the_gpu_agrees_with_the_cpu(graph, name, kernel):
    seeds = sample_seeds(graph, 300)
    here, _ = make(name)(graph, seeds)
    there, info = make(name)(graph.to("cuda").using(kernel), seeds)
    assert there.device.type == "cuda"
    assert info.converged.device.type == "cpu"
    assert bool(info.converged.all())
    assert l1(there, here) <= 1e-6 * max(1.0, float(here.sum(0).max()))


def test_auto_takes_triton(graph):
    if not TRITON:
        pytest.skip("triton is not installed")
    assert triton_kernel.fault(torch.device("cuda:0")) == ""
    assert graph.to("cuda").kernel.name == "triton"
    with pytest.raises(ConfigError, match="'numba' runs on the CPU only"):
        graph.to("cuda").using("numba")


def step(kernel: Kernel, width: int, dtype: torch.dtype, m: Matrix) -> list[Tensor]:
    """Product, new iterate, plain step and residual, for random numbers that depend on the width alone."""
    generator = torch.Generator().manual_seed(width)
    rows, device = len(m.crow) - 1, m.weight.device
    x, b, before = (
        torch.rand(count, width, generator=generator, dtype=torch.float64).to(device, dtype)
        for count in (m.num_nodes, rows, rows)
    )
    scale = torch.rand(rows, generator=generator, dtype=torch.float64).div(1000).to(device, dtype)
    weights = torch.rand(rows, generator=generator, dtype=torch.float64).to(device)
    equation, moved = Equation(scale, weights, b, 0.7), torch.full_like(b, torch.nan)
    stepped, checked = before.clone(), before.clone()
    kernel.step(equation, x, stepped, 1.1)
    sums = kernel.check(equation, x, checked, 1.1, moved)
    assert torch.equal(stepped, checked)
    return [kernel.product(x), checked, moved, sums]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("width", [1, 3, 8, 16, 17, 32, 100, 128, 300])
@pytest.mark.parametrize("shape", ["random", "hub", "block", "no edges"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_agree_with_the_cpu(graph, kernel, shape, width, dtype):
    nothing = torch.zeros(2, 0, dtype=torch.int64)
    op = {"hub": star(), "no edges": Operator.from_edges(9, nothing)}.get(shape, graph)
    rows = slice(100, 2000) if shape == "block" else slice(0, op.num_nodes)
    low, high = int(op.crow[rows.start]), int(op.crow[rows.stop])
    csr = (op.crow[rows.start : rows.stop + 1] - low, op.col[low:high], op.weight[low:high])
    here = Matrix(*csr, op.num_nodes, rows.start)
    there = Matrix(*(part.cuda() for part in csr), op.num_nodes, rows.start)
    expected = step(choose(here, "torch"), width, dtype, here)
    close = 1e-5 if dtype == torch.float32 else 1e-12
    for found, right in zip(step(choose(there, kernel), width, dtype, there), expected, strict=True):
        assert found.dtype == right.dtype
        assert torch.allclose(found.cpu(), right, rtol=close, atol=close * max(1.0, float(right.abs().max())))


@pytest.mark.skipif(not TRITON, reason="triton is not installed")
def test_a_column_has_its_bits_at_every_width():
    op = star().to("cuda").using("triton")
    x = torch.rand(op.num_nodes, 128, generator=torch.Generator().manual_seed(0)).cuda()
    whole = op.w(x)
    for width in (1, 8, 32, 100):
        assert torch.equal(op.w(x[:, :width]), whole[:, :width])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize("engine", ["iterate", "folded", "push"])
def test_engines_against_float64(graph, engine, tol, kernel):
    op, columns = graph.to("cuda").using(kernel), sample_seeds(graph, 40)
    method = make("ppr", restart=0.2, engine=engine, tol=tol)
    scores, info = method(op, as_seeds(columns))
    assert info.engine == engine
    assert bool(info.converged.all())
    assert l1(scores[:, 1:], exact(0.2, graph, columns)[:, 1:]) <= 2 * tol + 5e-7
    again, _ = method(graph.to("cuda").using(kernel), as_seeds(columns))
    assert torch.equal(scores, again)


@pytest.mark.parametrize("engine", ["iterate", "folded"])
def test_seeds_on_all_atoms_against_float64(graph, engine):
    seeds = dense_seeds(graph, 150)
    scores, info = make("ppr", engine=engine, tol=1e-6)(graph.to("cuda"), seeds)
    assert info.engine == engine
    assert l1(scores, exact(0.3, graph, seeds.tile(0, 150))) <= 2e-6
    again, _ = make("ppr", engine=engine, tol=1e-6)(graph.to("cuda"), seeds)
    assert torch.equal(scores, again)


@pytest.mark.parametrize("kernel", KERNELS)
def test_steps_do_not_wait_for_the_device(graph, kernel):
    op = graph.to("cuda").using(kernel)
    x = torch.rand(op.num_nodes, 16, device="cuda")
    equation = Equation((1 / op.walk_degree).float(), op.walk_degree, x.clone(), 0.7)
    previous, moved = x.clone(), torch.empty_like(x)

    def steps() -> None:
        op.kernel.affine(equation, x, moved)
        op.kernel.step(equation, x, previous, 1.1)
        op.kernel.check(equation, x, previous, 1.1, moved)
        op.kernel.product(x)

    steps()  # compiles, and prepares what is prepared once
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype")
        torch.cuda.set_sync_debug_mode("error")
        try:
            steps()
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_tiles_are_as_wide_as_the_queries_and_the_memory_allow(graph):
    op = graph.to("cuda")
    narrow = op.kernel.name == "triton"
    assert tile_width(op, 1000) == CUDA_TILE
    assert tile_width(op, 3) == (8 if narrow else CUDA_TILE)
    assert tile_width(op, 20) == (32 if narrow else CUDA_TILE)
    free, _ = torch.cuda.mem_get_info()
    assert tile_width(replace(op, num_nodes=free // 64, memo={}, _inverse_degrees={}), 1000) < CUDA_TILE


def test_a_tile_is_halved_where_the_memory_runs_out(caplog):
    nodes = 100_000
    generator = torch.Generator().manual_seed(0)
    op = Operator.from_edges(nodes, torch.randint(0, nodes, (2, 300_000), generator=generator))
    lists = [[(int(node), 1.0)] for node in torch.randint(0, nodes, (64,), generator=generator)]
    seeds, method = Seeds.from_lists(nodes, lists), make("ppr", engine="iterate", tol=1e-4)
    there = op.to("cuda")
    expected, plain = method(there, seeds)
    expected = expected.cpu()
    assert not bool(plain.flags["tile_halved"].any())
    torch.cuda.empty_cache()
    room = torch.cuda.memory_allocated() + 64 * nodes * 4 + 200 * 2**20  # all scores, and a tile of far fewer columns
    torch.cuda.set_per_process_memory_fraction(room / torch.cuda.get_device_properties(0).total_memory)
    try:
        with caplog.at_level(logging.WARNING):
            scores, info = method(there, seeds, Context(tile=256))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert bool(info.flags["tile_halved"].all())
    assert "out of memory with 256 queries at once" in caplog.text
    assert l1(scores, expected) <= 1e-6


def test_ties_are_broken_alike():
    scores = torch.rand(5000, 40, generator=torch.Generator().manual_seed(0)).round(decimals=3)
    assert torch.equal(top_k(scores, 25)[0].cpu(), top_k(scores.cuda(), 25)[0].cpu())


def test_the_bench_runs_on_the_gpu(repo_root, tmp_path):
    command = [sys.executable, "-m", "experiments.bench", "propagation", "--quick", "--device", "cuda"]
    done = subprocess.run(
        [*command, "--json", str(tmp_path / "tables.json")], capture_output=True, text=True, cwd=repo_root, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "tables.json").read_text(encoding="utf-8"))["machine"]["device"] == "cuda"

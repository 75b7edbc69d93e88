"""Run by test_kernels_triton in a process of its own: the Triton kernel in Triton's interpreter, case by case.

The interpreter must be chosen (TRITON_INTERPRET=1) before triton is imported, which other tests may have done.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from aeg.core.kernels import Equation, Matrix, TorchKernel, choose, triton_kernel
from aeg.core.operator import Operator
from aeg.propagation import make
from aeg.propagation.contract import sample_graph, sample_seeds

CLOSE = {torch.float32: 2e-6, torch.float64: 1e-14}


def matrix_of(op: Operator, first: int = 0, stop: int | None = None) -> Matrix:
    rows = slice(first, op.num_nodes if stop is None else stop)
    low, high = int(op.crow[rows.start]), int(op.crow[rows.stop])
    return Matrix(op.crow[rows.start : rows.stop + 1] - low, op.col[low:high], op.weight[low:high], op.num_nodes, first)


def hub(spokes: int = 30) -> Operator:
    """A star with a second, smaller one beside it, and an isolated node in between."""
    ends = torch.arange(1, spokes + 1)
    index = torch.cat([torch.stack([torch.zeros_like(ends), ends]), torch.tensor([[40, 40, 40], [41, 42, 5]])], 1)
    return Operator.from_edges(44, index, torch.linspace(0.1, 3.0, index.shape[1]))


def compare(matrix: Matrix, width: int, dtype: torch.dtype = torch.float32) -> None:
    """Product, step and check against torch's kernel."""
    generator = torch.Generator().manual_seed(width)
    rows, n = len(matrix.crow) - 1, matrix.num_nodes
    x = torch.rand(n, width, generator=generator, dtype=dtype)
    b, before = (torch.rand(rows, width, generator=generator, dtype=dtype) for _ in range(2))
    scale = torch.rand(rows, generator=generator, dtype=dtype) / 50
    equation = Equation(scale, torch.rand(rows, generator=generator, dtype=torch.float64) + 0.5, b, 0.7)
    ours, theirs = choose(matrix, "triton"), TorchKernel(matrix)
    found = []
    for kernel in (ours, theirs):
        stepped, checked = before.clone(), before.clone()
        moved, plain = torch.full_like(b, torch.nan), torch.full_like(b, torch.nan)
        kernel.step(equation, x, stepped, 1.1)
        residual = kernel.check(equation, x, checked, 1.1, moved)
        kernel.affine(equation, x, plain)
        assert torch.equal(stepped, checked)
        assert torch.equal(plain, moved)
        found.append([kernel.product(x), stepped, moved, residual])
    for mine, other in zip(*found, strict=True):
        assert mine.dtype == other.dtype
        assert mine.shape == other.shape
        assert torch.allclose(mine, other, rtol=CLOSE[dtype], atol=CLOSE[dtype] * 10), (mine - other).abs().max()


def halves(matrix: Matrix, width: int) -> None:
    """Iterates in float16: the step of float32 from the same numbers, rounded where it is written."""
    generator = torch.Generator().manual_seed(width)
    rows, n = len(matrix.crow) - 1, matrix.num_nodes
    x, before = torch.rand(n, width, generator=generator).half(), torch.rand(rows, width, generator=generator).half()
    b = torch.rand(rows, width, generator=generator)
    equation = Equation(torch.rand(rows, generator=generator) / 50, torch.rand(rows).double() + 0.5, b, 0.7, True)
    kernel = choose(matrix, "triton")
    assert kernel.halves(b) == (width > 1)
    stepped, checked, moved = before.clone(), before.clone(), torch.full_like(b, torch.nan)
    kernel.step(equation, x, stepped, 1.1)
    residual = kernel.check(equation, x, checked, 1.1, moved)
    expected, plain = before.float(), torch.empty_like(b)
    sums = TorchKernel(matrix).check(equation, x.float(), expected, 1.1, plain)
    assert torch.equal(stepped, checked)
    assert torch.allclose(moved, plain, rtol=2e-6, atol=2e-5)
    assert torch.allclose(stepped.float(), expected, rtol=2.0**-11, atol=2e-5)
    assert torch.allclose(residual, sums, rtol=1e-5, atol=1e-5)


def cases() -> dict[str, Callable[[], None]]:
    """Return what is asserted, by name."""
    op = sample_graph(nodes=24, edges=40)
    made: dict[str, Callable[[], None]] = {
        f"width {width}": lambda width=width: compare(matrix_of(op), width) for width in (1, 2, 3, 8, 17, 40)
    }
    made["more columns than a program takes"] = lambda: compare(matrix_of(sample_graph(nodes=9, edges=9)), 131)
    made |= {
        f"float64, width {width}": lambda width=width: compare(matrix_of(op), width, torch.float64) for width in (1, 5)
    }
    made["a block of rows"] = lambda: compare(matrix_of(op, 7, 19), 5)
    made["a block without rows"] = lambda: compare(matrix_of(op, 7, 7), 5)
    bare = Operator.from_edges(5, torch.zeros(2, 0, dtype=torch.int64))
    tall = Matrix(op.crow[:13], op.col[: int(op.crow[12])] % 9, op.weight[: int(op.crow[12])], 9)
    made["a rectangle, over its own right-hand side"] = lambda: over_itself(tall)
    made["no edges"] = lambda: compare(matrix_of(bare), 3)
    made["no nodes"] = lambda: compare(matrix_of(Operator.from_edges(0, torch.zeros(2, 0, dtype=torch.int64))), 3)
    made["a hub"] = lambda: compare(matrix_of(hub()), 6)
    made["a hub in pieces"] = lambda: in_pieces(lambda: compare(matrix_of(hub()), 6))
    made["a hub in pieces, float64"] = lambda: in_pieces(lambda: compare(matrix_of(hub()), 6, torch.float64))
    made["a hub in pieces, a block of rows"] = lambda: in_pieces(lambda: compare(matrix_of(hub(), 0, 3), 2))
    made |= {f"halves, width {width}": lambda width=width: halves(matrix_of(op), width) for width in (1, 2, 17)}
    made["halves, a block of rows"] = lambda: halves(matrix_of(op, 7, 19), 5)
    made["halves, a hub in pieces"] = lambda: in_pieces(lambda: halves(matrix_of(hub()), 6))
    made["a column has its bits at every width"] = lambda: in_pieces(same_bits)
    made["what needs another precision goes through torch"] = other_precision
    made["the probe is content"] = probe
    made["ppr"] = ppr
    return made


def over_itself(matrix: Matrix) -> None:
    """What is written may be b itself."""
    generator = torch.Generator().manual_seed(0)
    x, b = (torch.rand(count, 5, generator=generator) for count in (matrix.num_nodes, len(matrix.crow) - 1))
    scale = torch.rand(len(b), generator=generator)
    expected = b + 0.7 * scale.unsqueeze(1) * TorchKernel(matrix).product(x)
    equation, stepped = Equation(scale, scale.double(), b, 0.7), b.clone()
    choose(matrix, "triton").step(Equation(scale, scale.double(), stepped, 0.7), x, stepped, 1.0)
    assert torch.allclose(stepped, expected, rtol=1e-6)
    choose(matrix, "triton").affine(equation, x, b)
    assert torch.allclose(b, expected, rtol=1e-6)


def in_pieces(case: Callable[[], None]) -> None:
    """Run a case with rows of more than four entries cut, and residuals summed in eight parts."""
    before = triton_kernel.LONG, triton_kernel._PARTS
    triton_kernel.LONG, triton_kernel._PARTS = 4, 8
    try:
        case()
    finally:
        triton_kernel.LONG, triton_kernel._PARTS = before


def same_bits() -> None:
    matrix = matrix_of(hub())
    x = torch.rand(matrix.num_nodes, 9, generator=torch.Generator().manual_seed(0))
    kernel, wide = choose(matrix, "triton"), {}
    for width in (1, 3, 9):
        part = x[:, :width].contiguous()
        equation = Equation(torch.full((len(x),), 0.02), torch.ones(len(x), dtype=torch.float64), part, 0.7)
        previous, moved = part / 2, torch.empty_like(part)
        residual = kernel.check(equation, part, previous, 1.2, moved)
        wide[width] = [kernel.product(part), previous, moved, residual]
    for width in (1, 3):
        for narrow, whole in zip(wide[width], wide[9], strict=True):
            assert torch.equal(narrow, whole[..., :width])


def other_precision() -> None:
    matrix = matrix_of(hub())
    x = torch.rand(matrix.num_nodes, 4, generator=torch.Generator().manual_seed(0))
    strided = torch.cat([x, x], 1)[:, ::2]
    found = choose(matrix, "triton").product(strided)
    assert torch.equal(found, TorchKernel(matrix).product(strided))


def probe() -> None:
    assert triton_kernel.fault(torch.device("cpu")) == ""
    assert triton_kernel.usable(torch.device("cpu"))


def ppr() -> None:
    op = sample_graph(nodes=20, edges=30).using("triton")
    seeds = sample_seeds(op, 3)
    method = make("ppr", restart=0.4, tol=1e-6)
    scores, info = method(op, seeds)
    exact = torch.from_numpy(method.reference(op.scipy().toarray(), seeds.double().numpy()))
    assert float((scores - exact).abs().sum(0).max()) <= 1.1e-6
    assert bool(info.converged.all())
    coarse, info = make("ppr", restart=0.4, tol=1e-2)(op, seeds)
    assert float((coarse - exact).abs().sum(0).max()) <= 2e-2
    assert bool(info.converged.all())


def main(target: Path) -> None:
    torch.set_num_threads(1)
    failures = {}
    for name, case in cases().items():
        failures[name] = ""
        try:
            case()
        except Exception:  # noqa: BLE001 - reported by the test of that name
            failures[name] = traceback.format_exc()
    target.write_text(json.dumps(failures), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

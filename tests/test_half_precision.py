"""Iterates in half precision: the loops against NumPy's halves, and what the iteration guarantees with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from aeg import Operator
from aeg.core.kernels import Equation, choose, numba_kernel, threads, tiles
from aeg.propagation import make, walk_system
from aeg.propagation.base import Context
from aeg.propagation.chebyshev import chebyshev
from aeg.propagation.contract import sample_graph, sample_seeds
from tests.test_kernels import MATRICES, Problem, matrix_of

pytest.importorskip("numba")

WIDTHS = (8, 16, 32)
C = 0.7


@pytest.fixture
def op() -> Operator:
    return sample_graph(nodes=600, edges=2500)


def walk(op: Operator, columns: int = 16, unit: float = 2.0**10) -> Equation:
    """(D − c W) z = unit · seeds, weights those of an L1 error of the core."""
    seeds = sample_seeds(op, columns)
    degree = op.walk_degree
    b = (unit * seeds / degree.unsqueeze(1)).float()
    return Equation((1 / degree).float(), degree / unit, b, C, narrow=True)


def solution(op: Operator, equation: Equation) -> torch.Tensor:
    system = np.diag(op.walk_degree.numpy()) - C * op.scipy().toarray()
    right = equation.b.double().numpy() * op.walk_degree.numpy()[:, None]
    return torch.from_numpy(np.linalg.solve(system, right))


def errors(op: Operator, equation: Equation, z: torch.Tensor) -> torch.Tensor:
    return equation.weights @ (z.double() - solution(op, equation)).abs()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [name for name in MATRICES if name not in ("wide", "tall")])
def test_loops_agree_with_halves_of_numpy(name, width):
    """x and previous are rounded to halves, the step is float32, what is written is its nearest half."""
    problem = Problem(MATRICES[name], width, torch.float32)
    x, before = problem.x.half(), problem.before.half()
    problem.x, problem.before = x.float(), before.float()
    _, moved, stepped, residual = problem.exact()
    kernel = choose(problem.matrix, "numba")
    assert kernel.halves(problem.b)
    after, checked, found = before.clone(), before.clone(), torch.full_like(problem.b, torch.nan)
    kernel.step(problem.equation, x, after, problem.omega)
    sums = kernel.check(problem.equation, x, checked, problem.omega, found)
    assert torch.equal(after, checked)
    assert found.dtype == torch.float32
    assert np.allclose(found.numpy(), moved, rtol=1e-5, atol=1e-5)
    assert np.allclose(sums.numpy(), residual, rtol=1e-5, atol=1e-4)
    rounded = np.abs(after.double().numpy() - stepped)
    assert (rounded <= np.abs(stepped) * 2.0**-11 + 1e-5).all()


def test_rounding_is_that_of_numpy():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 32, generator=generator) * 10.0 ** torch.randint(-9, 6, (300, 32), generator=generator)
    out = torch.empty(300, 32, dtype=torch.float16)
    tiles.rounded(x, out)
    with np.errstate(over="ignore"):
        assert np.array_equal(out.numpy(), x.numpy().astype(np.float16))
    assert bool(torch.isinf(out).any())
    assert bool(((out != 0) & (out.abs() < 2.0**-14)).any())


def test_the_number_of_threads_changes_no_byte(monkeypatch, op):
    monkeypatch.setattr(threads, "ALONE", 0)
    equation, found = walk(op), []
    before = torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            found.append(chebyshev(op.kernel, equation, 5e-3, 100, 1.0)[0].clone())
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("tol", [3e-2, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5])
def test_the_error_is_at_most_what_is_reported(op, tol):
    equation = walk(op)
    z, info = chebyshev(op.kernel, equation, tol, 200, 1 / (1 - C))
    assert bool(info.converged.all())
    assert float(info.residual.max()) <= tol
    # float32 sums err by about 1e-7 of what they add up
    assert bool((errors(op, equation, z) <= info.residual + 2e-6).all())


def test_a_column_does_not_depend_on_its_neighbours(op):
    equation = walk(op, 32)
    equation.b[:, ::3] = 2.0**10 / op.degree.sum().float()  # seeds that a walk leaves as they are
    whole, info = chebyshev(op.kernel, equation, 5e-3, 200, 1.0)
    assert len(set(info.iterations.tolist())) > 1
    part = replace(equation, b=equation.b[:, 8:24].contiguous())
    some, its = chebyshev(op.kernel, part, 5e-3, 200, 1.0)
    assert torch.equal(some, whole[:, 8:24])
    assert torch.equal(its.iterations, info.iterations[8:24])


@pytest.mark.parametrize("unit", [2.0**40, 2.0**-40])
def test_what_halves_do_not_hold_is_solved_in_float32(op, unit):
    """A right side that overflows or vanishes in float16 costs steps, not accuracy; its neighbours keep theirs."""
    equation = walk(op)
    expected, _ = chebyshev(op.kernel, equation, 5e-3, 200, 1.0)
    odd = equation.b.clone()
    odd[:, 3] *= unit
    weights = equation.weights
    z, info = chebyshev(op.kernel, replace(equation, b=odd), 5e-3, 200, 1.0)
    others = [at for at in range(16) if at != 3]
    assert torch.equal(z[:, others], expected[:, others])
    if unit > 1:  # its tolerance is that of the others: nothing that float32 can meet
        assert not bool(info.converged[3])
    z, info = chebyshev(op.kernel, replace(equation, b=unit * equation.b, weights=weights / unit), 5e-3, 200, 1.0)
    assert bool(info.converged.all())
    assert bool(torch.isfinite(z).all())
    assert float((z / unit - solution(op, equation)).abs().mul(weights.unsqueeze(1)).sum(0).max()) <= 5e-3 / (1 - C)


def test_few_products_are_enough(op):
    """With max_iter products the iteration stops and says so, in halves as well."""
    z, info = chebyshev(op.kernel, walk(op), 3e-3, 4, 1.0)
    assert info.iterations.tolist() == [4] * 16
    assert not bool(info.converged.any())
    assert bool(torch.isfinite(z).all())


@pytest.mark.parametrize("restart", [0.1, 0.3, 0.7])
@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-5])
def test_ppr_with_halves_and_without(monkeypatch, op, restart, tol):
    """On a processor that does not convert halves the scores are the same within the tolerance."""
    seeds = sample_seeds(op, 20)
    method = make("ppr", restart=restart, tol=tol)
    scores, info = method(op, seeds)
    system = walk_system.walk_system(op, 1 - restart, tol)
    assert system.unit(1 / restart, 1.0) != 1.0
    monkeypatch.setattr(numba_kernel, "_converts", lambda: False)
    plain = Operator.from_csr(op.crow, op.col, op.weight)
    other, _ = method(plain, seeds)
    assert walk_system.walk_system(plain, 1 - restart, tol).unit(1 / restart, 1.0) == 1.0
    assert float((scores - other).abs().sum(0).max()) <= 4 * tol
    exact = torch.from_numpy(method.reference(op.scipy().toarray(), seeds.double().numpy()))
    assert float((scores.double() - exact).abs().sum(0).max()) <= 2 * tol
    assert bool(info.converged.all())


def test_solutions_lie_within_halves(op):
    """By the unit, the largest number of a solution is at most 2^14."""
    seeds = torch.zeros(op.num_nodes, 8)
    least = torch.where(op.isolated, torch.inf, op.degree).argsort()[:8]
    seeds[least, torch.arange(8)] = 1.0
    system = walk_system.walk_system(op, C, 1e-3)
    unit = system.unit(1 / (1 - C), 1.0)
    equation = walk(op)
    z = solution(op, replace(equation, b=(unit * seeds / op.walk_degree.unsqueeze(1)).float()))
    assert 2.0**9 < float(z.max()) <= 2.0**14


def test_matrices_without_edges_or_nodes():
    for name in ("no edges", "no nodes"):
        problem = Problem(MATRICES[name], 8, torch.float32)
        equation = replace(problem.equation, narrow=True)
        z, info = chebyshev(choose(problem.matrix, "numba"), equation, 1e-2, 100, 1.0)
        assert torch.allclose(z, problem.b, atol=1e-2)
        assert bool(info.converged.all())


def test_one_column_and_double_precision_are_not_narrowed():
    kernel = choose(matrix_of(sample_graph()), "numba")
    assert not kernel.halves(torch.zeros(60, 1))
    assert not kernel.halves(torch.zeros(60, 8, dtype=torch.float64))
    assert not kernel.halves(torch.zeros(60, 9))
    assert not choose(matrix_of(sample_graph()), "torch").halves(torch.zeros(60, 8))


def test_the_width_of_a_tile_changes_no_byte(op):
    seeds = sample_seeds(op, 40)
    wide, narrow = (make("ppr", tol=5e-3)(op, seeds, Context(tile=tile))[0] for tile in (32, 8))
    assert torch.equal(wide, narrow)

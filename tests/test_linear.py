"""Linear methods: their maps of signed columns, folded against iterated, and the walks that are followed over D."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from aeg import Operator, Seeds
from aeg.propagation import METHODS, Context, engines, make, search
from aeg.propagation.base import Info
from aeg.propagation.contract import outcomes, sample_graph, sample_seeds
from aeg.propagation.linear import Linear
from aeg.propagation.power_iteration import power_iterates
from tests.test_engines import ATOMS, as_seeds, dense_seeds, l1

LINEAR = sorted(
    name
    for name in METHODS
    if issubclass(METHODS.get(name), Linear) and METHODS.get(name).__module__.startswith("aeg.")
)  # other tests register variants of PPR
pytestmark = pytest.mark.usefixtures("graph_size")
KERNELS = ("torch", "numba")
ROUNDING = 1e-6


def graph(nodes: int = 200) -> Operator:
    return sample_graph(nodes=nodes, edges=500)


def exact(method: Linear, op: Operator, columns: Tensor) -> Tensor:
    columns = columns.double()
    total = columns.sum(0)
    return torch.from_numpy(
        method.reference(op.scipy().toarray(), (columns / torch.where(total > 0, total, 1)).numpy())
    )


def test_there_are_several():
    assert {"ppr", "katz", "label_propagation", "heat_kernel"} <= set(LINEAR)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("name", LINEAR)
def test_the_map_of_signed_columns(name, tol, kernel):
    """K (a − b / 2) = K a − K b / 2, and the scores are K π where these do not have to sum to 1."""
    op = graph().using(kernel)
    a, b = sample_seeds(op, 9), sample_seeds(op, 9, seed=1)
    method = make(name, tol=tol)
    mixed, info = method.core(op, a - 0.5 * b)
    assert mixed.dtype == torch.float32
    assert bool(info.converged.all())
    apart = [method.core(op, columns)[0] for columns in (a, b)]
    assert float(l1(mixed, apart[0].double() - 0.5 * apart[1].double()).max()) <= 4 * tol + ROUNDING
    if method.kept is None:
        assert float(l1(apart[0], exact(method, op, a)).max()) <= 2 * tol + ROUNDING
    assert float(mixed.min()) < 0


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("nodes", [200, 150])
@pytest.mark.parametrize("tol", [1e-2, 1e-4])
@pytest.mark.parametrize("name", LINEAR)
def test_folded_is_within_the_tolerance(name, tol, nodes, kernel):
    """Seeds on all atoms, and on three nodes; with 150 nodes some atoms are isolated."""
    op, seeds = graph(nodes).using(kernel), dense_seeds(nodes=nodes)
    method = make(name, engine="folded", tol=tol)
    for given in (seeds, as_seeds(sample_seeds(op, 30))):
        scores, info = method(op, given)
        assert info.engine == "folded"
        assert info.iterations.tolist() == [0] * 30
        assert bool((info.residual <= tol).all())
        error = l1(scores, exact(method, op, given.tile(0, 30)))
        assert float(error.max()) <= tol + ROUNDING
        if name in ("ppr", "heat_kernel"):  # what the others report is no bound in L1
            assert bool((error <= info.residual + ROUNDING).all())
        rows, values, _ = search(method, op, given, 5, num_candidates=ATOMS)
        part = scores[:ATOMS]
        assert torch.allclose(values, part.T.gather(1, rows.clamp(min=0)) * (rows >= 0), atol=tol)


@pytest.mark.parametrize("name", LINEAR)
def test_odd_queries(name):
    seeds = dense_seeds(6)
    dense = seeds.dense
    scale, offset, weights = dense.scale.clone(), dense.offset.clone(), seeds.weights.clone()
    scale[2], offset[2], weights[4:6] = 0, 0, 0  # no mass
    weights[6], weights[8], weights[10] = torch.nan, torch.inf, -0.1
    odd = replace(seeds, weights=weights, dense=replace(dense, scale=scale, offset=offset))
    for engine in ("iterate", "folded"):
        method = make(name, engine=engine, tol=1e-4)
        scores, info = method(graph(), odd)
        assert info.flags["zero_seeds"].tolist() == [False, False, True, True, True, True]
        assert info.flags["bad_seeds"].tolist() == [False, False, False, True, True, True]
        assert float(scores[:, 2:].abs().max()) == 0
        assert torch.equal(scores[:, :2], method(graph(), seeds)[0][:, :2])


@pytest.mark.parametrize("name", LINEAR)
def test_auto_folds_for_many_queries_on_all_atoms(monkeypatch, name):
    op, seeds = graph(), dense_seeds(60)
    method = make(name)
    assert method.settled(op, seeds).engine == "iterate"
    monkeypatch.setattr(engines, "_PRODUCT", 100.0)
    assert make(name).settled(op, dense_seeds(2000)).engine == "folded"
    assert method.settled(op, seeds.tile(0, 60)).engine == "iterate"
    assert method.settled(op, replace(seeds, dense=replace(seeds.dense, clipped=True))).engine == "iterate"


@pytest.mark.parametrize("name", LINEAR)
def test_folded_holds_the_contract(name):
    """Tensors become `Seeds`, as the engine wants them."""
    kind = METHODS.get(name)

    def call(self: Linear, op: Operator, seeds: Tensor | Seeds, context: Context | None = None) -> tuple[Tensor, Info]:
        return kind.__call__(self, op, seeds if isinstance(seeds, Seeds) else as_seeds(seeds), context)

    method = type(f"Folded{kind.__name__}", (kind,), {"__call__": call})(engine="folded")
    failed = [(found.check, found.failure) for found in outcomes(method) if found.failure]
    assert not failed


@pytest.mark.parametrize("kernel", KERNELS)
def test_mixing_is_the_same_compiled_and_not(kernel):
    op, seeds = graph(), dense_seeds(40)
    found = make("ppr", engine="folded", tol=1e-4)(op.using(kernel), seeds)[0]
    other = make("ppr", engine="folded", tol=1e-4)(op.using("torch"), seeds)[0]
    assert float(l1(found, other.double()).max()) <= 1e-4


@pytest.mark.parametrize("attenuation", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("tol", [1e-3, 1e-5, 1e-9])
def test_katz_gives_nothing_where_no_walk_leads(attenuation, tol):
    """A seed without neighbours scores 0, whatever is eliminated and in which precision; its score is not negative."""
    op = graph()
    seeds = torch.zeros(op.num_nodes, 8)
    lone = op.isolated.nonzero().squeeze(1)[:3]
    seeds[lone, 0] = torch.rand(3)
    seeds[int((~op.isolated).nonzero()[0]), 1:] = 1
    seeds[lone[0], 2] = 0.7
    scores, _ = make("katz", attenuation=attenuation, tol=tol)(op, seeds)
    assert float(scores[:, 0].abs().max()) == 0
    assert float(scores[lone].abs().max()) == 0
    assert float(scores.min()) == 0
    assert float(scores[:, 1].sum()) > 0


@pytest.mark.parametrize("t", [0.1, 3.0, 49.0, 51.0, 500.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_heat_kernel_for_short_and_long_times(t, kernel):
    op, seeds = graph(), sample_seeds(graph(), 8)
    method = make("heat_kernel", t=t)
    scores, info = method(op.using(kernel), seeds)
    assert float(l1(scores, exact(method, op, seeds)).max()) <= 2e-5
    assert info.iterations.tolist() == [len(method.poisson()) - 1] * 8


@pytest.mark.parametrize("tol", [0.5, 0.1, 1e-2, 1e-4])
@pytest.mark.parametrize("t", [0.1, 0.5, 3.0, 20.0])
def test_the_heat_kernel_errs_by_what_it_reports(t, tol):
    op, seeds = graph(), sample_seeds(graph(), 8)
    method = make("heat_kernel", t=t, tol=tol)
    scores, info = method(op, seeds)
    error = l1(scores, exact(method, op, seeds))
    assert bool((error <= info.residual + ROUNDING).all())
    assert float(info.residual.max()) <= tol
    assert scores.sum(0).tolist() == pytest.approx([1] * 8, abs=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("lone", [0.0, 0.3, 1.0])
def test_power_iteration_gives_what_isolated_nodes_have_back(kernel, lone):
    op = graph().using(kernel)
    seeds = sample_seeds(op, 6, connected=True) * (1 - lone)
    seeds[op.isolated.nonzero().squeeze(1)[:2], 1:4] += lone / 2
    seeds /= seeds.sum(0).clamp(min=1e-9)
    for restart in (0.1, 0.6):
        scores, info = make("power_iteration", restart=restart, num_iter=7)(op, seeds)
        expected = power_iterates(op.scipy().toarray(), seeds.double().numpy(), restart, 7)
        assert float(l1(scores, torch.from_numpy(expected[-1])).max()) <= ROUNDING
        mass = float(seeds[:, 0].sum())
        change = np.abs(expected[-1] - expected[-2]).sum(0)
        assert info.residual.numpy() == pytest.approx(change, abs=1e-6) if mass else True
        assert info.iterations.tolist() == [7] * 6


@pytest.mark.parametrize("kernel", KERNELS)
def test_power_iteration_stops_each_column_by_itself(kernel):
    op = graph().using(kernel)
    seeds = sample_seeds(op, 8)
    seeds[:, 2] = (op.degree / op.degree.sum()).float()  # a walk leaves them as they are
    method = make("power_iteration", num_iter=60, tol=1e-3)
    scores, info = method(op, seeds)
    steps = info.iterations.tolist()
    assert steps[2] == 1
    assert len(set(steps)) > 1
    assert bool(info.converged.all())
    iterates = power_iterates(op.scipy().toarray(), seeds.double().numpy(), method.restart, max(steps))
    for column, step in enumerate(steps):
        assert np.abs(scores[:, column].double().numpy() - iterates[step][:, column]).sum() <= ROUNDING
        change = [np.abs(iterates[at + 1] - iterates[at])[:, column].sum() for at in range(step)]
        assert all(one > 1e-3 - 1e-6 for one in change[:-1])
        assert change[-1] <= 1e-3 + 1e-6
    few, info = make("power_iteration", num_iter=2, tol=1e-9)(op, seeds)
    assert info.iterations.tolist() == [2] * 8
    assert not bool(info.converged[0])
    assert float(l1(few, torch.from_numpy(iterates[2])).max()) <= ROUNDING

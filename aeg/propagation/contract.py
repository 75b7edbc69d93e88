"""The contract that every registered propagation method must hold, shared by the tests and `aeg check-method`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from aeg.core.operator import Operator
from aeg.propagation.base import Context, Propagation

REPLICATES = 48
STANDARD_ERRORS = 4.0
CLOSE = 1e-5


class ContractViolationError(AssertionError):
    """A method breaks the contract; the message says what was found."""


@dataclass(frozen=True)
class Outcome:
    """The result of one check: its name, what it asserts, and the failure (empty where it holds)."""

    check: str
    claim: str
    failure: str = ""


def sample_graph(seed: int = 0, nodes: int = 60, edges: int = 150) -> Operator:
    """Return a random graph with parallel edges, isolated nodes, two components and weights over six orders."""
    rng = np.random.default_rng(seed)
    half = nodes // 2
    live = np.concatenate([np.arange(half - 3), np.arange(half, nodes - 3)])
    left = rng.choice(live, edges)
    side = left < half
    right = np.where(side, rng.choice(live[live < half], edges), rng.choice(live[live >= half], edges))
    weight = 10.0 ** rng.uniform(-3, 3, edges)
    index = torch.from_numpy(np.stack([left, right]))
    return Operator.from_edges(nodes, index, torch.from_numpy(weight))


def sample_seeds(op: Operator, columns: int = 8, seed: int = 0, connected: bool = False) -> Tensor:
    """Return sparse seeds [nodes, columns] of sum 1; `connected` keeps them off isolated nodes."""
    generator = torch.Generator().manual_seed(seed)
    seeds = torch.zeros(op.num_nodes, columns)
    isolated = op.isolated.cpu()
    for column in range(columns):
        allowed = (~isolated).nonzero().squeeze(1) if connected else torch.arange(op.num_nodes)
        chosen = allowed[torch.randperm(len(allowed), generator=generator)[:4]]
        seeds[chosen, column] = torch.rand(4, generator=generator) + 0.1
    if not connected:
        seeds[isolated.nonzero()[0], 0] = 1.0
    return seeds / seeds.sum(0)


def outcomes(method: Propagation, device: torch.device | str = "cpu") -> Iterator[Outcome]:
    """Run every check on `method` and yield what came of it, one check after the other."""
    for check in CHECKS:
        claim = (check.__doc__ or "").strip().splitlines()[0]
        try:
            check(method, sample_graph().to(device))
        except ContractViolationError as error:
            yield Outcome(check.__name__, claim, str(error))
        else:
            yield Outcome(check.__name__, claim)


def finite_and_non_negative(method: Propagation, op: Operator) -> None:
    """Scores are float32 [nodes, queries] on the operator's device, finite and not negative."""
    seeds = sample_seeds(op).to(op.device)
    scores, _ = method(op, seeds)
    _require(scores.shape == seeds.shape, f"shape {tuple(scores.shape)}, expected {tuple(seeds.shape)}")
    _require(scores.dtype == torch.float32, f"dtype {scores.dtype}, expected float32")
    _require(scores.device.type == op.device.type, f"device {scores.device}, expected {op.device}")
    _require(bool(torch.isfinite(scores).all()), "a score is NaN or infinite")
    _require(bool((scores >= 0).all()), f"a score is negative: {float(scores.min())}")


def info_is_complete(method: Propagation, op: Operator) -> None:
    """The info has iterations, residual, converged and flags for each query."""
    _, info = method(op, sample_seeds(op, 5))
    for name in ("iterations", "residual", "converged"):
        _require(len(getattr(info, name)) == 5, f"info.{name} has {len(getattr(info, name))} entries for 5 queries")
    _require(bool(info.converged.all()), f"not converged: residuals {info.residual.tolist()}")


def batch_equals_columns(method: Propagation, op: Operator) -> None:
    """A batch gives exactly what its columns give one by one, in tiles of the same width."""
    seeds, context = sample_seeds(op, 5), Context(tile=8)
    together, _ = method(op, seeds, context)
    apart = torch.cat([method(op, seeds[:, [i]], context)[0] for i in range(5)], dim=1)
    _require(torch.equal(together, apart), f"largest difference {float((together - apart).abs().max()):.3g}")


def relabelling_permutes(method: Propagation, op: Operator) -> None:
    """Relabelling the nodes permutes the scores (stochastic methods exempt)."""
    if method.stochastic:
        return
    seeds = sample_seeds(op)
    order = torch.randperm(op.num_nodes, generator=torch.Generator().manual_seed(7))
    place = torch.argsort(order)
    row = torch.repeat_interleave(torch.arange(op.num_nodes), (op.crow[1:] - op.crow[:-1]).cpu().long())
    upper = row < op.col.cpu()
    index = torch.stack([place[row[upper]], place[op.col.cpu().long()[upper]]])
    relabelled = Operator.from_edges(op.num_nodes, index, op.weight.cpu()[upper]).to(op.device)
    _close(method(relabelled, seeds[order])[0], method(op, seeds)[0][order.to(op.device)])


def unreachable_nodes_score_zero(method: Propagation, op: Operator) -> None:
    """Nodes that no path joins to a seed score exactly zero."""
    seeds = torch.zeros(op.num_nodes, 1)
    seeds[int((~op.isolated).nonzero()[0])] = 1.0
    from scipy.sparse.csgraph import connected_components

    _, component = connected_components(op.scipy(), directed=False)
    outside = torch.from_numpy(component != component[int(seeds.argmax())]).to(op.device)
    leaked = float(method(op, seeds)[0][outside].abs().max())
    _require(leaked == 0, f"a node in another component scores {leaked:.3g}")


def zero_seeds_are_flagged(method: Propagation, op: Operator) -> None:
    """A column of zeros gives zeros and the flag `zero_seeds`; the others do not change."""
    seeds = sample_seeds(op)
    expected, _ = method(op, seeds)
    seeds[:, 3] = 0
    _only_column(method, op, seeds, expected, "zero_seeds")


def bad_seeds_are_flagged(method: Propagation, op: Operator) -> None:
    """A column with a NaN, an infinity or a negative number gives zeros and the flag `bad_seeds`."""
    for value in (float("nan"), float("inf"), -1.0):
        seeds = sample_seeds(op)
        expected, _ = method(op, seeds)
        seeds[0, 3] = value
        _only_column(method, op, seeds, expected, "bad_seeds")


def graph_without_edges(method: Propagation, op: Operator) -> None:
    """A graph of one node, and a graph without edges, give finite scores."""
    for nodes in (1, 5):
        bare = Operator.from_edges(nodes, torch.zeros(2, 0, dtype=torch.int64)).to(op.device)
        scores, _ = method(bare, torch.eye(nodes, device=op.device))
        _require(bool(torch.isfinite(scores).all()), f"a score is not finite on {nodes} nodes without edges")
        off_diagonal = scores - torch.diag(scores.diagonal())
        _require(float(off_diagonal.abs().max()) == 0, "mass moved in a graph without edges")


def mass_is_kept(method: Propagation, op: Operator) -> None:
    """The scores of a column sum to 1 (methods that declare `mass_preserving`)."""
    if not method.mass_preserving:
        return
    total = method(op, sample_seeds(op))[0].sum(0, dtype=torch.float64)
    _require(bool(((total - 1).abs() < CLOSE).all()), f"sums {total.tolist()}")


def mixtures_mix(method: Propagation, op: Operator) -> None:
    """A mixture of seeds on connected nodes gives the mixture of scores (methods that declare `linear`)."""
    if not method.linear:
        return
    seeds = sample_seeds(op, 2, connected=True)
    scores = method(op, seeds)[0]
    mixed = method(op, 0.25 * seeds[:, :1] + 0.75 * seeds[:, 1:])[0]
    _close(mixed, 0.25 * scores[:, :1] + 0.75 * scores[:, 1:])


def agrees_with_reference(method: Propagation, op: Operator) -> None:
    """Scores agree with the declared float64 reference (stochastic: within four standard errors)."""
    seeds = sample_seeds(op)
    expected = torch.from_numpy(method.reference(op.scipy().toarray(), seeds.double().numpy()))
    if not method.stochastic:
        scores = method(op, seeds)[0].cpu().double()
        error = float((scores - expected).abs().sum(0).max())
        _require(error <= method.tolerance, f"L1 distance {error:.3g}, declared tolerance {method.tolerance:g}")
        return
    runs = torch.stack([method(op, seeds, Context(seed=i))[0].cpu().double() for i in range(REPLICATES)])
    distance = (runs.mean(0) - expected).abs()
    # The floor covers nodes that are visited so rarely that the sample deviation says nothing.
    allowed = STANDARD_ERRORS * runs.std(0) / REPLICATES**0.5 + 1e-5
    worst = float((distance / allowed).max())
    _require(worst <= 1, f"{worst * STANDARD_ERRORS:.2f} standard errors from its expectation")


def repeats_exactly(method: Propagation, op: Operator) -> None:
    """The same call twice gives the same bytes; a stochastic method gives others for another seed."""
    seeds = sample_seeds(op)
    first = method(op, seeds, Context(seed=1))[0]
    _require(torch.equal(first, method(op, seeds, Context(seed=1))[0]), "two equal calls differ")
    if method.stochastic:
        _require(not torch.equal(first, method(op, seeds, Context(seed=2))[0]), "the seed of chance changes nothing")


def tile_width_hardly_matters(method: Propagation, op: Operator) -> None:
    """Another tile width changes a score by rounding only."""
    seeds = sample_seeds(op)
    wide, narrow = (method(op, seeds, replace(Context(), tile=tile))[0] for tile in (8, 3))
    _close(wide, narrow)


CHECKS: tuple[Callable[[Propagation, Operator], None], ...] = (
    finite_and_non_negative,
    info_is_complete,
    batch_equals_columns,
    relabelling_permutes,
    unreachable_nodes_score_zero,
    zero_seeds_are_flagged,
    bad_seeds_are_flagged,
    graph_without_edges,
    mass_is_kept,
    mixtures_mix,
    agrees_with_reference,
    repeats_exactly,
    tile_width_hardly_matters,
)


def _require(holds: bool, failure: str) -> None:
    if not holds:
        raise ContractViolationError(failure)


def _close(got: Tensor, expected: Tensor) -> None:
    error = float((got - expected).abs().sum(0).max())
    scale = max(1.0, float(expected.sum(0).max()))
    _require(error <= CLOSE * scale, f"L1 distance {error:.3g}, expected at most {CLOSE * scale:g}")


def _only_column(method: Propagation, op: Operator, seeds: Tensor, expected: Tensor, flag: str) -> None:
    scores, info = method(op, seeds)
    others = [i for i in range(seeds.shape[1]) if i != 3]
    _require(float(scores[:, 3].abs().max()) == 0, "the odd column's scores are not zero")
    _require(torch.equal(scores[:, others], expected[:, others]), "a neighbour of the odd column changed")
    flagged = info.flags[flag].nonzero().squeeze(1).tolist()
    _require(flagged == [3], f"flag '{flag}' is set on columns {flagged}, expected [3]")

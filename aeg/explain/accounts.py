"""What walks the scores of each propagation method are the sum of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import torch
from torch import Tensor

from aeg.core.operator import Operator
from aeg.errors import ConfigError
from aeg.propagation.base import Propagation
from aeg.propagation.heat_kernel import HeatKernel
from aeg.propagation.katz import Katz
from aeg.propagation.label_propagation import LabelPropagation
from aeg.propagation.none import NoPropagation
from aeg.propagation.power_iteration import PowerIteration
from aeg.propagation.ppr import PPR
from aeg.propagation.rwr import RWR
from aeg.propagation.weighted_bfs import WeightedBFS
from aeg.retrieval.chains import Walks


@singledispatch
def walk_account(method: Propagation, op: Operator, seeds: Tensor, iterations: int | None = None) -> Walks:
    """Return what walks the scores of a method are the sum of.

    A method of one's own joins by `@walk_account.register(MyMethod)` on a function with these arguments.

    Args:
        method: the propagation method.
        op: the operator.
        seeds: [nodes], of one query, of sum 1.
        iterations: steps that the method made for this query, where it may stop early.

    Raises:
        ConfigError: if the method's scores are no sum of walks that anybody has registered.

    Example:
        >>> op = Operator.from_edges(2, torch.tensor([[0], [1]]))
        >>> walk_account(PPR(restart=0.25), op, torch.tensor([1.0, 0.0])).weights
        (0.25,)
    """
    known = sorted(kind.__name__ for kind in walk_account.registry if kind is not object)
    raise ConfigError(
        f"{type(method).__name__} has no account of its scores as a sum of walks; chains can be told of "
        f"{', '.join(known)}, or register one with aeg.explain.walk_account"
    )


@walk_account.register
def _ppr(method: PPR, op: Operator, seeds: Tensor, iterations: int | None = None) -> Walks:
    """w_l = ρ (1 − ρ)^l over P; the core loses (1 − ρ) of an isolated seed's mass, which the scaling gives back."""
    rho = method.restart
    return Walks("transition", (rho,), 1 - rho, scale=1 / (1 - (1 - rho) * _isolated(op, seeds)))


@walk_account.register
def _power_iteration(method: PowerIteration, op: Operator, seeds: Tensor, iterations: int | None = None) -> Walks:
    """The weights of the last iterate: ρ (1 − ρ)^l up to its number, then what is left of the start."""
    steps = method.num_iter if iterations is None else iterations
    return Walks("transition", tuple(_iterates(method.restart, steps, _isolated(op, seeds))[-1]))


@walk_account.register
def _rwr(method: RWR, op: Operator, seeds: Tensor, iterations: int | None = None) -> Walks:
    """Of its expectation: the mean of the first L + 1 power iterates."""
    iterates = _iterates(method.restart, method.walk_length, _isolated(op, seeds))
    longest = len(iterates[-1])
    padded = [weights + [0.0] * (longest - len(weights)) for weights in iterates]
    return Walks("transition", tuple(sum(column) / len(iterates) for column in zip(*padded, strict=True)))


@walk_account.register
def _katz(method: Katz, op: Operator, seeds: Tensor, iterations: int | None = None) -> Walks:
    """w_0 = 0, w_l = a^l over W, a = attenuation / λ_max(W)."""
    top = op.lambda_max
    if top == 0:
        return Walks("adjacency", (0.0,))
    a = method.attenuation / top
    return Walks("adjacency", (0.0, a), a, norm=top)


@walk_account.register
def _label_propagation(method: LabelPropagation, op: Operator, seeds: Tensor, iterations: int | None = None) -> Walks:
    """w_l = (1 − γ) γ^l over S."""
    return Walks("symmetric", (1 - method.gamma,), method.gamma)


@walk_account.register
def _heat_kernel(method: HeatKernel, op: Operator, seeds: Tensor, iterations: int | None = None) -> Walks:
    """Poisson weights over P, the last with the tail's mass; an isolated node keeps all of its own seed."""
    weights = method.poisson()
    return Walks("transition", tuple(weights), staying=sum(weights))


@walk_account.register
def _weighted_bfs(method: WeightedBFS, op: Operator, seeds: Tensor, iterations: int | None = None) -> Walks:
    """w_l = decay^l over P, by steps from one level to the next only, as nothing returns to a node reached before."""
    weights = tuple(method.decay**hop for hop in range(method.hops + 1))
    return Walks("transition", weights, levels=_levels(op, seeds, method.hops))


@walk_account.register
def _none(method: NoPropagation, op: Operator, seeds: Tensor, iterations: int | None = None) -> Walks:
    """w_0 = 1: the seeds."""
    return Walks("transition", (1.0,))


def _isolated(op: Operator, seeds: Tensor) -> float:
    """The mass of the seeds on isolated nodes."""
    values = seeds.double()
    total = float(values.sum())
    return float(values[op.isolated.to(seeds.device)].sum()) / total if total > 0 else 0.0


def _iterates(restart: float, steps: int, isolated: float) -> list[list[float]]:
    """The weights c_l of the power iterates r_k = Σ_l c_l (Pᵀ)^l π, k = 0 … steps.

    An iterate's mass on isolated nodes is c_0 times that of the seeds, and the next step gives it back to them.
    """
    iterates: list[Sequence[float]] = [[1.0]]
    for _ in range(steps):
        before = iterates[-1]
        back = restart + (1 - restart) * before[0] * isolated
        iterates.append([back, *((1 - restart) * weight for weight in before)])
    return [list(weights) for weights in iterates]


def _levels(op: Operator, seeds: Tensor, hops: int) -> Tensor:
    """The distance of each node from the seeds, −1 beyond `hops`."""
    reached = (seeds > 0).to(op.device)
    levels = torch.where(reached, 0, -1)
    front = reached
    for hop in range(1, hops + 1):
        front = (op.w(front.to(torch.float32).unsqueeze(1)).squeeze(1) > 0) & ~reached
        levels = torch.where(front, hop, levels)
        reached = reached | front
    return levels

"""Every registered propagation method holds the shared contract, and the contract catches methods that do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from aeg.core.operator import Operator
from aeg.propagation import METHODS, Context, Info, Propagation
from aeg.propagation.contract import CHECKS, ContractViolationError, outcomes, sample_graph

PARAMS = {
    "ppr": [{}, {"restart": 0.05}, {"restart": 0.9, "tol": 1e-9}],
    "power_iteration": [{}, {"tol": 1e-6, "num_iter": 500}],
    "katz": [{}, {"attenuation": 0.95}],
    "label_propagation": [{}, {"gamma": 0.95}],
    "weighted_bfs": [{}, {"hops": 1}],
    "heat_kernel": [{}, {"t": 0.1}, {"t": 30.0}],
}
CASES = [(name, params) for name in METHODS for params in PARAMS.get(name, [{}])]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("name", "params"), CASES, ids=[f"{name}-{params}" for name, params in CASES])
def test_contract(name, params, check):
    check(METHODS.make(name, **params), sample_graph())


def test_the_issue_s_methods_are_registered():
    expected = {"ppr", "power_iteration", "rwr", "katz", "label_propagation", "weighted_bfs", "heat_kernel", "none"}
    assert expected <= set(METHODS)


@dataclass(frozen=True)
class _Broken(Propagation):
    """A method whose scores are spoiled in one way, to see that the contract notices."""

    how: str = ""
    mass_preserving = True

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Info]:
        scores = op.pt(seeds)
        spoiled = {
            "negative": lambda: scores - 0.1,
            "nan": lambda: scores / scores,
            "leaks": lambda: scores + 1e-3,
            "neighbours": lambda: scores * seeds.sum(),
            "order": lambda: scores * torch.arange(1, len(scores) + 1).unsqueeze(1),
            "unnormalised": lambda: 2 * scores,
            "square": lambda: scores.square(),
        }[self.how]()
        return spoiled, Info.exact(seeds.shape[1], 1, seeds.device)

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        degree = weights.sum(0)
        return weights @ (seeds / np.where(degree > 0, degree, np.inf)[:, None])


@pytest.mark.parametrize(
    ("how", "caught"),
    [
        ("negative", "finite_and_non_negative"),
        ("nan", "finite_and_non_negative"),
        ("leaks", "unreachable_nodes_score_zero"),
        ("neighbours", "batch_equals_columns"),
        ("order", "relabelling_permutes"),
        ("unnormalised", "mass_is_kept"),
        ("square", "mixtures_mix"),
        ("square", "agrees_with_reference"),
    ],
)
def test_contract_catches(how, caught):
    failed = {outcome.check for outcome in outcomes(_Broken(how)) if outcome.failure}
    assert caught in failed


def test_contract_catches_a_biased_walk():
    class Biased(METHODS.get("rwr")):
        def reference(self, weights, seeds):
            return METHODS.make("ppr").reference(weights, seeds)

    check = next(check for check in CHECKS if check.__name__ == "agrees_with_reference")
    with pytest.raises(ContractViolationError, match="standard errors"):
        check(Biased(), sample_graph())

"""Propagation on a CUDA device: the contract, agreement with the CPU, and float64 on demand."""

from __future__ import annotations

import pytest
import torch

from aeg.core.ranking import top_k
from aeg.propagation import METHODS, make
from aeg.propagation.contract import CHECKS, sample_graph, sample_seeds

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", sorted(METHODS))
def test_contract(name, check):
    check(METHODS.make(name), sample_graph().to("cuda"))


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"rwr"}))
def test_the_gpu_agrees_with_the_cpu(name):
    op = sample_graph(nodes=3000, edges=12_000)
    seeds = sample_seeds(op, 300)
    here, _ = make(name)(op, seeds)
    there, info = make(name)(op.to("cuda"), seeds)
    assert there.device.type == "cuda"
    assert info.converged.device.type == "cpu"
    assert float((there.cpu() - here).abs().sum(0).max()) < 2e-5


def test_ties_are_broken_alike():
    scores = torch.rand(5000, 40, generator=torch.Generator().manual_seed(0)).round(decimals=3)
    assert torch.equal(top_k(scores, 25)[0], top_k(scores.cuda(), 25)[0].cpu())

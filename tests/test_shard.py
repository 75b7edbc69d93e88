"""An operator split by rows over processes gives the scores of one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from aeg.propagation import make
from aeg.propagation.contract import sample_graph, sample_seeds
from tests.distributed_child import METHODS

CHILD = Path(__file__).with_name("distributed_child.py")


@pytest.fixture(scope="module", params=[2, 3])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharded")
    op = sample_graph(nodes=300, edges=1200)
    seeds = sample_seeds(op, 20)
    op.save(folder / "operator.safetensors")
    torch.save(seeds, folder / "seeds.pt")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={request.param}"]
    root = str(CHILD.parent.parent)
    done = subprocess.run([*command, str(CHILD), str(folder)], capture_output=True, text=True, cwd=root, timeout=240)
    assert done.returncode == 0, done.stderr
    found = [torch.load(folder / f"scores-{rank}.pt", weights_only=True) for rank in range(request.param)]
    return op, seeds, found


@pytest.mark.parametrize("name", METHODS)
def test_scores_equal_those_of_one_process(run, name):
    op, seeds, found = run
    alone, _ = make(name)(op, seeds)
    for scores in found:
        assert float((scores[name] - alone).abs().sum(0).max()) <= 1e-6
        assert torch.equal(scores[name], found[0][name])


def test_each_process_holds_its_share_of_the_entries(run):
    op, _, found = run
    held = [int(scores["entries"]) for scores in found]
    assert sum(held) == len(op.col)
    assert max(held) < 1.5 * len(op.col) / len(held)

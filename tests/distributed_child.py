"""Run by torchrun: scores of several methods on a sharded operator, written by each process."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import distributed as dist

from aeg.core.shard import sharded
from aeg.propagation import make

METHODS = ("ppr", "katz", "label_propagation", "heat_kernel", "power_iteration", "weighted_bfs")


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    seeds = torch.load(folder / "seeds.pt", weights_only=True)
    op = sharded(folder / "operator.safetensors")
    kept = {name: make(name)(op, seeds)[0] for name in METHODS}
    kept["entries"] = torch.tensor(len(op.col))
    torch.save(kept, folder / f"scores-{dist.get_rank()}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

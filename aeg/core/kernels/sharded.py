"""A kernel whose rows are split over the processes of a torch.distributed group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from aeg.core.kernels.base import Equation, Kernel


@dataclass(frozen=True, eq=False)
class ShardedKernel(Kernel):
    """Each process holds a block of the rows of W and computes these rows of every product.

    x and the iterates are whole on every process; after a step each process sends its rows to the others. So the
    matrix, which is most of the memory, is split, and every method runs unchanged.

    Attributes:
        inner: the kernel of this process's block.
        blocks: the rows of each process, in the order of their ranks; they cover all rows.
        group: the process group; None is the default group.
    """

    inner: Kernel
    blocks: tuple[slice, ...]
    group: Any = None

    name = "sharded"

    @property
    def own(self) -> slice:
        """This process's rows."""
        return self.blocks[dist.get_rank(self.group)]

    def halves(self, b: Tensor) -> bool:
        """See `Kernel.halves`; what is sent to the others is then half as much."""
        return self.inner.halves(b)

    def product(self, x: Tensor) -> Tensor:
        """See `Kernel.product`."""
        out = torch.empty_like(x)
        out[self.own] = self.inner.product(x)
        self._spread(out)
        return out

    def step(self, equation: Equation, x: Tensor, previous: Tensor, omega: float) -> None:
        """See `Kernel.step`."""
        self.inner.step(self._part(equation), x, previous[self.own], omega)
        self._spread(previous)

    def check(self, equation: Equation, x: Tensor, previous: Tensor, omega: float, moved: Tensor) -> Tensor:
        """See `Kernel.check`."""
        found = self.inner.check(self._part(equation), x, previous[self.own], omega, moved[self.own])
        self._spread(previous)
        self._spread(moved)
        parts = [torch.empty_like(found) for _ in self.blocks]
        dist.all_gather(parts, found, group=self.group)
        return torch.stack(parts).sum(0)  # added in the order of the ranks: the same on every process

    def _part(self, equation: Equation) -> Equation:
        own = self.own
        return replace(equation, scale=equation.scale[own], weights=equation.weights[own], b=equation.b[own])

    def _spread(self, whole: Tensor) -> None:
        """Give every process the rows that the others computed."""
        for rank, rows in enumerate(self.blocks):
            if rows.stop > rows.start:
                sender = rank if self.group is None else dist.get_global_rank(self.group, rank)
                dist.broadcast(whole[rows], sender, self.group)

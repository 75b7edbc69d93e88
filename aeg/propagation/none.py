"""No propagation: the seeds themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from aeg.core.operator import Operator
from aeg.propagation.base import METHODS, Context, Info, Propagation


@METHODS.register("none")
@dataclass(frozen=True)
class NoPropagation(Propagation):
    """No propagation: the score is the seed, scaled to sum 1 (the paper's "w/o ERGR").

    Source:
        Paper, Table 2.

    Example:
        >>> import torch
        >>> op = Operator.from_edges(2, torch.tensor([[0], [1]]))
        >>> NoPropagation()(op, torch.tensor([[3.0], [1.0]]))[0].squeeze().tolist()
        [0.75, 0.25]
    """

    mass_preserving: ClassVar[bool] = True

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Info]:
        """See `Propagation.propagate`."""
        return seeds, Info.exact(seeds.shape[1], 0, seeds.device)

    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Propagation.reference`."""
        return seeds

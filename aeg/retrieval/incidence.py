"""Which rows belong to which group, and the largest or the sum of a group's rows for many columns."""

from __future__ import annotations

import torch
from torch import Tensor

from aeg.core.tensors import csr_matrix, row_pointers


class Incidence:
    """Groups and their members, each membership counted once.

    Attributes:
        columns: the number of members that there may be.
        device: where the products are done.

    Example:
        >>> passages = Incidence(torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]]), groups=3, columns=2)
        >>> scores = torch.tensor([[0.5], [0.25]])
        >>> passages.largest(scores).squeeze(1).tolist(), passages.total(scores).squeeze(1).tolist()
        ([0.5, 0.25, 0.0], [0.75, 0.25, 0.0])
    """

    def __init__(self, pairs: Tensor, groups: int, columns: int, device: torch.device | str = "cpu") -> None:
        """Take pairs [2, memberships] of group and member, in any order."""
        self.columns, self.device, self._groups = columns, torch.device(device), groups
        flat = torch.unique(pairs[0] * max(columns, 1) + pairs[1])
        self._group, member = flat // max(columns, 1), flat % max(columns, 1)
        crow = row_pointers(self._group, groups)
        ones = torch.ones(len(flat))
        self._matrix = csr_matrix(crow.int(), member.int(), ones, (groups, columns)).to(self.device)
        self._group, self._member = self._group.to(self.device), member.to(self.device)

    def total(self, values: Tensor) -> Tensor:
        """Return the sum of each group's rows, [groups, width] for float32 values [columns, width]."""
        return self._matrix @ values

    def largest(self, values: Tensor) -> Tensor:
        """Return the largest of each group's rows, [groups, width] for float32 values [columns, width], not negative.

        A group without members has 0.
        """
        if self.device.type == "cpu":
            return torch.sparse.mm(self._matrix, values.contiguous(), "amax")
        chosen = values[self._member]
        out = values.new_zeros(self._groups, values.shape[1])
        return out.scatter_reduce_(0, self._group.unsqueeze(1).expand_as(chosen), chosen, "amax")

"""Memory for tiles."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


def empty(*shape: int, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return an uninitialised tensor on the device, and in the dtype, of `like`.

    On the CPU NumPy asks for it, as NumPy tells the kernel to use huge pages: a first touch of small pages costs
    as much as several products on a virtual machine.

    Example:
        >>> empty(2, 3, like=torch.zeros(1)).shape
        torch.Size([2, 3])
    """
    dtype = dtype or like.dtype
    if like.device.type == "cpu" and dtype in _NUMPY:
        return torch.from_numpy(np.empty(shape, dtype=_NUMPY[dtype]))
    return torch.empty(shape, dtype=dtype, device=like.device)

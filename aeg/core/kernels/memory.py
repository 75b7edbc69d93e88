"""Memory for tiles."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

_LINE = 64  # bytes of a cache line


def empty(*shape: int, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return an uninitialised tensor on the device, and in the dtype, of `like`.

    On the CPU NumPy asks for the memory, as it tells the kernel to use huge pages: a first touch of small pages costs
    as much as several products on a virtual machine. Rows of 64 bytes then start where a cache line does.

    Example:
        >>> empty(2, 3, like=torch.zeros(1)).shape
        torch.Size([2, 3])
    """
    dtype = dtype or like.dtype
    if like.device.type != "cpu":
        return torch.empty(shape, dtype=dtype, device=like.device)
    size = math.prod(shape) * dtype.itemsize
    room = np.empty(size + _LINE, dtype=np.uint8)
    first = -room.ctypes.data % _LINE
    return torch.from_numpy(room[first : first + size]).view(dtype).view(shape)


class Space:
    """Tiles that are used again and again, by name: memory that is asked for anew must be cleared by the system."""

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    def take(self, name: str, *shape: int, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return the tensor of that name, with whatever it holds; a new one where shape, dtype or device changed."""
        found, dtype = self._kept.get(name), dtype or like.dtype
        if found is None or found.shape != shape or found.dtype != dtype or found.device != like.device:
            found = self._kept[name] = empty(*shape, like=like, dtype=dtype)
        return found


def shares_memory(a: Tensor, b: Tensor) -> bool:
    """Tell whether two tensors are views of the same memory."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()

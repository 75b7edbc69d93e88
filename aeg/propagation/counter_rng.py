"""Counter-based random numbers on tensors: the same on every device, in every batch."""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX2 = -7723592293110705685  # 0x94D049BB133111EB


def splitmix64(x: Tensor) -> Tensor:
    """Return the SplitMix64 output for each int64 counter; arithmetic wraps modulo 2^64.

    Source:
        Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.

    Example:
        >>> hex(int(splitmix64(torch.tensor([0]))) & (2**64 - 1))
        '0xe220a8397b1dcdaf'
    """
    z = x + _GOLDEN
    z = (z ^ _shift(z, 30)) * _MIX1
    z = (z ^ _shift(z, 27)) * _MIX2
    return z ^ _shift(z, 31)


def uniform(key: Tensor, counter: Tensor) -> Tensor:
    """Return float64 numbers in [0, 1) for each pair of int64 key and counter (broadcast)."""
    return _shift(splitmix64(splitmix64(key) ^ splitmix64(counter * 2 + 1)), 11).to(torch.float64) * 2.0**-53


def column_keys(columns: Tensor) -> Tensor:
    """Return an int64 key of each column's content, [columns] for a float32 tensor [nodes, columns]."""
    bits = columns.contiguous().view(torch.int32).to(torch.int64)
    node = splitmix64(torch.arange(columns.shape[0], device=columns.device)).unsqueeze(1)
    return torch.where(columns == 0, 0, splitmix64(node + bits)).sum(0)


def _shift(x: Tensor, bits: int) -> Tensor:
    return (x >> bits) & ((1 << (64 - bits)) - 1)

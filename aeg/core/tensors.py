"""Tensors on disk (safetensors, never pickles) and as sparse matrices."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from aeg.core.atomic import replacing
from aeg.errors import DataError


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write named tensors by rename; the same tensors give the same bytes."""
    from safetensors.torch import save_file

    with replacing(path) as temporary:
        save_file({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, temporary)


def load_tensors(path: Path, what: str, remedy: str) -> dict[str, Tensor]:
    """Return the tensors of a file.

    Args:
        path: a safetensors file.
        what: what it holds, for the error.
        remedy: what to do when it cannot be read.

    Raises:
        DataError: if the file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: not a readable {what} ({error}); {remedy}") from None


def is_on(device: torch.device, wanted: torch.device | str) -> bool:
    """Tell whether what lies on `device` is where it is wanted; without a number any device of the kind will do.

    Example:
        >>> is_on(torch.device("cuda:0"), "cuda"), is_on(torch.device("cpu"), "cuda")
        (True, False)
    """
    wanted = torch.device(wanted)
    return device.type == wanted.type and wanted.index in (None, device.index)


def row_pointers(rows: Tensor, count: int) -> Tensor:
    """Return the CSR row pointers, int64 [count + 1], of entries in the given rows.

    Example:
        >>> row_pointers(torch.tensor([0, 0, 2]), 3).tolist()
        [0, 2, 2, 3]
    """
    pointers = torch.zeros(count + 1, dtype=torch.int64)
    pointers[1:] = torch.cumsum(torch.bincount(rows, minlength=count), 0)
    return pointers


def csr_matrix(crow: Tensor, col: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return a sparse CSR tensor, without torch's notice that these are in beta.

    Example:
        >>> matrix = csr_matrix(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.tensor([2.0, 3.0]), (2, 2))
        >>> (matrix @ torch.tensor([[1.0], [1.0]])).tolist()
        [[2.0], [3.0]]
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(crow, col, values, size=shape, check_invariants=False)

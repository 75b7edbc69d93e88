"""Ways to multiply by a sparse matrix; `choose` takes the best one that runs here."""

from __future__ import annotations

import importlib.util

import torch

from aeg.core.kernels.base import Equation, Kernel, Matrix, TorchKernel
from aeg.errors import ConfigError, DependencyError, nearest

KERNELS = ("auto", "torch", "numba", "triton")

__all__ = ["KERNELS", "Equation", "Kernel", "Matrix", "TorchKernel", "choose", "compiled"]


def choose(matrix: Matrix, name: str = "auto") -> Kernel:
    """Return a kernel for a matrix where it lies.

    `auto` takes the Triton kernel on a GPU and the numba kernel on the CPU, where the package is there, else
    torch's product, which runs everywhere. Triton is tried by a tiny step first; where it does not work (an old
    GPU, no C compiler) torch's product is taken and a warning says why.

    Raises:
        ConfigError: if there is no such kernel, or it does not run on the matrix's device.
        DeviceError: if the Triton kernel was asked for by name and does not work on the GPU.
        DependencyError: if a kernel that was asked for by name needs a package that is missing.
    """
    if name not in KERNELS:
        raise ConfigError(f"kernel: got {name!r}. {nearest(name, KERNELS)}")
    cuda = matrix.weight.device.type == "cuda"
    if name == "auto":
        name = _best(matrix.weight.device)
    elif name != "torch" and importlib.util.find_spec(name) is None:
        raise DependencyError(f"kernel {name!r} needs the package {name}; install it, or take kernel 'torch'")
    if name == "numba":
        if cuda:
            raise ConfigError("kernel: 'numba' runs on the CPU only; take 'auto', 'torch' or 'triton' on a GPU")
        from aeg.core.kernels.numba_kernel import NumbaKernel

        return NumbaKernel(matrix)
    if name == "triton":
        from aeg.core.kernels.triton_kernel import TritonKernel, require

        if cuda:
            require(matrix.weight.device)
        return TritonKernel(matrix)
    return TorchKernel(matrix)


def _best(device: torch.device) -> str:
    """The name of the best kernel that runs on a device."""
    wanted = "triton" if device.type == "cuda" else "numba"
    if importlib.util.find_spec(wanted) is None:
        return "torch"
    if wanted == "triton":
        from aeg.core.kernels.triton_kernel import usable

        return "triton" if usable(device) else "torch"
    return wanted


def compiled(kernel: Kernel) -> bool:
    """Tell whether the compiled CPU loops run beside this kernel (for a sharded one: beside its block's)."""
    return getattr(kernel, "inner", kernel).name == "numba"

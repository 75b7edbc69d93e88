"""Does faiss work here? Asked once a process, by a tiny search that is compared with torch."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch

from aeg.errors import DeviceError

_SECONDS = 180
_GPU_PROGRAM = (
    "import sys; from aeg.backends.nearest.probe import gpu_search_fault; "
    "fault = gpu_search_fault(int(sys.argv[1])); sys.stderr.write(fault or ''); sys.exit(bool(fault))"
)


def search_fault(index: Any) -> str:
    """Return what is wrong with an empty faiss index of 16 dimensions, "" where it finds what torch finds.

    Args:
        index: anything with faiss's `add` and `search`.
    """
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(256, 16, generator=generator), dim=1)
    queries = vectors[:8]
    try:
        index.add(vectors.numpy())
        scores, rows = index.search(queries.numpy(), 4)
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        return f"a small search failed: {' '.join(str(error).split())[:160]}"
    expected, places = (queries @ vectors.T).topk(4, dim=1)
    if not torch.equal(torch.as_tensor(rows), places) or not torch.allclose(
        torch.as_tensor(scores), expected, atol=1e-5
    ):
        return "a small search gave wrong neighbours"
    return ""


@cache
def cpu_fault() -> str:
    """Return why faiss cannot search on the CPU, "" where it can."""
    if find_spec("faiss") is None:
        return "faiss is not installed"
    try:
        import faiss
    except (ImportError, OSError) as error:
        return f"faiss cannot be imported: {error}"
    return search_fault(faiss.IndexFlatIP(16))


@cache
def gpu_fault(device: int) -> str:
    """Return why faiss cannot search on a GPU, "" where it can.

    The search runs in a process of its own: a wheel without kernels for the GPU ends the process that tries it.
    """
    if cpu_fault():
        return cpu_fault()
    import faiss

    if not hasattr(faiss, "StandardGpuResources"):
        return "faiss is built without GPU support"
    try:
        done = subprocess.run(
            [sys.executable, "-c", _GPU_PROGRAM, str(device)], capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the test of faiss on the GPU did not end: {' '.join(str(error).split())[:160]}"
    if done.returncode:
        return f"faiss does not work on cuda:{device}: {' '.join(done.stderr.split())[-200:] or done.returncode}"
    return ""


def gpu_search_fault(device: int) -> str:
    """Return what is wrong with faiss on a GPU, tried in this process, which it may end."""
    import faiss

    if faiss.get_num_gpus() <= device:
        return f"faiss sees {faiss.get_num_gpus()} GPUs"
    return search_fault(gpu_index(faiss.IndexFlatIP(16), device))


def gpu_index(index: Any, device: int) -> Any:
    """Return a faiss index moved to a GPU, together with the memory it works in.

    Raises:
        DeviceError: if faiss cannot move it.
    """
    import faiss

    try:
        resources = faiss.StandardGpuResources()
        moved: Any = faiss.index_cpu_to_gpu(resources, device, index)
    except (AttributeError, RuntimeError) as error:
        raise DeviceError(f"faiss on cuda:{device}: {error}; use kind: torch") from None
    moved.aeg_resources = resources  # must live as long as the index
    return moved

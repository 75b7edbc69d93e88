"""The device a run works on: one rule for choosing it, and an error instead of a silent fall-back."""

from __future__ import annotations

import logging
import os
import re
import socket
import warnings

import torch

from aeg.backends.group import group
from aeg.errors import ConfigError, DeviceError

logger = logging.getLogger(__name__)

_NO_GPU_WANTED = frozenset({"", "-1", "NoDevFiles"})
"""Values of CUDA_VISIBLE_DEVICES that hide every GPU on purpose; the last is what Slurm sets for a CPU job."""


def resolve_device(name: str = "auto") -> torch.device:
    """Return the torch device that `name` stands for.

    Args:
        name: `auto` (a CUDA GPU where there is one, else the CPU), `cpu`, `cuda`, `cuda:N` or `mps`.

    Raises:
        ConfigError: if `name` is none of these.
        DeviceError: if the device is not there, or `auto` finds none although `CUDA_VISIBLE_DEVICES` names one.

    Example:
        >>> resolve_device("cpu")
        device(type='cpu')
        >>> resolve_device("gpu")
        Traceback (most recent call last):
        ...
        aeg.errors.ConfigError: device: got 'gpu', expected auto, cpu, cuda, cuda:N or mps
    """
    return choose_device(name)[0]


def choose_device(name: str = "auto") -> tuple[torch.device, str]:
    """Return the device that `name` stands for, and in words why it is that one; raises as `resolve_device` does.

    Example:
        >>> choose_device("cpu")
        (device(type='cpu'), 'as configured')
    """
    if name == "auto":
        return _automatic()
    return _named(name), "as configured"


def _named(name: str) -> torch.device:
    if name == "cpu":
        return torch.device("cpu")
    if name == "mps":
        if not torch.backends.mps.is_available():
            raise DeviceError("device 'mps': torch sees no Apple GPU; set device: cpu or device: auto")
        return torch.device("mps")
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if match is None:
        raise ConfigError(f"device: got {name!r}, expected auto, cpu, cuda, cuda:N or mps")
    return _cuda(name, None if match.group(1) is None else int(match.group(1)))


def _automatic() -> tuple[torch.device, str]:
    """Return the first CUDA GPU, else the CPU, and why; a GPU that was named and is not there is an error."""
    count, reason = _cuda_devices()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    named = [] if visible is None or visible.strip() in _NO_GPU_WANTED else visible.split(",")
    if count:
        if len(named) > count:
            logger.warning("CUDA_VISIBLE_DEVICES=%r names %d GPUs, torch sees %d", visible, len(named), count)
        at = _own_gpu(count)
        why = f"auto: number {at} of {count} GPUs that torch sees, {torch.cuda.get_device_name(at)}"
        logger.info("device auto: cuda:%d (%s)", at, why)
        return torch.device("cuda", at), why
    if named:
        raise DeviceError(
            f"device 'auto': CUDA_VISIBLE_DEVICES={visible!r} names a GPU but {reason}; "
            "correct or unset it, or set device: cpu to run on the CPU"
        )
    why = reason if visible is None else f"CUDA_VISIBLE_DEVICES={visible!r} hides all GPUs"
    logger.info("device auto: cpu (%s)", why)
    return torch.device("cpu"), f"auto: {why}"


def _cuda(name: str, index: int | None) -> torch.device:
    count, reason = _cuda_devices()
    if not count:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        shown = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible!r})"
        raise DeviceError(f"device {name!r}: {reason}{shown}; set device: cpu, or run where there is a GPU")
    together = group().size
    if index is not None and together > 1:
        raise ConfigError(f"device: got {name!r} for each of {together} processes; set device: auto, a GPU for each")
    if index is None:
        index = _own_gpu(count) if together > 1 or not torch.cuda.is_initialized() else torch.cuda.current_device()
    if index >= count:
        raise DeviceError(f"device {name!r}: torch sees {count} GPU(s), the last is cuda:{count - 1}; use that")
    return torch.device("cuda", index)


def _own_gpu(count: int) -> int:
    """The number of this process's GPU: each of a group on one machine has its own."""
    local = group().local_rank
    if local >= count:
        raise DeviceError(
            f"process {local + 1} on {socket.gethostname()}: torch sees {count} GPU(s) there; start as many processes "
            "as GPUs, or set device: cpu"
        )
    return local


def _cuda_devices() -> tuple[int, str]:
    """Return how many CUDA devices torch sees, and in words why there are none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count:
        return count, ""
    if torch.version.cuda is None:
        return 0, f"torch {torch.__version__} is built without CUDA"
    detail = " ".join(str(caught[0].message).split()) if caught else ""
    return 0, f"torch sees no CUDA device{f' ({detail[:200]})' if detail else ''}"

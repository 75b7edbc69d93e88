"""The manifest of a run: everything needed to know what was run, on what, and what went wrong."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import aeg
from aeg.artifacts import read_json
from aeg.config.load import to_plain
from aeg.config.schema import ExperimentConfig
from aeg.experiment.provenance import environment, files, parameters, plugin_hashes, sources
from aeg.pipeline.stages import Pipeline

_LIBRARIES = (
    "torch",
    "torch-geometric",
    "transformers",
    "omegaconf",
    "numpy",
    "scipy",
    "faiss-cpu",
    "faiss-gpu",
    "bm25s",
    "spacy",
    "pyarrow",
    "safetensors",
    "accelerate",
    "openai",
    "pydantic",
    "json-repair",
    "rouge-score",
    "xllamacpp",
)


def manifest(pipeline: Pipeline, **facts: Any) -> dict[str, Any]:
    """Return the manifest of a run of `pipeline`.

    Args:
        pipeline: the stages, with their config, device and encoder.
        facts: what the run adds: data hashes, counts, timings.
    """
    return {
        "aeg": aeg.__version__,
        "git": git_state(Path(aeg.__file__).parent.parent),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "libraries": versions(),
        "device": device_name(pipeline.device),
        "threads": torch.get_num_threads(),
        "config": to_plain(pipeline.config),
        "defaults": to_plain(ExperimentConfig()),
        "methods": parameters(pipeline.methods),
        "files": files(pipeline.methods, pipeline.root),
        "plugins": plugin_hashes(pipeline.config.plugins),
        "sources": sources(),
        "environment": environment(),
        "encoder": pipeline.encoder.fingerprint,
        "encoder_counts": dict(pipeline.encoder.counts),
        **facts,
    }


def versions() -> dict[str, str]:
    """Return the versions of the libraries that decide results, those that are installed."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_state(folder: Path) -> dict[str, Any] | None:
    """Return commit and whether there are uncommitted changes; None outside a git checkout.

    In the snapshot that a queued job runs (`aeg.cluster.snapshot`) they are those of the checkout that it is of.
    """
    snapshot = folder / "snapshot.json"
    if snapshot.is_file():
        facts = read_json(snapshot)
        return {"commit": facts["commit"], "dirty": facts["dirty"]} if facts["commit"] else None
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def device_name(device: torch.device) -> str:
    """Return the device in words.

    Example:
        >>> device_name(torch.device("cpu"))
        'cpu'
    """
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)


def _git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout.strip()

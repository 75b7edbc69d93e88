"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# No deadlines: machines are noisy. The same examples in every run: a failure is the change's, not chance's.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of the benchmark data; the test is skipped where it is missing."""
    folder = Path(os.environ.get("AEG_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "medical").is_dir():
        pytest.skip(f"benchmark data not found in {folder}; set AEG_DATA")
    return folder


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The root of the source tree."""
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Keep torch to one thread: the test graphs are tiny, and tests may run side by side."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(params=["as a small graph", "as a large graph"])
def graph_size(request, monkeypatch) -> None:
    """What is done on large graphs only (nodes in another order, low degrees eliminated) is done on these as well."""
    from aeg.core import order
    from aeg.propagation import walk_system

    if request.param == "as a large graph":
        monkeypatch.setattr(order, "SMALL", 4)
        monkeypatch.setattr(walk_system, "SMALL", 4)

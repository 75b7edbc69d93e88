"""The Triton kernel on the CPU, in Triton's interpreter, against torch's kernel; and compiled for a GPU."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from aeg.core.operator import Operator
from aeg.errors import ConfigError

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")

ROOT = Path(__file__).resolve().parent.parent
CASES = (
    *(f"width {width}" for width in (1, 2, 3, 8, 17, 40)),
    *(f"float64, width {width}" for width in (1, 5)),
    "more columns than a program takes",
    "a block of rows",
    "a block without rows",
    "a rectangle, over its own right-hand side",
    "no edges",
    "no nodes",
    "a hub",
    "a hub in pieces",
    "a hub in pieces, float64",
    "a hub in pieces, a block of rows",
    *(f"halves, width {width}" for width in (1, 2, 17)),
    "halves, a block of rows",
    "halves, a hub in pieces",
    "a column has its bits at every width",
    "what needs another precision goes through torch",
    "the probe is content",
    "ppr",
)


def child(name: str, target: Path, interpret: str) -> dict[str, str]:
    environment = os.environ | {"TRITON_INTERPRET": interpret, "TRITON_CACHE_DIR": str(target.parent / "cache")}
    command = [sys.executable, "-m", f"tests.{name}", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(target.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def failures(tmp_path_factory) -> dict[str, str]:
    return child("triton_child", tmp_path_factory.mktemp("triton") / "failures.json", "1")


@pytest.mark.parametrize("case", CASES)
def test_interpreted(failures, case):
    assert not failures[case], failures[case]


def test_every_case_is_listed(failures):
    assert set(failures) == set(CASES)


def test_compiles_for_a_gpu(tmp_path):
    programs = child("triton_compile_child", tmp_path / "programs.json", "0")
    assert len(programs) == 16
    for name, ptx in programs.items():
        assert "bar.sync" not in ptx, f"{name}: threads of one warp wait for each other"
    for name in ("product", "affine", "step", "check"):
        assert programs[f"{name} fp32"].count("ld.global.v4.b32") >= 4, f"{name}: no loads of 16 bytes"
        assert programs[f"{name} fp64"].count("ld.global.v2.b64") >= 8, f"{name}: no loads of 16 bytes"
        assert ".f64" not in programs[f"{name} fp16"], f"{name}: halves are added in float64"
        assert "cvt.f32.f16" in programs[f"{name} fp16"]
        assert "fma.rn.f64" in programs[f"{name} fp64"]
        assert ".f64" not in programs[f"{name} fp32"], f"{name}: float32 is computed in float64"
    for name in ("measures fp32", "measures fp64", "added"):
        assert ".f64" in programs[name], f"{name}: sums are not in float64"


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter runs on the CPU")
def test_the_cpu_is_refused_and_a_fault_is_reported(caplog):
    from aeg.core.kernels import triton_kernel

    with pytest.raises(ConfigError, match="TRITON_INTERPRET=1"):
        Operator.from_edges(2, torch.tensor([[0], [1]])).using("triton")
    triton_kernel.usable.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert not triton_kernel.usable(torch.device("cpu"))
    assert "torch's slower product is used instead: ConfigError: kernel: 'triton' runs on a GPU" in caplog.text

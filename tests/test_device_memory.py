"""Memory is looked at before things are loaded: groups of both versions, an error, or a narrower tile."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch

from aeg.backends import memory
from aeg.backends.device import choose_device
from aeg.backends.embedder.hf import HuggingFaceEmbedder
from aeg.backends.memory import host_memory, require, weights_bytes
from aeg.config.schema import GraphConfig
from aeg.core.records import ExtractedAtom, Extraction, Passage
from aeg.errors import DataError, DeviceError
from aeg.graph import build
from aeg.pipeline.memory import check_graph, check_stored
from aeg.propagation import fitting, make
from aeg.propagation.contract import sample_graph, sample_seeds

GIB = 2**30


def system(root: Path, cgroup: str, available: int = 16 * GIB) -> tuple[Path, Path]:
    """A /proc and a /sys/fs/cgroup."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable:   {available // 1024} kB\n")
    (root / "proc" / "self" / "cgroup").write_text(cgroup)
    return root / "proc", root / "groups"


def group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name.replace("__", ".")).write_text(f"{value}\n")


def test_the_machine_bounds_where_no_group_does(tmp_path):
    proc, groups = system(tmp_path, "0::/\n")
    assert host_memory(proc, groups) == (16 * GIB, "the machine")
    group(groups, memory__max="max", memory__current=GIB)
    assert host_memory(proc, groups) == (16 * GIB, "the machine")


def test_version_2_takes_the_tightest_group_above(tmp_path):
    proc, groups = system(tmp_path, "0::/slurm/job_7/step_0\n")
    group(groups / "slurm" / "job_7", memory__max=4 * GIB, memory__current=3 * GIB, memory__stat=f"inactive_file {GIB}")
    group(groups / "slurm" / "job_7" / "step_0", memory__max="max", memory__current=GIB)
    free, bound = host_memory(proc, groups)
    assert free == 2 * GIB
    assert "control group" in bound


def test_version_1(tmp_path):
    proc, groups = system(tmp_path, "9:memory:/job_7\n8:cpu,cpuacct:/x\n")
    folder = groups / "memory" / "job_7"
    group(folder, memory__limit_in_bytes=2 * GIB, memory__usage_in_bytes=GIB, memory__stat="total_inactive_file 0")
    assert host_memory(proc, groups)[0] == GIB
    group(folder, memory__limit_in_bytes=2**63 - 4096)  # none
    assert host_memory(proc, groups)[0] == 16 * GIB


def weights(path: Path, dtype: str, width: int, count: int) -> None:
    header = json.dumps({"a": {"dtype": dtype, "shape": [count], "data_offsets": [0, width * count]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(width * count))


def test_weights_are_counted_from_headers_as_they_will_be_loaded(tmp_path):
    weights(tmp_path / "model-1.safetensors", "BF16", 2, 1000)
    weights(tmp_path / "model-2.safetensors", "F32", 4, 10)
    assert weights_bytes(tmp_path) == 2040
    assert weights_bytes(tmp_path, "float32") == 4040
    assert weights_bytes(tmp_path, "bfloat16") == 2020
    (tmp_path / "model-1.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(DataError, match=r"model-1.safetensors: not a whole safetensors file"):
        weights_bytes(tmp_path)


def test_what_does_not_fit_is_refused_before_it_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda _: (1000, "the control group"))
    encoder = HuggingFaceEmbedder().load("cpu")
    with pytest.raises(
        DeviceError, match=r"encoder .* needs about .* MiB .* the control group leaves .* smaller encoder"
    ):
        encoder.encode(["a text"])
    (tmp_path / "graph.safetensors").write_bytes(bytes(2000))
    with pytest.raises(DeviceError, match="the graph in"):
        check_stored(tmp_path)
    require("cpu", 900, "it", "wait")
    with pytest.raises(DeviceError):
        require("cpu", 950, "it", "wait")  # with the margin


def test_a_graph_is_compared_with_its_device(monkeypatch):
    atom = ExtractedAtom("Ann knows Bob.", ("Ann", "Bob"))
    graph = build(
        [Passage("d:0", "d", "Ann knows Bob.", "")],
        [Extraction("d:0", ("Ann",), (), (atom,))],
        GraphConfig(synonym=False),
    )
    check_graph(graph, torch.device("cpu"))
    monkeypatch.setattr(memory, "free_memory", lambda _: (10, "the machine"))
    with pytest.raises(DeviceError, match=r"the graph \(.* nodes, .* edges\) .* take a device with more memory"):
        check_graph(graph, torch.device("cpu"))


def test_tiles_are_fitted_to_the_free_memory_on_the_cpu_too(monkeypatch, caplog):
    op = sample_graph()
    seeds = sample_seeds(op, 40)
    wide, _ = make("ppr", tol=1e-7)(op, seeds)
    assert fitting.tile_width(op, 40) == fitting.CPU_TILE
    monkeypatch.setattr(
        fitting, "free_memory", lambda _: (int(5 * op.num_nodes * fitting.BYTES / fitting.SHARE), "the job")
    )
    assert fitting.tile_width(op, 40) == 4
    assert "4 queries at once and not 32, as the job leaves" in caplog.text
    narrow, _ = make("ppr", tol=1e-7)(op, seeds)
    assert (wide - narrow).abs().sum(0).max() < 1e-6
    monkeypatch.setattr(fitting, "free_memory", lambda _: (0, "the job"))
    assert fitting.tile_width(op, 40) == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_auto_says_why_and_a_gpu_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    device, why = choose_device("auto")
    assert device.type == "cpu"
    assert why.startswith("auto: torch ")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert choose_device("auto")[1] == "auto: CUDA_VISIBLE_DEVICES='' hides all GPUs"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with pytest.raises(DeviceError, match="device: cpu"):
        choose_device("auto")
    assert choose_device("cpu") == (torch.device("cpu"), "as configured")

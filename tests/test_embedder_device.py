"""The device: chosen aloud, never silently another."""

from __future__ import annotations

import pytest
import torch

from aeg.backends.device import resolve_device
from aeg.errors import ConfigError, DeviceError

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


def test_cpu_is_always_there(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert resolve_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "", "CUDA", "cuda:0:1"])
def test_names_that_mean_nothing(name):
    with pytest.raises(ConfigError, match="expected auto, cpu, cuda, cuda:N or mps"):
        resolve_device(name)


@without_gpu
class TestWithoutGpu:
    @pytest.mark.parametrize("value", [None, "", "-1", "NoDevFiles"])
    def test_auto_is_the_cpu_and_says_why(self, monkeypatch, caplog, value):
        caplog.set_level("INFO")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if value is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert resolve_device("auto") == torch.device("cpu")
        assert "device auto: cpu (" in caplog.text
        assert ("hides all GPUs" in caplog.text) == (value is not None)

    @pytest.mark.parametrize("value", ["0", "7", "0,1", "GPU-1234"])
    def test_auto_refuses_when_a_gpu_was_named(self, monkeypatch, value):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        with pytest.raises(DeviceError, match=r"CUDA_VISIBLE_DEVICES='.+' names a GPU but .* device: cpu"):
            resolve_device("auto")

    @pytest.mark.parametrize("name", ["cuda", "cuda:3"])
    def test_a_gpu_that_is_not_there(self, monkeypatch, name):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        with pytest.raises(DeviceError, match=f"device '{name}': .* set device: cpu") as caught:
            resolve_device(name)
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="there is an Apple GPU")
def test_mps_that_is_not_there():
    with pytest.raises(DeviceError, match="device 'mps'"):
        resolve_device("mps")

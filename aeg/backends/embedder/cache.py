"""Vectors on disk by the hash of their text: append-only shards, one writer each, merged on reading."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import uuid
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from aeg.errors import DataError

logger = logging.getLogger(__name__)

_FORMAT = "aeg-vectors-1"


class _CorruptShard(Exception):
    """A shard is truncated, damaged, or of another format."""


@dataclass
class _Shard:
    """One safetensors file: keys uint8 [n, 32], vectors float32 [n, d], truncated uint8 [n]."""

    path: Path
    size: int
    offset: int
    checksum: int
    keys: np.ndarray = field(repr=False)
    truncated: np.ndarray = field(repr=False)
    verified: bool = False

    @classmethod
    def open(cls, path: Path, dim: int) -> _Shard:
        """Read a shard's header and keys; the vectors stay on disk.

        Raises:
            _CorruptShard: if the file is not a whole shard of `dim` dimensions.
        """
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                total = path.stat().st_size
                if not 0 < length <= total - 8:
                    raise _CorruptShard("no header")
                header = json.loads(file.read(length))
                meta = header["__metadata__"]
                rows = int(meta["rows"])
                spans = {name: header[name]["data_offsets"] for name in ("keys", "vectors", "truncated")}
                want = {"keys": rows * 32, "vectors": rows * dim * 4, "truncated": rows}
                if meta["format"] != _FORMAT or any(b - a != want[name] for name, (a, b) in spans.items()):
                    raise _CorruptShard("unexpected format or shape")
                base = 8 + length
                if total != base + max(end for _, end in spans.values()):
                    raise _CorruptShard("truncated")
                parts = {}
                for name in ("keys", "truncated"):
                    file.seek(base + spans[name][0])
                    parts[name] = np.frombuffer(file.read(want[name]), dtype=np.uint8)
            if zlib.crc32(parts["keys"].tobytes() + parts["truncated"].tobytes()) != int(meta["crc_keys"]):
                raise _CorruptShard("checksum of the keys differs")
        except (KeyError, ValueError, TypeError, OSError) as error:
            raise _CorruptShard(str(error)) from None
        keys = parts["keys"].reshape(rows, 32)
        offset = base + spans["vectors"][0]
        return cls(path, total, offset, int(meta["crc_vectors"]), keys, parts["truncated"].astype(bool))

    def vectors(self, dim: int) -> np.ndarray:
        """Return the vectors float32 [n, d], mapped from disk, checked once against their checksum.

        Raises:
            _CorruptShard: if they do not match, or the file has gone.
        """
        try:
            if self.path.stat().st_size != self.size:
                raise _CorruptShard("its size has changed")
            data = np.memmap(self.path, np.float32, "r", self.offset, (len(self.keys), dim))
        except (OSError, ValueError) as error:
            raise _CorruptShard(str(error)) from None
        if not self.verified and zlib.crc32(data.data) != self.checksum:
            raise _CorruptShard("checksum of the vectors differs")
        self.verified = True
        return data


class VectorCache:
    """Vectors of one encoder, by SHA-256 of the text, in a folder that many processes may share.

    Each process appends its own files (`{host}-{pid}-{n}-{token}.safetensors`, written under a temporary name
    and renamed) and reads everybody's. A damaged file is ignored, logged and listed in `corrupt`: its texts count
    as absent.

    Attributes:
        corrupt: names of the files that were ignored.

    Example:
        >>> import tempfile
        >>> cache = VectorCache(Path(tempfile.mkdtemp()), dim=2)
        >>> keys = np.arange(64, dtype=np.uint8).reshape(2, 32)
        >>> cache.append(keys[:1], np.ones((1, 2), np.float32), np.array([False]))
        >>> out = np.zeros((2, 2), np.float32)
        >>> cache.lookup(keys, out)[0].tolist(), out.tolist()
        ([True, False], [[1.0, 1.0], [0.0, 0.0]])
    """

    def __init__(self, folder: Path, dim: int) -> None:
        self.folder = folder
        self.dim = dim
        self.corrupt: set[str] = set()
        self._shards: list[_Shard] = []
        self._seen: set[str] = set()
        self._keys = np.empty(0, dtype="S32")  # sorted
        self._places = np.empty((0, 2), dtype=np.int32)  # shard and row of each sorted key
        self._written = 0
        host = re.sub(r"[^A-Za-z0-9_.]", "_", socket.gethostname())
        self._stem, self._token = f"{host}-{os.getpid()}", uuid.uuid4().hex[:8]

    def lookup(self, keys: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Write the known vectors into `out` and tell which those are.

        Args:
            keys: uint8 [n, 32].
            out: float32 [n, d]; rows of unknown keys are left as they are.

        Returns:
            bool [n], whether the vector is known; bool [n], whether its text was cut (False where unknown).
        """
        self._refresh()
        wanted = _as_strings(keys)
        while True:
            found, places = self._find(wanted)
            cut = np.zeros(len(wanted), dtype=bool)
            if self._gather(found, places, out, cut):
                return found, cut

    def append(self, keys: np.ndarray, vectors: np.ndarray, truncated: np.ndarray) -> None:
        """Write a new file with these vectors.

        Args:
            keys: uint8 [n, 32].
            vectors: float32 [n, d].
            truncated: bool [n], whether the text was cut.

        Raises:
            DataError: if the folder cannot be written.
        """
        from safetensors.numpy import save

        keys = np.ascontiguousarray(keys, dtype=np.uint8)
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        flags = np.ascontiguousarray(truncated, dtype=np.uint8)
        meta = {
            "format": _FORMAT,
            "rows": str(len(keys)),
            "crc_keys": str(zlib.crc32(keys.tobytes() + flags.tobytes())),
            "crc_vectors": str(zlib.crc32(vectors.data)),
        }
        data = save({"keys": keys, "vectors": vectors, "truncated": flags}, metadata=meta)
        name = f"{self._stem}-{self._written}-{self._token}.safetensors"
        temporary = self.folder / f".{name}.tmp"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.folder / name)
        except OSError as error:
            raise DataError(
                f"{self.folder}: the embedding cache cannot be written ({error}); set another cache_dir"
            ) from None
        self._written += 1

    def __len__(self) -> int:
        self._refresh()
        return len(self._keys)

    def _refresh(self) -> None:
        """Take up files that have appeared since the last reading."""
        if not self.folder.is_dir():
            return
        names = {path.name for path in self.folder.iterdir() if path.suffix == ".safetensors"}
        shards = []
        for name in sorted(names - self._seen):
            self._seen.add(name)
            try:
                shards.append(_Shard.open(self.folder / name, self.dim))
            except _CorruptShard as error:
                self._reject(name, error)
        self._add(shards)

    def _add(self, shards: list[_Shard]) -> None:
        """Merge shards' keys into the sorted index, all at once; a key that is known already keeps its first place."""
        if not shards:
            return
        sizes = [len(shard.keys) for shard in shards]
        fresh, first = np.unique(np.concatenate([_as_strings(shard.keys) for shard in shards]), return_index=True)
        of_shard = np.repeat(np.arange(len(shards)) + len(self._shards), sizes)
        rows = np.concatenate([np.arange(size) for size in sizes])
        places = np.stack([of_shard, rows], axis=1).astype(np.int32)[first]
        new = ~self._find(fresh)[0]
        at = np.searchsorted(self._keys, fresh[new])
        self._keys = np.insert(self._keys, at, fresh[new])
        self._places = np.insert(self._places, at, places[new], axis=0)
        self._shards += shards

    def _find(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not len(self._keys):
            return np.zeros(len(wanted), dtype=bool), np.zeros((len(wanted), 2), dtype=np.int32)
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return self._keys[at] == wanted, self._places[at]

    def _gather(self, found: np.ndarray, places: np.ndarray, out: np.ndarray, cut: np.ndarray) -> bool:
        """Fill `out` and `cut`; return False where a shard turned out damaged and was dropped."""
        rows = np.flatnonzero(found)
        rows = rows[np.argsort(places[rows, 0], kind="stable")]
        starts = np.flatnonzero(np.diff(places[rows, 0], prepend=-1))
        for group in np.split(rows, starts[1:]) if len(rows) else []:
            shard = self._shards[int(places[group[0], 0])]
            try:
                out[group] = shard.vectors(self.dim)[places[group, 1]]
            except _CorruptShard as error:
                self._reject(shard.path.name, error)
                self._rebuild([other for other in self._shards if other is not shard])
                return False
            cut[group] = shard.truncated[places[group, 1]]
        return True

    def _rebuild(self, shards: list[_Shard]) -> None:
        self._shards, self._keys = [], np.empty(0, dtype="S32")
        self._places = np.empty((0, 2), dtype=np.int32)
        self._add(shards)

    def _reject(self, name: str, error: Exception) -> None:
        self.corrupt.add(name)
        logger.warning("%s: damaged, ignored (%s); its texts are encoded again", self.folder / name, error)


def _as_strings(keys: np.ndarray) -> np.ndarray:
    """View uint8 [n, 32] as n byte strings, which numpy can sort and search."""
    return np.ascontiguousarray(keys).view("S32").reshape(-1)

"""Cheap, deterministic methods to index with, in a module of their own: their code is part of an index's fingerprint.

An extractor that takes capitalised words for entities, and an encoder whose vectors are sums of hashed trigrams, so
that similar names have similar vectors.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from aeg.backends.embedder.base import EMBEDDERS, Embedder, Encoder
from aeg.core.records import ExtractedAtom, Extraction, Passage
from aeg.extraction.base import EXTRACTORS, Extractor

DIM = 24
_NAME = re.compile(r"[A-Z]\w*(?: [A-Z]\w*)*")


@EXTRACTORS.register("capitals")
@dataclass(frozen=True)
class Capitals(Extractor):
    """Sentences are atoms, runs of capitalised words entities, related to the next one by the words between."""

    def extract(self, passages, root=None, workers=0, llm=None) -> Iterator[Extraction]:
        for passage in passages:
            yield extracted(passage)


def extracted(passage: Passage) -> Extraction:
    atoms, triples = [], []
    for sentence in filter(None, map(str.strip, passage.text.split("."))):
        found = [(m.group(), *m.span()) for m in _NAME.finditer(sentence)]
        atoms.append(ExtractedAtom(sentence, tuple(dict.fromkeys(name for name, _, _ in found))))
        pairs = pairwise(found)
        triples += [(a[0], sentence[a[2] : b[1]].strip(), b[0]) for a, b in pairs]
    names = tuple(dict.fromkeys(name for atom in atoms for name in atom.entities))
    return Extraction(passage.id, names, tuple(triples), tuple(atoms), "ok" if names else "no_entities")


@cache
def vector(text: str) -> np.ndarray:
    """A unit vector that depends on the text alone."""
    padded = f"  {text} "
    digests = [hashlib.sha256(padded[at : at + 3].encode()).digest()[:DIM] for at in range(len(padded) - 2)]
    whole = np.sum([np.frombuffer(digest, dtype=np.uint8).astype(np.float64) - 127.5 for digest in digests], axis=0)
    return (whole / np.linalg.norm(whole)).astype(np.float32)


class HashedEncoder(Encoder):
    """Its vectors do not depend on what a text is encoded with."""

    def token_spans(self, texts):
        return [[match.span() for match in re.finditer(r"\S+", text)] for text in texts]

    def _encode_missing(self, texts, missing):
        rows = np.flatnonzero(missing)
        yield rows, np.stack([vector(texts[row]) for row in rows]), np.zeros(len(rows), dtype=bool)


@EMBEDDERS.register("hashed")
@dataclass(frozen=True)
class Hashed(Embedder):
    def load(self, device="cpu", cache_dir=None) -> HashedEncoder:
        return HashedEncoder("hashed-1", DIM, 512, {"model": "hashed"}, cache_dir)

"""What a graph of other passages tells of this one: vectors by text, pairs of near entities by key and name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aeg.backends.nearest.pairs import Known
from aeg.core.tables import AtomTable, EntityTable


def embedded(texts: Sequence[str], encoder: Any, known: AtomTable | EntityTable | None) -> Tensor:
    """Return the unit vectors of texts, float32 [n, d]: those of `known` where it has the text, else encoded.

    Args:
        texts: canonical texts of atoms, or names of entities.
        encoder: an object with `encode(texts) -> Tensor [n, d]`.
        known: the table of the same kind of an earlier graph; None encodes all.
    """
    if known is None or known.embeddings is None:
        vectors: Tensor = encoder.encode(list(texts))
        return vectors
    before = known.texts if isinstance(known, AtomTable) else known.names
    place = {text: row for row, text in enumerate(before)}
    rows = torch.tensor([place.get(text, -1) for text in texts], dtype=torch.int64)
    new = (rows < 0).nonzero().squeeze(1)
    vectors = known.embeddings[rows.clamp(min=0)] if len(known) else torch.empty(len(texts), known.embeddings.shape[1])
    if len(new):
        vectors[new] = encoder.encode([texts[row] for row in new.tolist()])
    return vectors


def known_pairs(before: EntityTable, pairs: Tensor, cosine: Tensor, entities: EntityTable) -> Known | None:
    """Return the pairs of entities that are in both graphs under the same name, by rows of the new one.

    Args:
        before: entities of the earlier graph.
        pairs: int64 [2, m], all its pairs at or above the threshold, smaller row first.
        cosine: float32 [m], not a number where it is to be computed again.
        entities: those of the new graph.

    Returns:
        None where searching anew is no more work.
    """
    row = {key: at for at, key in enumerate(entities.keys)}
    moved = np.fromiter((row.get(key, -1) for key in before.keys), dtype=np.int64, count=len(before))
    at = np.flatnonzero(moved >= 0)
    old, new = before.names, entities.names
    renamed = [i for i, j in zip(at.tolist(), moved[at].tolist(), strict=True) if old[i] != new[j]]
    moved[renamed] = -1
    fresh = np.setdiff1d(np.arange(len(entities)), moved[moved >= 0])
    if 2 * len(fresh) > len(entities):
        return None
    ends = torch.from_numpy(moved)[pairs]
    there = (ends >= 0).all(dim=0)
    left, right = ends[:, there]
    order = (left * len(entities) + right).argsort()
    return Known(left[order], right[order], cosine[there][order], torch.from_numpy(fresh))

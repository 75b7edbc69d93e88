"""Token ids of many texts in one flat table, and the batches that they are encoded in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_CHUNK = 4096


class TokenTable:
    """Token ids of texts, special tokens included, cut at a maximum length.

    Attributes:
        lengths: tokens of each text after cutting, int64 [n], at least 1.
        truncated: whether a text was cut, bool [n].
    """

    def __init__(self, tokenizer: Any, texts: Sequence[str], max_length: int, pad_id: int) -> None:
        """Tokenize `texts` with a `tokenizers.Tokenizer`; a text without any token becomes one pad token."""
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length)
        pieces: list[np.ndarray] = []
        cut: list[bool] = []
        for start in range(0, len(texts), _CHUNK):
            for encoding in tokenizer.encode_batch_fast(list(texts[start : start + _CHUNK])):
                pieces.append(np.asarray(encoding.ids or [pad_id], dtype=np.int32))
                cut.append(bool(encoding.overflowing))
        self.lengths = np.fromiter((len(piece) for piece in pieces), dtype=np.int64, count=len(pieces))
        self.truncated = np.asarray(cut, dtype=bool)
        self._ids = np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int32)
        self._starts = np.cumsum(self.lengths) - self.lengths

    def padded(self, rows: np.ndarray, width: int, pad_id: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of some texts, padded on the right to `width`, and the mask of real tokens.

        Returns:
            int64 [b, width] and bool [b, width].
        """
        mask = np.arange(width)[None, :] < self.lengths[rows][:, None]
        ids = np.full((len(rows), width), pad_id, dtype=np.int64)
        places = self._starts[rows][:, None] + np.arange(width)[None, :]
        ids[mask] = self._ids[places[mask]]
        return ids, mask


def padded_length(lengths: np.ndarray, multiple: int) -> np.ndarray:
    """Return lengths rounded up to a multiple: what a text is padded to, whatever it is batched with.

    Example:
        >>> padded_length(np.array([3, 8, 9]), 8).tolist()
        [8, 8, 16]
    """
    return -(-lengths // multiple) * multiple


def plan_batches(lengths: np.ndarray, order: Sequence[Any], batch_size: int, batch_tokens: int) -> list[np.ndarray]:
    """Return the rows of each batch: texts of one padded length, sorted by `order` within it.

    Only texts of the same (padded) length share a batch, so nothing is padded further and a vector does not
    depend on what a text is batched with, as far as the matrix product's kernel does not. The batches depend on
    the set of texts alone, not on its order.

    Args:
        lengths: padded tokens of each text, int64 [n].
        order: a distinct, sortable key of each text.
        batch_size: most texts in a batch.
        batch_tokens: most tokens in a batch; a longer text is a batch by itself.

    Example:
        >>> [rows.tolist() for rows in plan_batches(np.array([4, 2, 2, 4, 2]), "edcba", 2, 100)]
        [[4, 2], [1], [3, 0]]
    """
    rows = sorted(range(len(lengths)), key=lambda row: (lengths[row], order[row]))
    batches: list[np.ndarray] = []
    start = 0
    while start < len(rows):
        length = lengths[rows[start]]
        most = max(1, min(batch_size, batch_tokens // int(length)))
        stop = start
        while stop < len(rows) and stop - start < most and lengths[rows[stop]] == length:
            stop += 1
        batches.append(np.asarray(rows[start:stop], dtype=np.int64))
        start = stop
    return batches


def plan_missing(
    lengths: np.ndarray, order: Sequence[Any], missing: np.ndarray, batch_size: int, batch_tokens: int
) -> list[np.ndarray]:
    """Return batches that cover the missing texts: those of the full list where a whole batch is missing.

    So a resumed list is encoded in the very batches of an uninterrupted one; texts missing from batches that are
    partly known are batched among themselves.
    """
    whole, left = [], []
    for rows in plan_batches(lengths, order, batch_size, batch_tokens):
        absent = rows[missing[rows]]
        if len(absent) == len(rows):
            whole.append(rows)
        else:
            left.extend(absent.tolist())
    rest = np.asarray(left, dtype=np.int64)
    again = plan_batches(lengths[rest], [order[row] for row in left], batch_size, batch_tokens)
    return whole + [rest[rows] for rows in again]

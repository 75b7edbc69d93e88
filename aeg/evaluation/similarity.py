"""Similarity of an answer and its reference by the judge encoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from aeg.errors import DataError
from aeg.evaluation.evidence import Encode

FloatArray = npt.NDArray[np.float64]


def similarities(pairs: Sequence[tuple[str, str]], encode: Encode, shifted: bool = False) -> FloatArray:
    r"""Return SS = cos(e(answer), e(reference)) of each pair, or (cos + 1) / 2 where `shifted`.

    Args:
        pairs: (answer, reference); each distinct text is encoded once.
        encode: the judge encoder e; unit vectors of texts.
        shifted: as GraphRAG-Bench's code has it.

    Returns:
        float64 [pairs] in [-1, 1], or in [0, 1] where `shifted`.

    Raises:
        DataError: if the encoder's vectors are not finite unit vectors, one a text.

    Source: eq. 14.

    Example:
        >>> import torch
        >>> encode = lambda texts: torch.tensor([[1.0, 0.0] if text == "yes" else [0.6, 0.8] for text in texts])
        >>> similarities([("yes", "aye"), ("aye", "aye")], encode).round(3).tolist()
        [0.6, 1.0]
    """
    if not pairs:
        return np.zeros(0)
    rows = {text: row for row, text in enumerate(dict.fromkeys(text for pair in pairs for text in pair))}
    vectors = encode(list(rows)).detach().double().cpu().numpy()
    if vectors.ndim != 2 or len(vectors) != len(rows):
        raise DataError(f"encode: got shape {list(vectors.shape)}, expected [{len(rows)}, dimensions]")
    off = np.flatnonzero(~(np.abs(np.linalg.norm(vectors, axis=1) - 1) < 1e-2))
    if len(off):
        raise DataError(
            f"encode: {len(off)} of {len(rows)} vectors are not finite unit vectors, the first for "
            f"{list(rows)[off[0]]!r}; normalise them"
        )
    left, right = (vectors[[rows[pair[side]] for pair in pairs]] for side in (0, 1))
    cosines = np.clip((left * right).sum(axis=1), -1.0, 1.0)
    return (cosines + 1) / 2 if shifted else cosines

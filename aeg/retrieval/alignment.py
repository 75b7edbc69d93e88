"""Where in its passage an atom comes from: verbatim, else the sentences that it aligns to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from aeg.core.matching import verbatim_span
from aeg.core.text import sentence_spans

Span = tuple[int, int]
_ROUNDING = 1e-6
_BLOCK = 2048  # passages whose sentences are held at once


def align(
    atoms: Sequence[str],
    passages: Sequence[str],
    encoder: Any | None = None,
    threshold: float = 0.7,
    sentences: int = 3,
) -> list[tuple[Span, float] | None]:
    """Return the span of each atom in its passage, half open, and its cosine; None where there is none.

    A verbatim atom has its own span and cosine 1. Any other has the span of the consecutive sentences, at most
    `sentences` of them, whose cosine to it is largest, where that is at least `threshold`; among equals the
    fewest, then the first. The vector of several sentences is the direction of the sum of theirs, so that a passage
    costs one vector a sentence.

    Args:
        atoms: texts of atoms.
        passages: the text that each of them comes from, in the same order.
        encoder: an object with `encode(texts) -> Tensor [n, d]` of unit rows; without one only verbatim atoms have
            a span.
        threshold: least cosine.
        sentences: most consecutive sentences.

    Source:
        DESIGN.md, "Evidence".

    Example:
        >>> align(["Ann owns Bix.", "Bix is Ann's."], ["So. Ann  owns Bix."] * 2)
        [((4, 18), 1.0), None]
    """
    found: list[tuple[Span, float] | None] = [None] * len(atoms)
    rest: dict[str, list[int]] = {}
    for at, (atom, passage) in enumerate(zip(atoms, passages, strict=True)):
        span = verbatim_span(passage, atom)
        if span is not None:
            found[at] = (span, 1.0)
        elif atom.strip():
            rest.setdefault(passage, []).append(at)
    if encoder is None:
        return found
    texts = sorted(rest)
    for start in range(0, len(texts), _BLOCK):
        some = {text: rest[text] for text in texts[start : start + _BLOCK]}
        _align_block(some, atoms, encoder, threshold, sentences, found)
    return found


def _align_block(
    rest: dict[str, list[int]],
    atoms: Sequence[str],
    encoder: Any,
    threshold: float,
    longest: int,
    found: list[tuple[Span, float] | None],
) -> None:
    of_passage = {passage: sentence_spans(passage) for passage in rest}
    texts = [passage[a:b] for passage, spans in of_passage.items() for a, b in spans]
    if not texts:
        return
    asked = [at for rows in rest.values() for at in rows]
    vectors = encoder.encode([*texts, *(atoms[at] for at in asked)])
    low, atom = 0, len(texts)
    for passage, rows in rest.items():
        spans = of_passage[passage]
        if spans:
            runs, means = _runs(vectors[low : low + len(spans)], longest)
            cosines = vectors[atom : atom + len(rows)] @ means.T  # [atoms, runs]
            best = cosines.max(dim=1, keepdim=True).values
            chosen = (cosines >= best - _ROUNDING).to(torch.uint8).argmax(dim=1).tolist()
            for at, run, cosine in zip(rows, chosen, best.squeeze(1).tolist(), strict=True):
                if cosine >= threshold - _ROUNDING:
                    first, last = runs[run]
                    found[at] = ((spans[first][0], spans[last][1]), min(cosine, 1.0))
        low, atom = low + len(spans), atom + len(rows)


def _runs(vectors: Tensor, longest: int) -> tuple[list[tuple[int, int]], Tensor]:
    """First and last sentence of all runs of consecutive sentences, shorter ones first, and their mean directions."""
    count = len(vectors)
    lengths = range(1, min(longest, count) + 1)
    runs = [(first, first + length - 1) for length in lengths for first in range(count - length + 1)]
    sums = [vectors.unfold(0, length, 1).sum(dim=2) for length in lengths]
    return runs, torch.nn.functional.normalize(torch.cat(sums), dim=1)

"""Evidence measures without an LLM: how much of the gold statements the retrieved text holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from aeg.core.idf import Idf
from aeg.core.text import content_words
from aeg.errors import DataError
from aeg.evaluation.reading import IntArray, Reader, TokenSpans

Encode = Callable[[list[str]], torch.Tensor]
"""Unit vectors of texts, [texts, dimensions], by the judge encoder."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class EvidenceScores:
    """Evidence measures of one method, by token budget.

    Attributes:
        coverage: by budget, float64 [queries] in [0, 1], NaN for a query without a scored statement.
        similarity: the same, cosines cut off at 0.
        unfilled: by budget, how many queries' retrieved text ended before the budget did.
        statements: gold statements scored.
        skipped: gold statements without a content word, left out of both measures.
    """

    coverage: dict[int, FloatArray]
    similarity: dict[int, FloatArray]
    unfilled: dict[int, int]
    statements: int
    skipped: int

    def metrics(self) -> dict[str, FloatArray]:
        """Return the values by metric name, `evidence_coverage@B` and `evidence_similarity@B`."""
        named = {f"evidence_coverage@{budget}": values for budget, values in self.coverage.items()}
        return named | {f"evidence_similarity@{budget}": values for budget, values in self.similarity.items()}


@dataclass
class _Statements:
    """Gold statements of all queries: distinct texts, and which of them each query has."""

    texts: list[str] = field(default_factory=list)
    weights: list[dict[str, float]] = field(default_factory=list)  # by stem: idf times occurrences
    of_query: list[list[int]] = field(default_factory=list)
    skipped: int = 0


@dataclass
class _Cell:
    """One method, query and budget: the sentences read, each statement's largest cosine so far."""

    sentences: IntArray
    best: FloatArray


class EvidenceMeasure:
    r"""Scores ranked texts against gold statements at equal token budgets.

    The text read at budget B is the first B tokens (of the judge's tokenizer) of the ranked texts one after
    the other; the last is cut where the budget ends. No sentence or word spans two texts. With C(g) the
    stemmed content words of a statement g, each as often as it stands there, T_B those that stand wholly in
    the text read, and U_B its sentences:

        evidence_coverage@B   = mean over g of  Σ_{w ∈ C(g), w ∈ T_B} idf(w) / Σ_{w ∈ C(g)} idf(w)
        evidence_similarity@B = mean over g of  max(0, max_{u ∈ U_B} cos(g, u))

    `Idf` gives idf, over the corpus's passages, so that neither measure depends on the extraction. A
    statement without a content word is skipped and counted; a query with no other has NaN. No text at all
    scores 0.

    Args:
        passages: texts of the corpus's passages.
        encode: the judge encoder, the same for all methods that are compared.
        token_spans: the judge's tokenizer.
        budgets: token budgets B.
        partial: cut the text in which the budget ends; else leave it out, unless it is the first.
        tile: sentences whose vectors are held at a time.

    Source: DESIGN.md, "Evidence measures without an LLM".

    Example:
        >>> import re
        >>> words = lambda texts: [[match.span() for match in re.finditer(r"\w+", text)] for text in texts]
        >>> letters = lambda texts: torch.nn.functional.normalize(
        ...     torch.tensor([[float(text.count(c)) for c in "abcdefghij"] for text in texts]) + 1e-6, dim=1)
        >>> measure = EvidenceMeasure(["Ann owns a dog.", "Bix barks."], letters, words, budgets=(4, 8))
        >>> ranked = ["Ann owns a dog.", "Bix barks."]
        >>> scores = measure.score([["Ann's dog barks."]], {"dense": [ranked]})["dense"]
        >>> [round(float(scores.coverage[budget][0]), 3) for budget in (4, 8)], scores.unfilled
        ([0.667, 1.0], {4: 0, 8: 1})
    """

    def __init__(
        self,
        passages: Iterable[str],
        encode: Encode,
        token_spans: TokenSpans,
        budgets: Sequence[int] = (256, 512, 1024),
        partial: bool = True,
        tile: int = 16384,
    ) -> None:
        if not budgets or min(*budgets, tile) < 1:
            raise DataError(f"budgets, tile: got {list(budgets)}, {tile}; expected numbers of at least 1")

        self._idf = Idf.of(passages)
        self._encode = encode
        self._token_spans = token_spans
        self._partial = partial
        self._budgets = tuple(dict.fromkeys(budgets))
        self._tile = tile

    def score(
        self, statements: Sequence[Sequence[str]], retrieved: Mapping[str, Sequence[Sequence[str]]]
    ) -> dict[str, EvidenceScores]:
        """Return the scores of each method.

        Args:
            statements: for each query, its gold statements.
            retrieved: for each method, for each query, its texts (atoms or passages), best first. Give as
                many as the largest budget needs: what ends earlier is scored as it is and counted as unfilled.

        Raises:
            DataError: if a method has another number of queries, or the encoder's vectors are not finite
                unit rows.
        """
        for method, ranked in retrieved.items():
            if len(ranked) != len(statements):
                raise DataError(f"{method}: got texts for {len(ranked)} queries, expected {len(statements)}")
        gold = self._gold(statements)
        reader = Reader(self._token_spans)
        results: dict[str, EvidenceScores] = {}
        grid: dict[tuple[str, int], list[_Cell]] = {}
        for method, ranked in retrieved.items():
            reader.tokenise(text for texts in ranked for text in texts)
            results[method] = self._read(reader, method, ranked, gold, grid)
        self._compare(gold, list(reader.sentences.numbers), grid)
        for (method, budget), cells in grid.items():
            results[method].similarity[budget] = np.array([_mean(cell.best) for cell in cells])
        return results

    def _gold(self, statements: Sequence[Sequence[str]]) -> _Statements:
        gold = _Statements()
        rows: dict[str, int | None] = {}
        for texts in statements:
            for text in texts:
                if text not in rows:
                    stems = Counter(word.stem for word in content_words(text))
                    rows[text] = len(gold.texts) if stems else None
                    if stems:
                        gold.texts.append(text)
                        gold.weights.append({stem: self._idf(stem) * times for stem, times in stems.items()})
            found = [rows[text] for text in texts]
            gold.of_query.append([row for row in found if row is not None])
            gold.skipped += sum(row is None for row in found)
        return gold

    def _read(
        self,
        reader: Reader,
        method: str,
        ranked: Sequence[Sequence[str]],
        gold: _Statements,
        grid: dict[tuple[str, int], list[_Cell]],
    ) -> EvidenceScores:
        coverage = {budget: np.full(len(ranked), np.nan) for budget in self._budgets}
        unfilled = dict.fromkeys(self._budgets, 0)
        numbers = reader.stems.numbers
        for budget in self._budgets:
            cells = grid.setdefault((method, budget), [])
            for query, (texts, rows) in enumerate(zip(ranked, gold.of_query, strict=True)):
                portions, enough = reader.within(texts, budget, self._partial)
                unfilled[budget] += not enough
                seen: set[int] = set()
                sentences: set[int] = set()
                for portion in portions if rows else ():
                    seen.update(reader.stems_in(portion).tolist())
                    sentences.update(reader.sentences_in(portion))
                coverage[budget][query] = _mean([_share(gold.weights[row], numbers, seen) for row in rows])
                cells.append(_Cell(np.array(sorted(sentences), dtype=np.int32), np.zeros(len(rows))))
        scored = sum(len(rows) for rows in gold.of_query)
        return EvidenceScores(coverage, {}, unfilled, statements=scored, skipped=gold.skipped)

    def _compare(self, gold: _Statements, sentences: list[str], grid: dict[tuple[str, int], list[_Cell]]) -> None:
        """Fill in the cells' largest cosines, encoding each distinct sentence once, a tile at a time."""
        if not gold.texts:
            return
        statements = self._vectors(gold.texts)
        for low in range(0, len(sentences), self._tile):
            high = min(low + self._tile, len(sentences))
            vectors = self._vectors(sentences[low:high])
            for query, rows in enumerate(gold.of_query):
                cells = [row[query] for row in grid.values()]
                picked = [cell.sentences[slice(*np.searchsorted(cell.sentences, (low, high)))] for cell in cells]
                union = np.unique(np.concatenate(picked)) if rows and picked else np.zeros(0, dtype=np.int32)
                if not len(union):
                    continue
                # Small products: numpy, one transfer a tile, beats a launch and a sync a query.
                cosines = np.minimum(statements[rows] @ vectors[union - low].T, 1.0)  # [statements, union]
                for cell, ids in zip(cells, picked, strict=True):
                    if len(ids):
                        best = cosines[:, np.searchsorted(union, ids)].max(axis=1)
                        np.maximum(cell.best, best, out=cell.best)

    def _vectors(self, texts: list[str]) -> npt.NDArray[np.float32]:
        vectors = self._encode(texts).detach().float()
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise DataError(f"encode: got shape {list(vectors.shape)}, expected [{len(texts)}, dimensions]")
        off = ((vectors.norm(dim=1) - 1).abs() < 1e-2).logical_not().nonzero()
        if len(off):
            raise DataError(
                f"encode: {len(off)} of {len(texts)} vectors are not finite unit vectors, the first for "
                f"{texts[int(off[0])]!r}; normalise them"
            )
        return vectors.cpu().numpy()


def _mean(values: Sequence[float] | FloatArray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _share(weights: dict[str, float], numbers: dict[str, int], seen: set[int]) -> float:
    found = sum(weight for stem, weight in weights.items() if numbers.get(stem, -1) in seen)
    return found / sum(weights.values())

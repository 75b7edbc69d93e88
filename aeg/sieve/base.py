"""The protocol of sieves, what they judge and what they return, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from aeg.core.records import Query
from aeg.core.sources import Sourced
from aeg.core.tables import AtomTable
from aeg.errors import DataError
from aeg.registry import Registry

if TYPE_CHECKING:
    from aeg.backends.llm.asker import Asker


@dataclass(frozen=True)
class Candidate:
    """An atom (or passage) that was found for a question and waits to be judged.

    Attributes:
        row: its row among the atoms.
        atom_id: the atom's id.
        text: what is judged.
        score: its score in retrieval.
        similarity: cosine to the *original* question, whatever sub-question brought it; None where not computed.
    """

    row: int
    atom_id: str
    text: str
    score: float
    similarity: float | None = None


@dataclass(frozen=True)
class Sieved:
    """What is left of one question's candidates.

    Attributes:
        kept: rows, in the candidates' order; empty where nothing is relevant.
        fallback: some or all candidates stay because they could not be judged.
        failure: kind of the failure behind `fallback`, empty where there was none.
        counts: what happened on the way, e.g. `invented_ids`, `split`, `below_similarity`, `truncated`.
    """

    kept: tuple[int, ...]
    fallback: bool = False
    failure: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Sieve(Sourced, ABC):
    """Decides which candidates are needed for a question (paper, section 3.4)."""

    @abstractmethod
    def sieve(
        self,
        questions: Sequence[Query],
        candidates: Sequence[Sequence[Candidate]],
        llm: Asker | None = None,
        encoder: Any | None = None,
        device: torch.device | str = "cpu",
    ) -> list[Sieved]:
        """Return what is kept of each question's candidates, judged against the original question.

        Args:
            questions: the original questions.
            candidates: of each question, its sub-questions' candidates included, best first, no row twice.
            llm: the model of the method's `role`; ignored by methods that need none.
            encoder: an object with `encode(texts, kind="passage") -> Tensor [n, d]` of unit rows; ignored by
                methods that need none.
            device: where a model of the method's own runs.

        Raises:
            ConfigError: if the method needs a model or an encoder and has none.
            DataError: if questions and candidates do not match one to one.
        """


SIEVES: Registry[Sieve] = Registry("sieve")


def check_pairs(questions: Sequence[Query], candidates: Sequence[Sequence[Candidate]]) -> None:
    """Raise a `DataError` unless there is one list of candidates a question."""
    if len(questions) != len(candidates):
        raise DataError(f"sieve: got candidates of {len(candidates)} questions, expected {len(questions)}")


def minimum(found: Sequence[Candidate], kept: Sequence[int], least: int, counts: Counter[str]) -> Sieved:
    """Return the candidates at the positions `kept`, filled up to `least` with the best of the others."""
    positions = set(kept)
    for at in range(len(found)):
        if len(positions) >= least:
            break
        if at not in positions:
            positions.add(at)
            counts["kept_by_minimum"] += 1
    return Sieved(tuple(found[at].row for at in sorted(positions)), counts=dict(counts))


def candidates(
    rows: Tensor, scores: Tensor, atoms: AtomTable, questions: Tensor | None = None
) -> list[list[Candidate]]:
    """Return each question's ranked atoms as candidates.

    Args:
        rows: int64 [questions, k], best first; −1 where there is none.
        scores: [questions, k].
        atoms: the graph's atoms.
        questions: [questions, d], unit vectors of the original questions; without them, or without embeddings of
            the atoms, candidates have no similarity.

    Example:
        >>> table = AtomTable(["a0", "a1"], ["Ann owns Bix.", "Bix barks."], None, *[torch.zeros(0)] * 3)
        >>> [c.atom_id for c in candidates(torch.tensor([[1, -1]]), torch.tensor([[0.5, 0.0]]), table)[0]]
        ['a1']
    """
    similarity: Tensor | None = None
    if questions is not None and atoms.embeddings is not None:
        found = atoms.embeddings[rows.cpu().clamp(min=0)]
        similarity = torch.einsum("qd,qkd->qk", questions.to(found), found).clamp(-1, 1)
    lists = []
    for question, (of_row, of_score) in enumerate(zip(rows.tolist(), scores.tolist(), strict=True)):
        cosines = [None] * len(of_row) if similarity is None else similarity[question].tolist()
        lists.append(
            [
                Candidate(row, atoms.ids[row], atoms.texts[row], score, cosine)
                for row, score, cosine in zip(of_row, of_score, cosines, strict=True)
                if row >= 0
            ]
        )
    return lists


def summary(sieved: Iterable[Sieved]) -> Counter[str]:
    """Return what a manifest reports: questions, those with a fall-back or nothing kept, and all counts added up.

    Example:
        >>> sorted(summary([Sieved((1, 2), counts={"invented_ids": 1}), Sieved((), True, "timeout")]).items())
        [('empty', 1), ('fallback', 1), ('fallback_timeout', 1), ('invented_ids', 1), ('kept', 2), ('questions', 2)]
    """
    total: Counter[str] = Counter()
    for item in sieved:
        total["questions"] += 1
        total["kept"] += len(item.kept)
        total["empty"] += not item.kept
        total["fallback"] += item.fallback
        if item.fallback:
            total[f"fallback_{item.failure}"] += 1
        total.update(item.counts)
    return total

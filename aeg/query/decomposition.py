"""From questions to effective queries (paper, section 3.2, eq. 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aeg.config.ranges import param
from aeg.core.files import BUILTIN
from aeg.core.keys import atom_text
from aeg.core.records import EffectiveQuery, Query
from aeg.query.analysis import locate, read_analyses
from aeg.query.base import DECOMPOSITIONS, Decomposition

if TYPE_CHECKING:
    from aeg.backends.llm import Asker


@DECOMPOSITIONS.register("none")
@dataclass(frozen=True)
class NoDecomposition(Decomposition):
    """Takes each question as its only effective query.

    Example:
        >>> [e.text for e in NoDecomposition().decompose([Query("1", "Who leads Tarn Lab?")])]
        ['Who leads Tarn Lab?']
    """

    def decompose(
        self, queries: Sequence[Query], root: Path | None = None, llm: Asker | None = None
    ) -> list[EffectiveQuery]:
        """Return one effective query a question, in order."""
        return [EffectiveQuery(row, query.question) for row, query in enumerate(queries)]


@DECOMPOSITIONS.register("recorded")
@dataclass(frozen=True)
class RecordedDecomposition(Decomposition):
    """Takes complexities and sub-questions from a file, as a language model gave them.

    The effective queries of q are {q} ∪ {q⁽¹⁾ … q⁽ᵐ⁾} where c(q) ≥ τ_c, else {q}; equal texts (white
    space aside) count once.

    Attributes:
        path: JSON lines with `id`, `complexity`, `entities`, `sub_questions`, relative to `data_root`, or
            `builtin:sample`.
        complexity_threshold: τ_c.
        max_sub_questions: m_max; further sub-questions are cut and counted.
        missing: a question without a line is an `error`, or has `none` (no sub-questions).

    Source: section 3.2, eq. 4; Table 5 for the defaults.
    """

    path: str = BUILTIN
    complexity_threshold: float = param(6.5, ge=0, le=10)
    max_sub_questions: int = param(3, ge=0)
    missing: str = param("error", choices=("error", "none"))

    def decompose(
        self, queries: Sequence[Query], root: Path | None = None, llm: Asker | None = None
    ) -> list[EffectiveQuery]:
        """Return each question followed by its sub-questions, in question order.

        Raises:
            DataError: if the file is missing or malformed, or (with `missing: error`) lacks a question.
        """
        analyses = read_analyses(locate(root, self.path)).of(queries, self.missing)
        effective = []
        for row, (query, analysis) in enumerate(zip(queries, analyses, strict=True)):
            complex_enough = analysis.complexity >= self.complexity_threshold
            subs = distinct_questions(query.question, analysis.sub_questions) if complex_enough else []
            effective.append(EffectiveQuery(row, query.question))
            effective.extend(EffectiveQuery(row, text) for text in subs[: self.max_sub_questions])
        return effective

    def counts(self, queries: Sequence[Query], root: Path | None = None) -> Counter[str]:
        """Return what the manifest reports of the file and the decomposition.

        Returns:
            `decomposed` questions, `sub_questions` made, `sub_questions_cut` by `max_sub_questions`,
            `sub_questions_repeated`, `missing_questions`, `unknown_ids` and ignored fields.
        """
        file = read_analyses(locate(root, self.path))
        found = file.coverage(queries)
        for query, analysis in zip(queries, file.of(queries, self.missing), strict=True):
            if analysis.complexity >= self.complexity_threshold:
                distinct = len(distinct_questions(query.question, analysis.sub_questions))
                kept = min(distinct, self.max_sub_questions)
                found["decomposed"] += kept > 0
                found["sub_questions"] += kept
                found["sub_questions_cut"] += distinct - kept
                found["sub_questions_repeated"] += len(analysis.sub_questions) - distinct
        return found

    def source_files(self, root: Path | None) -> list[Path]:
        """Return the file of analyses."""
        return [locate(root, self.path)]


def distinct_questions(question: str, sub_questions: Sequence[str]) -> list[str]:
    """Return the sub-questions that differ from the question and from one another, white space aside.

    Example:
        >>> distinct_questions("Who leads Tarn Lab?", ["Who  leads Tarn Lab?", "Where is it?", "Where is it? "])
        ['Where is it?']
    """
    seen = {atom_text(question)}
    kept = []
    for text in sub_questions:
        key = atom_text(text)
        if key not in seen:
            seen.add(key)
            kept.append(text)
    return kept

"""No answers: an experiment that ends with the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aeg.answer.base import ANSWERS, Answered, AnswerMethod, check_pairs
from aeg.core.evidence import Evidence
from aeg.core.records import Query

if TYPE_CHECKING:
    from aeg.backends.llm.asker import Asker


@ANSWERS.register("none")
@dataclass(frozen=True)
class NoAnswer(AnswerMethod):
    """Answers nothing.

    Example:
        >>> NoAnswer().answer([Query("1", "Who owns Bix?")], [Evidence()])[0].text
        ''
    """

    def answer(
        self, questions: Sequence[Query], evidence: Sequence[Evidence], llm: Asker | None = None
    ) -> list[Answered]:
        """Return an empty answer a question; see `AnswerMethod.answer`."""
        check_pairs(questions, evidence)
        return [Answered("", no_evidence=not found.units) for found in evidence]

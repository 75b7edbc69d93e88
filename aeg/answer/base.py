"""The protocol of answer methods, what they return, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aeg.core.evidence import Evidence
from aeg.core.records import Query
from aeg.core.sources import Sourced
from aeg.errors import DataError
from aeg.registry import Registry

if TYPE_CHECKING:
    from aeg.backends.llm.asker import Asker


@dataclass(frozen=True)
class Answered:
    """The answer to one question.

    Attributes:
        text: what is evaluated, citation markers taken out; empty where there is no answer.
        cited: numbers of the evidence's units that the answer cites (the first unit is 1), ascending.
        reasoning: how the answer was reached, where the method says so; not evaluated.
        failure: kind of the failure behind an empty answer, empty where there was none.
        no_evidence: there was no unit to answer from.
        abstained: the answer says that the evidence does not hold it.
        dropped_units: units left out because the model's context was too short for them.
        invented: cited numbers that no unit has; refused.
    """

    text: str
    cited: tuple[int, ...] = ()
    reasoning: str = ""
    failure: str = ""
    no_evidence: bool = False
    abstained: bool = False
    dropped_units: int = 0
    invented: int = 0

    @property
    def failed(self) -> bool:
        """Whether no answer could be had."""
        return bool(self.failure)


@dataclass(frozen=True)
class AnswerMethod(Sourced, ABC):
    """Answers questions from evidence (paper, section 3.4)."""

    @abstractmethod
    def answer(
        self, questions: Sequence[Query], evidence: Sequence[Evidence], llm: Asker | None = None
    ) -> list[Answered]:
        """Return the answer to each question, in order; a failure is an empty, flagged answer.

        Args:
            questions: the original questions.
            evidence: of each question, its units best first.
            llm: the model of the method's `role`; ignored by methods that need none.

        Raises:
            ConfigError: if the method needs a model and `llm` is None.
            DataError: if questions and evidence do not match one to one.
        """


ANSWERS: Registry[AnswerMethod] = Registry("answer")


def check_pairs(questions: Sequence[Query], evidence: Sequence[Evidence]) -> None:
    """Raise a `DataError` unless there is one evidence a question."""
    if len(questions) != len(evidence):
        raise DataError(f"answer: got evidence for {len(evidence)} questions, expected {len(questions)}")


def summary(answers: Iterable[Answered]) -> Counter[str]:
    """Return what a manifest reports: questions, and how many failed, abstained, cite nothing, and so on.

    Example:
        >>> found = summary([Answered("Ann", (1,)), Answered("", failure="timeout")])
        >>> found["questions"], found["failed"], found["failed_timeout"], found["uncited"]
        (2, 1, 1, 0)
    """
    total: Counter[str] = Counter()
    for item in answers:
        total["questions"] += 1
        total["failed"] += item.failed
        total["no_evidence"] += item.no_evidence
        total["abstained"] += item.abstained
        total["uncited"] += bool(item.text) and not item.abstained and not item.cited
        total["dropped_units"] += item.dropped_units
        total["invented_citations"] += item.invented
        if item.failed:
            total[f"failed_{item.failure}"] += 1
    return total

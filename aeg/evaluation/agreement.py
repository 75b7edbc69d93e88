"""How far a judge agrees with itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aeg.evaluation.judgement import Judgement


@dataclass(frozen=True)
class Agreement:
    """How far a judge agrees with itself when it is asked for its verdicts on the same statements again.

    Attributes:
        questions: questions judged twice.
        statements: statements that got a verdict both times.
        equal: those whose two verdicts are equal.
        mean_difference: mean |FC − FC'| over the questions; NaN where there is none.
        failed: questions of the sample without a usable second reply.
        unmatched: statements with a verdict in one of the two replies only.
    """

    questions: int
    statements: int
    equal: int
    mean_difference: float
    failed: int
    unmatched: int

    @property
    def share(self) -> float:
        """Share of the statements with equal verdicts; NaN where there is none."""
        return self.equal / self.statements if self.statements else float("nan")

    def __str__(self) -> str:
        """Return the line of a report."""
        return (
            f"judge's agreement with itself: {self.equal} of {self.statements} statement verdicts equal "
            f"({100 * self.share:.1f} %), mean |ΔFC| {self.mean_difference:.3f} over {self.questions} questions, "
            f"{self.failed} failed, {self.unmatched} statements with one verdict only"
        )


def agreement_of(pairs: Sequence[tuple[Judgement, Judgement | None]]) -> Agreement:
    """Return the agreement of first and second judgements of the same statements; None where the second failed.

    Example:
        >>> first = Judgement(("a", "b"), ("c",), (True, False), (True,), tp=1, fp=1, fn=1)
        >>> second = Judgement(("a", "b"), ("c",), (True, True), (True,), tp=2, fp=0, fn=1)
        >>> print(agreement_of([(first, second), (first, None)]))
        judge's agreement with itself: 2 of 3 statement verdicts equal (66.7 %), mean |ΔFC| 0.300 over 1 questions,
        1 failed, 0 statements with one verdict only

    Raises:
        ValueError: if a pair is about different statements.
    """
    both = [(first, second) for first, second in pairs if second is not None]
    verdicts = [
        pair
        for first, second in both
        for pair in zip((*first.supported, *first.missing), (*second.supported, *second.missing), strict=True)
    ]
    said = [(one, two) for one, two in verdicts if one is not None and two is not None]
    return Agreement(
        questions=len(both),
        statements=len(said),
        equal=sum(one == two for one, two in said),
        mean_difference=float(np.mean([abs(a.correctness - b.correctness) for a, b in both])) if both else float("nan"),
        failed=len(pairs) - len(both),
        unmatched=sum((one is None) != (two is None) for one, two in verdicts),
    )

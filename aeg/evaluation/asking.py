"""Asking a judge: nothing that it is asked can be split, so a request that is too long has failed for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aeg.backends.llm.asker import Answer, Ask, Asker


def ask_judge(llm: Asker, asks: Sequence[Ask], what: str) -> list[Answer]:
    """Return the judge's answers, in order; requests beyond its context are quarantined like other failures.

    Args:
        llm: the judge.
        asks: what to ask.
        what: title of the progress bar.
    """
    answers = llm.ask(asks, what=what)
    for ask, answer in zip(asks, answers, strict=True):
        if answer.failure is not None and answer.failure.kind == "context_length":
            llm.quarantine(ask, answer.failure)
    return answers

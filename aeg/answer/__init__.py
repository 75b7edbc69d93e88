"""Answers: from a question and its evidence to an answer that cites it (paper, section 3.4)."""

from __future__ import annotations

from aeg.answer.base import ANSWERS, Answered, AnswerMethod, summary
from aeg.answer.llm import LanguageModelAnswer
from aeg.answer.none import NoAnswer

__all__ = ["ANSWERS", "AnswerMethod", "Answered", "LanguageModelAnswer", "NoAnswer", "summary"]

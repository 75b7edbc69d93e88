"""Measures of short answers against one or more references: exact match, token F1 and ROUGE-L."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aeg.core.records import Query
from aeg.errors import DataError, DependencyError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True)
class AnswerScores:
    """Values of each measure, and which questions have none for want of an answer.

    Attributes:
        values: by measure, float64 [questions] in [0, 1]; NaN for a question that was skipped or failed.
        failed: bool [questions]: there is a reference and no answer, because the reader's call failed.
    """

    values: dict[str, FloatArray]
    failed: BoolArray

    def failures(self) -> dict[str, BoolArray]:
        """Return which questions have no value because they failed, by measure, as `aggregate` takes it."""
        return {name: self.failed & np.isnan(values) for name, values in self.values.items()}

    def counts(self) -> dict[str, dict[str, int]]:
        """Return by measure the numbers of questions `scored`, `skipped` (no usable reference) and `failed`."""
        failures = self.failures()
        return {name: tally(values, failures[name]) for name, values in self.values.items()}


def answer_metrics(
    answers: Sequence[str | None], references: Sequence[Sequence[str]], rouge: bool = True
) -> AnswerScores:
    r"""Return `exact_match`, `token_f1` and `rouge_l` of each answer, each the best over its references.

    Exact match and token F1 compare texts as SQuAD does: lower case, without ASCII punctuation, without the articles
    a, an and the. ROUGE-L is the F measure of the rouge-score library with stemming, over Latin letters and digits:
    a reference without any is skipped for it.

    Args:
        answers: one a question; None where the reader's call failed, which counts as failed, never as 0. The empty
            answer scores 0.
        references: for each question its answer and aliases; blank ones are left out, and a question with no other
            is skipped.
        rouge: include ROUGE-L.

    Raises:
        DataError: if the lengths differ.
        DependencyError: if ROUGE-L is asked for and rouge-score is not installed.

    Source: Rajpurkar et al. 2016 and 2018 (SQuAD's evaluation); Lin 2004 (ROUGE-L).

    Example:
        >>> scores = answer_metrics(["The dog Bix", None, "x"], [["Bix", "Bix the dog"], ["Ann"], []], rouge=False)
        >>> {name: values.tolist() for name, values in scores.values.items()}
        {'exact_match': [0.0, nan, nan], 'token_f1': [1.0, nan, nan]}
        >>> scores.counts()["token_f1"]
        {'scored': 1, 'skipped': 1, 'failed': 1}
    """
    if len(answers) != len(references):
        raise DataError(f"got {len(answers)} answers for {len(references)} questions' references; expected one each")
    usable = [[text for text in texts if text.strip()] for texts in references]
    failed = np.array([bool(texts) and answer is None for answer, texts in zip(answers, usable, strict=True)], bool)
    measures: dict[str, Any] = {"exact_match": exact_match, "token_f1": token_f1}
    if rouge:
        measures["rouge_l"] = _Rouge()
    values = {
        name: np.array(
            [
                np.nan if answer is None or not texts else _best(measure, answer, texts)
                for answer, texts in zip(answers, usable, strict=True)
            ],
            dtype=np.float64,
        )
        for name, measure in measures.items()
    }
    return AnswerScores(values, failed)


def references_of(query: Query) -> tuple[str, ...]:
    """Return the answer of `query` and its aliases, blank ones left out.

    Example:
        >>> references_of(Query("q", "Who barks?", answer="Bix", aliases=("the dog", "")))
        ('Bix', 'the dog')
    """
    return tuple(text for text in (query.answer, *query.aliases) if text.strip())


def normalised(text: str) -> str:
    """Return `text` as SQuAD compares it.

    Example:
        >>> normalised("  The U.S. Navy's  anthem ")
        'us navys anthem'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, reference: str) -> float:
    """Return 1 where the two are equal once `normalised`, else 0.

    Example:
        >>> exact_match("The Seine.", "seine"), exact_match("", "seine")
        (1.0, 0.0)
    """
    return float(normalised(answer) == normalised(reference))


def token_f1(answer: str, reference: str) -> float:
    r"""Return F1 = 2PR / (P + R) over the `normalised` tokens, each as often as it stands there.

    With m tokens shared, P = m / tokens of the answer and R = m / tokens of the reference. Where one side has no
    token, it is 1 if neither has, else 0.

    Example:
        >>> token_f1("the dog Bix", "Bix")
        0.666...
    """
    ours, theirs = normalised(answer).split(), normalised(reference).split()
    if not ours or not theirs:
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))


def tally(values: FloatArray, failed: BoolArray) -> dict[str, int]:
    """Return the numbers of questions `scored`, `skipped` and `failed`; the three add up to all questions.

    Raises:
        DataError: if a question that failed has a value.

    Example:
        >>> tally(np.array([1.0, np.nan, np.nan]), np.array([False, True, False]))
        {'scored': 1, 'skipped': 1, 'failed': 1}
    """
    missing = np.isnan(values)
    if (failed & ~missing).any():
        raise DataError(f"question {int((failed & ~missing).argmax())}: failed, but has a value; expected NaN")
    return {
        "scored": int((~missing).sum()),
        "skipped": int((missing & ~failed).sum()),
        "failed": int(failed.sum()),
    }


def _best(measure: Any, answer: str, references: Sequence[str]) -> float:
    scores = [measure(answer, reference) for reference in references]
    return float(max((score for score in scores if not np.isnan(score)), default=np.nan))


class _Rouge:
    """ROUGE-L of one answer and one reference; NaN for a reference in which the library sees no token."""

    def __init__(self) -> None:
        try:
            from rouge_score import rouge_scorer, tokenizers
        except ImportError:
            raise DependencyError("ROUGE-L needs rouge-score: pip install rouge-score, or leave it out") from None
        self._tokenizer = tokenizers.DefaultTokenizer(use_stemmer=True)
        self._scorer = rouge_scorer.RougeScorer(["rougeL"], tokenizer=self._tokenizer)

    def __call__(self, answer: str, reference: str) -> float:
        if not self._tokenizer.tokenize(reference):
            return float("nan")
        return float(self._scorer.score(reference, answer)["rougeL"].fmeasure)

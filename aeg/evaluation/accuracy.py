"""Answer accuracy: statements judged by a language model, and similarity by a fixed encoder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from aeg.config.accuracy import AccuracyConfig
from aeg.core.numbering import numbered
from aeg.core.records import Query
from aeg.errors import ConfigError, DataError
from aeg.evaluation.agreement import Agreement, agreement_of
from aeg.evaluation.answers import AnswerScores
from aeg.evaluation.asking import ask_judge
from aeg.evaluation.judgement import (
    BenchReply,
    Judgement,
    StatementsReply,
    VerdictsReply,
    bench_check,
    judgement_of,
    unasked,
    verdict_check,
)
from aeg.evaluation.similarity import similarities

if TYPE_CHECKING:
    from aeg.backends.llm.asker import Answer, Ask, Asker
    from aeg.evaluation.evidence import Encode

FloatArray = npt.NDArray[np.float64]

ACCURACY, CORRECTNESS, SIMILARITY = "answer_accuracy", "factual_correctness", "semantic_similarity"
_STATEMENTS, _VERDICTS = "statements", "statement_verdicts"
_UNANSWERED = "the reader gave no answer"
_STATEMENT_TOKENS, _VERDICT_TOKENS = 2048, 4096


@dataclass(frozen=True)
class AccuracyScores(AnswerScores):
    """Answer accuracy of one method's answers.

    Attributes:
        values: `answer_accuracy`, `factual_correctness`, `semantic_similarity`, float64 [questions], NaN for a
            question that was skipped or failed.
        failed: bool [questions]: there is a reference, but no answer or no usable verdict.
        judgements: what the judge said, for an audit and for `AccuracyMeasure.agreement`; None where it was not
            asked or failed.
        reasons: why a question failed, by row.
        details: `answers_empty`, `answers_without_statements`, and in GraphRAG-Bench's form of reply
            `verdicts_unmatched` (on statements that were not asked about) and `statements_without_verdict`.
        note: the line that belongs under a table of these scores.
    """

    judgements: tuple[Judgement | None, ...] = ()
    reasons: dict[int, str] = field(default_factory=dict)
    details: dict[str, int] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class AccuracyMeasure:
    r"""Scores answers against reference answers: ACC = α · FC + (1 − α) · SS.

    FC = 2·TP / (2·TP + FP + FN): the judge breaks answer and reference into statements (two calls) and says which of
    the answer's are supported by the reference (TP, else FP) and which of the reference's the answer lacks (FN; one
    call). SS = cos(e(answer), e(reference)), or (cos + 1) / 2, by the judge encoder e.

    A question without a reference answer is skipped. A question has failed, and has NaN for ACC and FC, never 0,
    where the reader gave no answer (None) or the judge no usable reply after its re-asks: no statements of the
    reference, a list of statements that breaks off, a statement without a verdict, a verdict on a statement that was
    not asked about. The empty answer has FC 0 and SS 0 without a call; an answer in which the judge finds no
    statement ("I do not know.") has FC 0. Aliases are not used.

    With `judge_prompts: graphrag_bench` its code is followed: the judge's lists are counted as they stand, so that
    verdicts on reworded statements count as well (they are reported as `verdicts_unmatched`), the same statement
    twice counts twice, and FC is 1 where neither side has a statement.

    Attributes:
        config: α, form of SS, form of the prompts.
        encode: the judge encoder, the same for all methods that are compared; unit vectors of texts.

    Source: eq. 12 to 14; GraphRAG-Bench's `answer_accuracy`.
    """

    role: ClassVar[str] = "judge"
    prompts: ClassVar[tuple[str, ...]] = (_STATEMENTS, _VERDICTS)

    config: AccuracyConfig
    encode: Encode

    def score(
        self, queries: Sequence[Query], answers: Sequence[str | None], llm: Asker | None = None
    ) -> AccuracyScores:
        """Return the scores of one method's answers.

        Args:
            queries: the questions with their reference answers.
            answers: one a question; None where the reader's call failed.
            llm: the judge.

        Raises:
            DataError: if the lengths differ, or the encoder's vectors are not finite unit vectors.
            ConfigError: if there is no judge, or its prompts are not those that `judge_prompts` names.
        """
        judge = self._judge(llm)
        if len(queries) != len(answers):
            raise DataError(f"got {len(answers)} answers for {len(queries)} questions; expected one each")
        referenced = [row for row, query in enumerate(queries) if query.answer.strip()]
        reasons = {row: _UNANSWERED for row in referenced if answers[row] is None}
        given = {row: text for row in referenced if (text := answers[row]) is not None}
        spoken = {row: text for row, text in given.items() if text.strip()}

        found = self._judgements(queries, spoken, judge, reasons)
        correctness, similarity = (np.full(len(queries), np.nan) for _ in range(2))
        for row, judgement in found.items():
            correctness[row] = judgement.correctness
        pairs = [(text, queries[row].answer) for row, text in spoken.items()]
        similarity[list(spoken)] = similarities(pairs, self.encode, shifted=self.config.similarity == "shifted")
        empty = [row for row in given if row not in spoken]
        correctness[empty] = similarity[empty] = 0.0
        return AccuracyScores(
            values={
                ACCURACY: self.config.alpha * correctness + (1 - self.config.alpha) * similarity,
                CORRECTNESS: correctness,
                SIMILARITY: similarity,
            },
            failed=np.array([row in reasons for row in range(len(queries))], dtype=bool),
            judgements=tuple(found.get(row) for row in range(len(queries))),
            reasons=reasons,
            details=self._details(found, len(empty)),
            note=self.config.note(),
        )

    def agreement(self, queries: Sequence[Query], scores: AccuracyScores, llm: Asker | None = None) -> Agreement:
        """Return the judge's agreement with itself on a sample of the questions that it gave verdicts on.

        The same statements are put to the judge once more (`sample` 1: another seed), so only verdicts are compared.

        Args:
            queries: the questions that `scores` is about.
            scores: of `score`.
            llm: the judge.

        Raises:
            DataError: if the lengths differ.
            ConfigError: as of `score`.
        """
        judge = self._judge(llm)
        if len(queries) != len(scores.judgements):
            raise DataError(f"got {len(queries)} questions for {len(scores.judgements)} judgements; expected one each")
        first = {row: said for row, said in enumerate(scores.judgements) if said is not None and said.asked}
        rows = sorted(first)
        chance = np.random.default_rng(self.config.repeat_seed)
        picked = chance.choice(len(rows), size=min(self.config.repeat, len(rows)), replace=False)
        sample = [rows[at] for at in sorted(picked.tolist())]
        statements = {row: (first[row].answer, first[row].reference) for row in sample}
        second = self._verdicts(queries, statements, judge, {}, repeat=1)
        return agreement_of([(first[row], second.get(row)) for row in sample])

    @property
    def _bench(self) -> bool:
        return self.config.judge_prompts == "graphrag_bench"

    def _judge(self, llm: Asker | None) -> Asker:
        if llm is None:
            raise ConfigError("answer accuracy needs a model: set llm.judge")
        if self._bench:
            from aeg.backends.llm.prompt import load_prompt

            own = [name for name in self.prompts if llm.prompt(name).hash == load_prompt(name).hash]
            if own:
                raise ConfigError(
                    f"judge_prompts: got 'graphrag_bench', but {' and '.join(own)} are the shipped prompts; give "
                    f"GraphRAG-Bench's as files in llm.prompts, or set judge_prompts: own"
                )
        return llm

    def _judgements(
        self, queries: Sequence[Query], answers: dict[int, str], llm: Asker, reasons: dict[int, str]
    ) -> dict[int, Judgement]:
        """Return the judgement of each row in `answers`, except for those that failed: they get a reason."""
        asks = [ask for row, text in answers.items() for ask in self._statement_asks(queries[row], text, llm)]
        replies = ask_judge(llm, asks, "statements")
        found: dict[int, Judgement] = {}
        pending: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        for at, row in enumerate(answers):
            pair = {"answer": replies[2 * at], "reference": replies[2 * at + 1]}
            broken = [f"no statements of the {side}: {why}" for side, reply in pair.items() if (why := _problem(reply))]
            if broken:
                reasons[row] = "; ".join(broken)
                continue
            answer, reference = (self._texts(reply.value) for reply in pair.values())
            if not reference and not self._bench:
                reasons[row] = "no statements of the reference: the judge found none"
            elif not answer and (not reference or not self._bench):
                found[row] = unasked(answer, reference)
            else:
                pending[row] = answer, reference
        found |= self._verdicts(queries, pending, llm, reasons)
        return dict(sorted(found.items()))

    def _verdicts(
        self,
        queries: Sequence[Query],
        statements: dict[int, tuple[tuple[str, ...], tuple[str, ...]]],
        llm: Asker,
        reasons: dict[int, str],
        repeat: int = 0,
    ) -> dict[int, Judgement]:
        asks = [self._verdict_ask(queries[row], *both, llm, repeat) for row, both in statements.items()]
        replies = ask_judge(llm, asks, "verdicts, again" if repeat else "verdicts")
        found: dict[int, Judgement] = {}
        for (row, both), reply in zip(statements.items(), replies, strict=True):
            said: Any = reply.value
            if why := _problem(reply, may_break_off=not self._bench):
                reasons[row] = f"no verdicts: {why}"
            else:
                found[row] = judgement_of(*both, said)
        return found

    def _statement_asks(self, query: Query, answer: str, llm: Asker) -> list[Ask]:
        from aeg.backends.llm.asker import Ask

        def ask(text: str, check: Any) -> Ask:
            values = {"question": query.question, "answer": text}
            prompt = llm.prompt(_STATEMENTS)
            return Ask(prompt, values, query.id, StatementsReply, check, max_tokens=_STATEMENT_TOKENS)

        return [ask(answer, None), ask(query.answer, None if self._bench else _some_statement)]

    def _verdict_ask(
        self, query: Query, answer: tuple[str, ...], reference: tuple[str, ...], llm: Asker, repeat: int
    ) -> Ask:
        from aeg.backends.llm.asker import Ask

        listed = json.dumps if self._bench else _numbered
        return Ask(
            prompt=llm.prompt(_VERDICTS),
            values={
                "question": query.question,
                "answer": listed(list(answer)),
                "ground_truth": listed(list(reference)),
            },
            subject=query.id,
            reply=BenchReply if self._bench else VerdictsReply,
            check=bench_check if self._bench else verdict_check(len(answer), len(reference)),
            max_tokens=_VERDICT_TOKENS,
            sample=repeat,
        )

    def _texts(self, reply: Any) -> tuple[str, ...]:
        return tuple(reply.statements if self._bench else dict.fromkeys(reply.texts()))

    def _details(self, found: dict[int, Judgement], empty: int) -> dict[str, int]:
        details = {
            "answers_empty": empty,
            "answers_without_statements": sum(not said.answer for said in found.values()),
        }
        if self._bench:
            details["verdicts_unmatched"] = sum(said.unmatched for said in found.values())
            details["statements_without_verdict"] = sum(said.unsaid for said in found.values())
        return details


def _some_statement(reply: StatementsReply) -> str | None:
    return None if reply.texts() else "there is no statement; the text states something: write at least one"


def _numbered(statements: Sequence[str]) -> str:
    return numbered(statements, first=1)


def _problem(reply: Answer, may_break_off: bool = False) -> str:
    """Return why a reply cannot be scored, or nothing; a part of a list is no measure of the whole."""
    if reply.failure is not None:
        return f"{reply.failure.kind}: {reply.failure.message}"
    return "the reply breaks off" if reply.partial and not may_break_off else ""

"""What a judge says of one answer: its statements, their verdicts, and the factual correctness that follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from aeg.core.numbering import as_number
from aeg.errors import DataError


def _upper(value: Any) -> Any:
    return value.strip().upper() if isinstance(value, str) else value


class StatementsReply(BaseModel):
    """The statements of a text; a bare list, as GraphRAG-Bench's prompt asks for, is taken too."""

    model_config = ConfigDict(extra="ignore")
    statements: list[str]

    @model_validator(mode="before")
    @classmethod
    def _bare_list(cls, value: Any) -> Any:
        return {"statements": value} if isinstance(value, list) else value

    def texts(self) -> list[str]:
        """Return the statements, white space collapsed; blank ones and such as `...` are left out."""
        texts = [" ".join(statement.split()) for statement in self.statements]
        return [text for text in texts if any(char.isalnum() for char in text)]


class AnswerVerdict(BaseModel):
    """Whether a numbered statement of the answer is supported by the reference."""

    model_config = ConfigDict(extra="ignore")
    id: Annotated[int, BeforeValidator(as_number)]
    reason: str = ""
    verdict: Annotated[Literal["TP", "FP"], BeforeValidator(_upper)]


class ReferenceVerdict(BaseModel):
    """Whether a numbered statement of the reference is covered by the answer or missing from it."""

    model_config = ConfigDict(extra="ignore")
    id: Annotated[int, BeforeValidator(as_number)]
    reason: str = ""
    verdict: Annotated[Literal["COVERED", "FN"], BeforeValidator(_upper)]


class VerdictsReply(BaseModel):
    """Verdicts on numbered statements: the reply that the shipped prompt asks for."""

    model_config = ConfigDict(extra="ignore")
    answer: list[AnswerVerdict] = Field(default_factory=list)
    reference: list[ReferenceVerdict] = Field(default_factory=list)


class BenchStatement(BaseModel):
    """A statement under one of GraphRAG-Bench's three classes."""

    model_config = ConfigDict(extra="ignore")
    statement: str
    reason: str = ""


class BenchReply(BaseModel):
    """The reply that GraphRAG-Bench's prompt asks for."""

    model_config = ConfigDict(extra="ignore")
    TP: list[BenchStatement] = Field(default_factory=list)
    FP: list[BenchStatement] = Field(default_factory=list)
    FN: list[BenchStatement] = Field(default_factory=list)


@dataclass(frozen=True)
class Judgement:
    """The statements of an answer and of its reference, with the judge's verdicts.

    Attributes:
        answer, reference: the statements.
        supported: for each of the answer's, whether the reference supports it (TP, else FP); None where the judge
            did not say (GraphRAG-Bench's form of reply only).
        missing: for each of the reference's, whether the answer lacks it (FN).
        tp, fp, fn: the counts that are scored.
        unmatched: verdicts on statements that were not asked about (GraphRAG-Bench's form only; its code counts
            them like the others, and so do `tp`, `fp` and `fn`).
        asked: False where there was nothing to ask about.
    """

    answer: tuple[str, ...]
    reference: tuple[str, ...]
    supported: tuple[bool | None, ...]
    missing: tuple[bool, ...]
    tp: int
    fp: int
    fn: int
    unmatched: int = 0
    asked: bool = True

    @property
    def correctness(self) -> float:
        """FC of the counts; see `factual_correctness`."""
        return factual_correctness(self.tp, self.fp, self.fn)

    @property
    def unsaid(self) -> int:
        """Statements of the answer without a verdict."""
        return sum(verdict is None for verdict in self.supported)


def factual_correctness(tp: int, fp: int, fn: int) -> float:
    r"""Return FC = 2·TP / (2·TP + FP + FN), in [0, 1]; 1 where all three are 0, as in GraphRAG-Bench's code.

    Args:
        tp: statements of the answer that the reference supports.
        fp: statements of the answer that it does not.
        fn: statements of the reference that the answer lacks.

    Raises:
        DataError: if a count is negative.

    Source: eq. 13.

    Example:
        >>> factual_correctness(2, 1, 1)
        0.666...
    """
    if min(tp, fp, fn) < 0:
        raise DataError(f"TP, FP, FN: got {tp}, {fp}, {fn}; expected counts of at least 0")
    total = 2 * tp + fp + fn
    return 2 * tp / total if total else 1.0


def unasked(answer: Sequence[str], reference: Sequence[str]) -> Judgement:
    """Return the judgement where answer or reference has no statement: nothing can be supported.

    Example:
        >>> unasked([], ["Bix is a dog."]).correctness, unasked([], []).correctness
        (0.0, 1.0)
    """
    if answer and reference:
        raise DataError(f"got {len(answer)} and {len(reference)} statements; expected one side without any")
    false, lacking = (False,) * len(answer), (True,) * len(reference)
    return Judgement(tuple(answer), tuple(reference), false, lacking, 0, len(answer), len(reference), asked=False)


def verdict_check(answer: int, reference: int) -> Callable[[VerdictsReply], str | None]:
    """Return a check that a reply has exactly one verdict on each numbered statement and none on others.

    Args:
        answer: number of the answer's statements.
        reference: number of the reference's.

    Example:
        >>> reply = VerdictsReply.model_validate({"answer": [{"id": 3, "verdict": "TP"}], "reference": []})
        >>> verdict_check(1, 0)(reply)
        'answer: statement 3 was not asked about (there are 1); answer: no verdict on statement 1'
    """

    def check(reply: VerdictsReply) -> str | None:
        problems = _problems("answer", [item.id for item in reply.answer], answer)
        problems += _problems("reference", [item.id for item in reply.reference], reference)
        return "; ".join(problems) or None

    return check


def bench_check(reply: BenchReply) -> str | None:
    """Check that a reply classifies anything at all.

    Example:
        >>> bench_check(BenchReply())
        'no statement is classified; list each under TP, FP or FN'
    """
    return None if reply.TP or reply.FP or reply.FN else "no statement is classified; list each under TP, FP or FN"


def judgement_of(answer: Sequence[str], reference: Sequence[str], reply: VerdictsReply | BenchReply) -> Judgement:
    """Return the judgement that a reply gives; a `VerdictsReply` must have passed `verdict_check`.

    Example:
        >>> reply = BenchReply.model_validate({"TP": [{"statement": "bix is a dog"}], "FN": [{"statement": "?"}]})
        >>> found = judgement_of(["Bix is a dog."], ["Bix is a dog."], reply)
        >>> found.supported, found.missing, found.fn, found.unmatched
        ((True,), (False,), 1, 1)
    """
    if isinstance(reply, BenchReply):
        return _of_bench(answer, reference, reply)
    verdicts = {item.id: item.verdict == "TP" for item in reply.answer}
    lacking = {item.id: item.verdict == "FN" for item in reply.reference}
    supported = tuple(verdicts[number] for number in range(1, len(answer) + 1))
    missing = tuple(lacking[number] for number in range(1, len(reference) + 1))
    tp = sum(supported)
    return Judgement(tuple(answer), tuple(reference), supported, missing, tp, len(answer) - tp, sum(missing))


def _problems(side: str, ids: Sequence[int], count: int) -> list[str]:
    asked = range(1, count + 1)
    problems = [f"{side}: statement {n} was not asked about (there are {count})" for n in sorted({*ids} - {*asked})]
    problems += [f"{side}: no verdict on statement {n}" for n in asked if n not in ids]
    twice = sorted({n for n in ids if ids.count(n) > 1})
    return problems + [f"{side}: more than one verdict on statement {n}" for n in twice]


def _of_bench(answer: Sequence[str], reference: Sequence[str], reply: BenchReply) -> Judgement:
    listed = {name: [_plain(item.statement) for item in getattr(reply, name)] for name in ("TP", "FP", "FN")}
    said: dict[str, bool] = {}
    for name in ("TP", "FP"):
        for text in listed[name]:
            said.setdefault(text, name == "TP")
    ours, theirs = [_plain(text) for text in answer], [_plain(text) for text in reference]
    unmatched = sum(text not in ours for text in listed["TP"] + listed["FP"])
    unmatched += sum(text not in theirs for text in listed["FN"])
    supported = tuple(said.get(text) for text in ours)
    missing = tuple(text in listed["FN"] for text in theirs)
    tp, fp, fn = (len(listed[name]) for name in ("TP", "FP", "FN"))
    return Judgement(tuple(answer), tuple(reference), supported, missing, tp, fp, fn, unmatched)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(". ")

"""The Atomic Sieve: a language model says which candidates the question needs (paper, section 3.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import torch
from pydantic import BaseModel, BeforeValidator

from aeg.backends.llm.asker import Ask
from aeg.config.ranges import param
from aeg.core.numbering import as_number, numbered
from aeg.core.records import Query
from aeg.errors import ConfigError
from aeg.sieve.base import SIEVES, Candidate, Sieve, Sieved, check_pairs, minimum, summary

if TYPE_CHECKING:
    from aeg.backends.llm.asker import Answer, Asker

_TASK = "sieve"


class KeptIds(BaseModel, extra="ignore"):
    """The reply: numbers of the candidates that the question needs."""

    ids: list[Annotated[int, BeforeValidator(as_number)]]


@dataclass(frozen=True)
class _Piece:
    """Candidates judged in one call: positions among a question's candidates."""

    question: int
    positions: tuple[int, ...]


@dataclass
class _Verdict:
    kept: set[int] = field(default_factory=set)
    failure: str = ""
    counts: Counter[str] = field(default_factory=Counter)


@SIEVES.register("llm")
@dataclass(frozen=True)
class LanguageModelSieve(Sieve):
    """Asks a model which candidates are relevant to the original question and needed for its answer.

    Candidates are numbered from 0 and the reply holds numbers only. Numbers it invents are refused and counted
    (`invented_ids`); a reply of invented numbers only is asked for again. An empty list is an answer. Where no
    usable reply comes, or one that broke off, the candidates stay, flagged (`Sieved.fallback`) and counted
    (`unjudged`). Candidates that exceed the model's context are judged in halves (`split`).

    Attributes:
        min_kept: so many candidates are kept at least, the best first, whatever the model says.
        block: most candidates in a call; null judges all of a question's at once.
        max_tokens: completion tokens at most.

    Source:
        Paper, section 3.4 and Appendix E ("Knowledge Atom Filtering").
    """

    role: ClassVar[str] = "reader"
    prompts: ClassVar[tuple[str, ...]] = (_TASK,)

    min_kept: int = param(0, ge=0)
    block: int | None = param(None, ge=1)
    max_tokens: int = param(1024, ge=1)

    def sieve(
        self,
        questions: Sequence[Query],
        candidates: Sequence[Sequence[Candidate]],
        llm: Asker | None = None,
        encoder: Any | None = None,
        device: torch.device | str = "cpu",
    ) -> list[Sieved]:
        """Return what is kept of each question's candidates; see `Sieve.sieve`."""
        if llm is None:
            raise ConfigError(f"sieve 'llm' needs a model: set llm.{self.role}")
        check_pairs(questions, candidates)
        verdicts = [_Verdict() for _ in questions]
        pieces = [piece for at, found in enumerate(candidates) for piece in self._pieces(at, len(found))]
        while pieces:
            asks = [self._ask(piece, questions, candidates, llm) for piece in pieces]
            asked, pieces = pieces, []
            for piece, ask, answer in zip(asked, asks, llm.ask(asks, what=_TASK), strict=True):
                if answer.failure is not None and answer.failure.kind == "context_length":
                    if halves := _halves(piece):
                        pieces.extend(halves)
                        verdicts[piece.question].counts["split"] += 1
                        continue
                    llm.quarantine(ask, answer.failure)
                _judge(piece, answer, verdicts[piece.question])
        sieved = [self._sieved(found, verdict) for found, verdict in zip(candidates, verdicts, strict=True)]
        total = summary(sieved)
        for name in ("invented_ids", "split", "fallback", "unjudged"):
            if total[name]:
                llm.ledger.count(_TASK, name, total[name])
        return sieved

    def _pieces(self, question: int, count: int) -> list[_Piece]:
        width = self.block or max(count, 1)
        return [_Piece(question, tuple(range(at, min(at + width, count)))) for at in range(0, count, width)]

    def _ask(
        self, piece: _Piece, questions: Sequence[Query], candidates: Sequence[Sequence[Candidate]], llm: Asker
    ) -> Ask:
        query, found = questions[piece.question], candidates[piece.question]
        values = {
            "question": " ".join(query.question.split()),
            "candidates": numbered(found[at].text for at in piece.positions),
        }
        return Ask(
            llm.prompt(_TASK),
            values,
            query.id,
            reply=KeptIds,
            check=partial(_wrong, len(piece.positions)),
            max_tokens=self.max_tokens,
        )

    def _sieved(self, found: Sequence[Candidate], verdict: _Verdict) -> Sieved:
        done = minimum(found, sorted(verdict.kept), self.min_kept, verdict.counts)
        return Sieved(done.kept, bool(verdict.failure), verdict.failure, done.counts)


def _wrong(count: int, reply: KeptIds) -> str | None:
    """What is wrong with a reply about candidates 0 to count − 1: that none of its ids is one of them."""
    if reply.ids and not any(0 <= number < count for number in reply.ids):
        return f"none of the ids {reply.ids[:10]} is in the list; the ids go from 0 to {count - 1}"
    return None


def _halves(piece: _Piece) -> list[_Piece]:
    middle = (len(piece.positions) + 1) // 2
    parts = (piece.positions[:middle], piece.positions[middle:])
    return [_Piece(piece.question, part) for part in parts] if all(parts) else []


def _judge(piece: _Piece, answer: Answer, verdict: _Verdict) -> None:
    """Note the outcome of one call; without a whole reply all of its candidates stay."""
    failure = answer.failure.kind if answer.failure is not None else "partial" if answer.partial else ""
    if failure:
        verdict.failure = verdict.failure or failure
        verdict.kept.update(piece.positions)
        verdict.counts["unjudged"] += len(piece.positions)
        return
    assert isinstance(answer.value, KeptIds)
    ids = set(answer.value.ids)
    valid = {number for number in ids if 0 <= number < len(piece.positions)}
    verdict.kept.update(piece.positions[number] for number in valid)
    if len(valid) < len(ids):
        verdict.counts["invented_ids"] += len(ids) - len(valid)

"""Decomposition and entity mentions by a language model (paper, section 3.2 and Appendix E)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from aeg.backends.llm.asker import Ask, Asker
from aeg.config.ranges import param
from aeg.core.keys import atom_text, canonical_key
from aeg.core.matching import distinct
from aeg.core.records import EffectiveQuery, Query
from aeg.errors import ConfigError
from aeg.query.base import DECOMPOSITIONS, MENTIONS, Decomposition, MentionExtractor
from aeg.query.decomposition import distinct_questions

DECOMPOSITION, MENTION = "decomposition", "mentions"


_FORM = ConfigDict(extra="ignore")


class SubQuestion(BaseModel):
    """An atomic sub-question, and what it asks for in a word or two."""

    model_config = _FORM
    question: str
    focus: str = ""


class DecompositionReply(BaseModel):
    """The complexity c(q) of a question, and its sub-questions where it is complex.

    Example:
        >>> reply = DecompositionReply.model_validate({"complexity": 7, "sub_questions": ["Who leads Tarn Lab?"]})
        >>> reply.complexity, reply.sub_questions[0].question
        (7.0, 'Who leads Tarn Lab?')
    """

    model_config = _FORM
    complexity: float
    sub_questions: list[SubQuestion] = Field(default_factory=list)

    @field_validator("sub_questions", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        """Take bare strings as sub-questions without a focus, and no list as none."""
        if value is None:
            return []
        return [{"question": item} if isinstance(item, str) else item for item in value] if _is_list(value) else value


class MentionsReply(BaseModel):
    """The entities that a question mentions."""

    model_config = _FORM
    entities: list[str]


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


@DECOMPOSITIONS.register("llm")
@dataclass(frozen=True)
class LlmDecomposition(Decomposition):
    """Asks a language model, in one call, how complex a question is and for its sub-questions.

    The effective queries of q are {q} ∪ {q⁽¹⁾ … q⁽ᵐ⁾} where c(q) ≥ τ_c, else {q}. A question without a usable
    reply stays whole. The ledger counts, under `decomposition`: questions `decomposed`, `without_sub_questions`
    (complex, but none was given) and `failed`; `sub_questions` made, `sub_questions_cut` by `max_sub_questions`
    and `sub_questions_repeated` (blank, or equal to the question or to one another up to white space).

    Attributes:
        complexity_threshold: τ_c.
        max_sub_questions: m_max; further sub-questions are cut and counted.
        max_tokens: completion tokens at most.

    Source: section 3.2, eq. 4; Table 5 for the defaults.
    """

    role: ClassVar[str] = "reader"
    prompts: ClassVar[tuple[str, ...]] = (DECOMPOSITION,)

    complexity_threshold: float = param(6.5, ge=0, le=10)
    max_sub_questions: int = param(3, ge=0)
    max_tokens: int = param(512, ge=1)

    def decompose(
        self, queries: Sequence[Query], root: Path | None = None, llm: Asker | None = None
    ) -> list[EffectiveQuery]:
        """Return each question followed by its sub-questions, in question order.

        Raises:
            ConfigError: if `llm` is None.
            AegError: what concerns all requests (no key, a batch that is pending, the budget spent).
        """
        if llm is None:
            raise ConfigError("decomposition 'llm' needs a model: set llm.reader")
        answers = llm.ask([self._ask(query, llm) for query in queries], DECOMPOSITION)
        effective = []
        for row, (query, answer) in enumerate(zip(queries, answers, strict=True)):
            effective.append(EffectiveQuery(row, query.question))
            if answer.value is None:
                llm.ledger.count(DECOMPOSITION, "failed")
            else:
                effective += [EffectiveQuery(row, text) for text in self._sub_questions(query, answer.value, llm)]
        return effective

    def _ask(self, query: Query, llm: Asker) -> Ask:
        prompt = llm.prompt(DECOMPOSITION)
        optional = {"threshold": f"{self.complexity_threshold:g}", "max_sub_questions": str(self.max_sub_questions)}
        wanted = {name: value for name, value in optional.items() if name in prompt.placeholders}
        values: Mapping[str, str] = {"question": query.question, **wanted}
        return Ask(prompt, values, query.id, DecompositionReply, check_decomposition, self.max_tokens)

    def _sub_questions(self, query: Query, reply: DecompositionReply, llm: Asker) -> list[str]:
        """Return what is kept of a question's sub-questions, and count what is not."""
        if reply.complexity < self.complexity_threshold:
            return []
        given = [atom_text(sub.question) for sub in reply.sub_questions]
        found = [text for text in distinct_questions(query.question, given) if text]
        kept = found[: self.max_sub_questions]
        counts = {
            "decomposed": int(bool(kept)),
            "without_sub_questions": int(not found),
            "sub_questions": len(kept),
            "sub_questions_cut": len(found) - len(kept),
            "sub_questions_repeated": len(given) - len(found),
        }
        for name, number in counts.items():
            if number:
                llm.ledger.count(DECOMPOSITION, name, number)
        return kept


@MENTIONS.register("llm")
@dataclass(frozen=True)
class LlmMentions(MentionExtractor):
    """Asks a language model for the entities that each effective query mentions.

    A query without a usable reply has no mentions. The ledger counts, under `mentions`: queries that `failed`,
    `empty_keys` (names of punctuation alone), `repeated` names, and those `not_in_question` (kept, after the rest).

    Attributes:
        max_tokens: completion tokens at most.
    """

    role: ClassVar[str] = "reader"
    prompts: ClassVar[tuple[str, ...]] = (MENTION,)

    max_tokens: int = param(256, ge=1)

    def mentions(
        self,
        effective: Sequence[EffectiveQuery],
        queries: Sequence[Query],
        root: Path | None = None,
        llm: Asker | None = None,
    ) -> list[tuple[str, ...]]:
        """Return the mentions of each effective query, distinct by canonical key, by their place in its text.

        Raises:
            ConfigError: if `llm` is None.
            AegError: what concerns all requests (no key, a batch that is pending, the budget spent).
        """
        if llm is None:
            raise ConfigError("mentions 'llm' needs a model: set llm.reader")
        prompt = llm.prompt(MENTION)
        asks = [
            Ask(prompt, {"question": item.text}, queries[item.query].id, MentionsReply, None, self.max_tokens)
            for item in effective
        ]
        answers = llm.ask(asks, MENTION)
        return [
            _failed(llm) if answer.value is None else _ordered(item.text, answer.value.entities, llm)
            for item, answer in zip(effective, answers, strict=True)
        ]


def check_decomposition(reply: DecompositionReply) -> str | None:
    """Return what is wrong with a score outside [0, 10]."""
    if 0 <= reply.complexity <= 10:
        return None
    return f"complexity: got {reply.complexity:g}, expected a number from 0 to 10"


def _failed(llm: Asker) -> tuple[str, ...]:
    llm.ledger.count(MENTION, "failed")
    return ()


def _ordered(text: str, names: Sequence[str], llm: Asker) -> tuple[str, ...]:
    key = canonical_key(text)
    keyed = [name for name in names if canonical_key(name)]
    kept = distinct(map(atom_text, keyed))
    place = {name: key.find(canonical_key(name)) for name in kept}
    missing = sum(at < 0 for at in place.values())
    counts = {"empty_keys": len(names) - len(keyed), "repeated": len(keyed) - len(kept), "not_in_question": missing}
    for reason, number in counts.items():
        if number:
            llm.ledger.count(MENTION, reason, number)
    return tuple(sorted(kept, key=lambda name: place[name] if place[name] >= 0 else len(key)))

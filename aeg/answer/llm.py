"""Answers by a language model that reads the evidence and cites its units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, Field

from aeg.answer.base import ANSWERS, Answered, AnswerMethod, check_pairs
from aeg.answer.citations import checked, without_markers
from aeg.backends.llm.asker import Ask
from aeg.config.ranges import param
from aeg.core.evidence import Evidence
from aeg.core.numbering import as_number, numbered
from aeg.core.records import Query
from aeg.errors import ConfigError

if TYPE_CHECKING:
    from aeg.backends.llm.asker import Answer, Asker

_TASK = "answer"
ABSTAINED = "Insufficient information."
_NOTHING = "(no evidence was found)"


class CitedAnswer(BaseModel, extra="ignore"):
    """The reply: reasoning first, then the answer, then the numbers of the units it rests on."""

    reasoning: str = ""
    answer: str
    citations: list[Annotated[int, BeforeValidator(as_number)]] = Field(default_factory=list)


@dataclass
class _State:
    """Where one question stands: units still shown, units dropped."""

    question: int
    units: int
    dropped: int = 0


@ANSWERS.register("llm")
@dataclass(frozen=True)
class LanguageModelAnswer(AnswerMethod):
    """Asks a model to answer from the question's units, which it cites by number.

    What is cited comes from the reply's `citations` and from markers ([1]) in the answer; numbers that no unit has
    are refused and counted, and markers are taken out of the answer's text. Where the evidence exceeds the model's
    context, its worse half is dropped (and counted) and the model asked again. A question without a usable reply
    has an empty answer that says why.

    Attributes:
        style: `abstract` for a complete answer in sentences, `precise` for a name, a number or a few words.
        no_evidence: a question without a unit is put to the model all the same (`ask`; the prompt has it say that
            information is insufficient), or answered so without a call (`abstain`).
        max_tokens: completion tokens at most.

    Source:
        Paper, section 3.4 and Appendix E ("Abstract QA and precise QA").
    """

    role: ClassVar[str] = "reader"

    style: str = param("abstract", choices=("abstract", "precise"))
    no_evidence: str = param("ask", choices=("ask", "abstain"))
    max_tokens: int = param(1024, ge=1)

    @property
    def prompts(self) -> tuple[str, ...]:  # type: ignore[override]
        """The prompt of the method's style."""
        return (f"{_TASK}_{self.style}",)

    def answer(
        self, questions: Sequence[Query], evidence: Sequence[Evidence], llm: Asker | None = None
    ) -> list[Answered]:
        """Return the answer to each question; see `AnswerMethod.answer`."""
        if llm is None:
            raise ConfigError(f"answer 'llm' needs a model: set llm.{self.role}")
        check_pairs(questions, evidence)
        done: dict[int, Answered] = {}
        states = []
        for at, found in enumerate(evidence):
            if not found.units and self.no_evidence == "abstain":
                done[at] = Answered(ABSTAINED, no_evidence=True, abstained=True)
            else:
                states.append(_State(at, len(found.units)))
        while states:
            asks = [self._ask(questions[s.question], evidence[s.question], s.units, llm) for s in states]
            asked, states = states, []
            for state, ask, reply in zip(asked, asks, llm.ask(asks, what="answers"), strict=True):
                if reply.failure is not None and reply.failure.kind == "context_length":
                    if kept := state.units // 2:
                        states.append(_State(state.question, kept, state.dropped + state.units - kept))
                        continue
                    llm.quarantine(ask, reply.failure)
                done[state.question] = _answered(reply, state)
        self._count(llm, done.values())
        return [done[at] for at in range(len(questions))]

    def _ask(self, query: Query, evidence: Evidence, units: int, llm: Asker) -> Ask:
        shown = numbered((unit.text for unit in evidence.units[:units]), first=1)
        values = {"question": " ".join(query.question.split()), "evidence": shown or _NOTHING}
        prompt = llm.prompt(self.prompts[0])
        return Ask(prompt, values, query.id, reply=CitedAnswer, check=_wrong, max_tokens=self.max_tokens)

    def _count(self, llm: Asker, answers: Iterable[Answered]) -> None:
        found = list(answers)
        totals = {
            "invented_citations": sum(item.invented for item in found),
            "dropped_units": sum(item.dropped_units for item in found),
            "failed": sum(item.failed for item in found),
        }
        for name, total in totals.items():
            if total:
                llm.ledger.count(self.prompts[0], name, total)


def _wrong(reply: CitedAnswer) -> str | None:
    """What is wrong with a reply: that nothing but citation markers stands in the answer."""
    return None if without_markers(reply.answer)[0] else "the answer is empty; write it as text"


def _answered(reply: Answer, state: _State) -> Answered:
    if reply.failure is not None:
        kind = reply.failure.kind
        return Answered("", failure=kind, no_evidence=not state.units, dropped_units=state.dropped)
    assert isinstance(reply.value, CitedAnswer)
    text, marked = without_markers(reply.value.answer)
    cited, invented = checked([*marked, *reply.value.citations], state.units)
    abstained = text.casefold().rstrip(" .") == ABSTAINED.casefold().rstrip(".")
    return Answered(
        text,
        cited,
        reply.value.reasoning.strip(),
        no_evidence=not state.units,
        abstained=abstained,
        dropped_units=state.dropped,
        invented=invented,
    )

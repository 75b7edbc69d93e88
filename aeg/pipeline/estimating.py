"""What asking would take: every stage says what it would ask, and a made-up reply lets it go on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Sequence
from typing import Any

from aeg.answer.llm import CitedAnswer
from aeg.backends.llm.ask import Answer, Ask, Job
from aeg.backends.llm.asker import Asker
from aeg.backends.llm.base import Failure, Reply
from aeg.backends.llm.ledger import prompt_tokens
from aeg.core.text import sentences
from aeg.evaluation.judgement import AnswerVerdict, ReferenceVerdict, StatementsReply, VerdictsReply
from aeg.extraction.replies import EntitiesReply, KnowledgeReply
from aeg.pipeline.accounts import ESTIMATED
from aeg.query.llm import DecompositionReply, MentionsReply
from aeg.sieve.llm import KeptIds

AT_MOST = "completion_tokens_at_most"
ASSUMPTIONS = (
    "a token is taken for every three bytes of prompt and reply, which errs upwards",
    "a passage gives an atom and a triple a sentence; every second question is complex; the sieve keeps every second "
    "candidate; answers are of 60 words; replies cached already cost nothing",
)
_BYTES_A_TOKEN = 3
_WORDS = "This stands in for one of the sentences of an answer here."
_REASON = "The other side says the same thing in other words than these."


class Estimator(Asker):
    """An asker that sends nothing: replies that are cached are taken, others made up and booked as if paid for.

    The ledger counts made-up replies as `estimated`, so that what rests on them is never kept as an artifact.
    """

    def stream(self, asks: Sequence[Ask]) -> Generator[tuple[int, Answer]]:
        """Yield (position, answer)."""
        for job in self._jobs(asks):
            yield from job.answered(self._cached(job) or self._made_up(job))

    def _made_up(self, job: Job) -> Answer:
        task, value = job.first.task, stand_in(job.ask)
        text = value if isinstance(value, str) else "" if value is None else value.model_dump_json()
        tokens = min(-(-len(text.encode()) // _BYTES_A_TOKEN), job.first.max_tokens)
        reply = Reply(text, prompt_tokens(job.first), tokens, 0.0)
        self.ledger.add(task, reply, cached=not self.backend.spends, model=self.backend.model)
        self.ledger.count(task, ESTIMATED)
        self.ledger.count(task, AT_MOST, job.first.max_tokens)
        failure = Failure("missing", "an estimate cannot tell what the reply would be") if value is None else None
        return Answer(value, failure)


def stand_in(ask: Ask) -> Any:
    """Return a reply of about the usual length to one of the shipped prompts; None for other structured replies."""
    values, reply = ask.values, ask.reply
    if reply is None:
        return _WORDS
    if reply is EntitiesReply:
        return EntitiesReply(entities=_names(values["passage"]))
    if reply is KnowledgeReply:
        return _knowledge(values["passage"], json.loads(values["entities"]))
    if reply is DecompositionReply:
        return _decomposition(values["question"])
    if reply is MentionsReply:
        return MentionsReply(entities=_names(values["question"])[:3])
    if reply is KeptIds:
        return KeptIds(ids=_numbers(values["candidates"])[::2])
    if reply is CitedAnswer:
        text = "A short answer" if ask.prompt.name == "answer_precise" else " ".join([_WORDS] * 5)
        return CitedAnswer(reasoning=" ".join([_WORDS] * 2), answer=text, citations=[])
    if reply is StatementsReply:
        return StatementsReply(statements=sentences(values["answer"]))
    if reply is VerdictsReply:
        return VerdictsReply(
            answer=[AnswerVerdict(id=n, reason=_REASON, verdict="TP") for n in _numbers(values["answer"])],
            reference=[ReferenceVerdict(id=n, reason=_REASON, verdict="FN") for n in _numbers(values["ground_truth"])],
        )
    return None


def _names(text: str) -> list[str]:
    """A word in ten, the long ones: about as many entities as a passage has."""
    words = list(dict.fromkeys(re.findall(r"\w{6,}", text)))
    return words[: max(1, len(text.split()) // 10)]


def _knowledge(passage: str, entities: list[str]) -> KnowledgeReply:
    found = sentences(passage)
    atoms = [{"text": text, "entities": [name for name in entities if name in text][:3]} for text in found]
    triples = [["first entity", "is related to", "second entity"] for _ in found]
    return KnowledgeReply.model_validate({"triples": triples, "atoms": atoms})


def _decomposition(question: str) -> DecompositionReply:
    complex_enough = hashlib.sha256(question.encode()).digest()[0] % 2
    parts = [{"question": f"{number}: {question}", "focus": "a part"} for number in range(3)] if complex_enough else []
    return DecompositionReply.model_validate({"complexity": 10.0 if complex_enough else 0.0, "sub_questions": parts})


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"^\[(\d+)\]", text, flags=re.MULTILINE)]

"""A made-up language model that answers each of the shipped prompts in the right form, for runs of the whole pipeline.

model = Model()
with ScriptedServer(model) as server:
    ...
    assert model.tasks == {"ner": 6, "triples_atoms": 6}
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from llm_server import Received

from aeg.backends.llm.prompt import load_prompt, prompt_names

_FIRST = {load_prompt(name).turns[0].parts[0].split("\n")[0]: name for name in prompt_names()}
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_NAME = re.compile(r"\b[A-Z][\w-]+(?: [A-Z][\w-]+)*")


def task_of(messages: list[dict[str, str]]) -> str:
    """The prompt that a chat began with."""
    return _FIRST[messages[0]["content"].split("\n")[0]]


def between(text: str, tag: str) -> str:
    """What stands between <tag> and </tag>."""
    return text.split(f"<{tag}>\n")[1].split(f"\n</{tag}>")[0]


def reply_to(task: str, prompt: str) -> Any:
    """A reply that is right in form, and the same whenever it is asked for."""
    if task == "ner":
        return {"entities": names(prompt)}
    if task == "triples_atoms":
        listed = json.loads(re.findall(r"Entities: (\[.*\])", prompt)[-1])
        text = passage(prompt)
        atoms = [{"text": s, "entities": [n for n in listed if n in s]} for s in _SENTENCE.split(text) if s.strip()]
        pairs = list(itertools.pairwise(listed))
        return {"triples": [[a, "goes with", b] for a, b in pairs], "atoms": atoms}
    if task == "decomposition":
        question = between(prompt, "question")
        words = question.split()
        parts = [{"question": " ".join(some), "focus": "x"} for some in (words[-3:], words[2:5])]
        complex_enough = len(words) % 2
        return {"complexity": 8.0 if complex_enough else 2, "sub_questions": parts if complex_enough else []}
    if task == "mentions":
        return {"entities": names(between(prompt, "question"))}
    if task == "sieve":
        return {"ids": list(range(0, len(numbers(between(prompt, "candidates"))), 2))}
    if task.startswith("answer"):
        shown = numbers(between(prompt, "evidence"))
        return {"reasoning": "so", "answer": f"It is {len(shown)} pieces [1].", "citations": [1, 99] if shown else []}
    if task == "statements":
        return {"statements": [s for s in _SENTENCE.split(between(prompt, "answer")) if s][:3]}
    assert task == "statement_verdicts", task
    ours, theirs = (numbers(between(prompt, f"{side}_statements")) for side in ("answer", "reference"))
    return {
        "answer": [{"id": n, "reason": "r", "verdict": "TP" if n % 2 else "FP"} for n in ours],
        "reference": [{"id": n, "reason": "r", "verdict": "COVERED"} for n in theirs],
    }


def names(text: str) -> list[str]:
    return list(dict.fromkeys(_NAME.findall(text)))[:12]


def passage(prompt: str) -> str:
    return between(prompt, "passage") if "<passage>\n" in prompt else prompt


def numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"^\[(\d+)\]", text, flags=re.MULTILINE)]


class Model:
    """Answers by `reply_to`, unless `instead(task, prompt)` gives something; counts what was asked by task."""

    def __init__(self, instead: Callable[[str, str], Any] = lambda task, prompt: None) -> None:
        self.instead = instead
        self.asked: list[tuple[str, str]] = []

    @property
    def tasks(self) -> Counter[str]:
        return Counter(task for task, _ in self.asked)

    def __call__(self, received: Received) -> Any:
        task, prompt = task_of(received.body["messages"]), received.prompt
        self.asked.append((task, prompt))
        found = self.instead(task, prompt)
        return reply_to(task, prompt) if found is None else found

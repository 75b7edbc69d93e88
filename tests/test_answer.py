"""Answers: citations, evidence too long for the model, questions without evidence, failures."""

from __future__ import annotations

import json
import re

import pytest
from scripted_backend import Scripted

from aeg.answer import ANSWERS, summary
from aeg.answer.citations import checked, without_markers
from aeg.backends.llm.asker import Asker
from aeg.backends.llm.base import Failure
from aeg.backends.llm.ledger import Ledger
from aeg.backends.llm.prompt import load_prompt
from aeg.core.evidence import CitationUnit, Evidence
from aeg.core.records import Query
from aeg.errors import ConfigError, DataError


def evidence(*texts: str) -> Evidence:
    return Evidence(tuple(CitationUnit("d", None, None, text) for text in texts))


def shown(request) -> list[str]:
    block = request.messages[-1].content.split("<evidence>")[-1].split("</evidence>")[0]
    return re.findall(r"^\[\d+\] (.*)$", block, flags=re.MULTILINE)


def reply(answer: str, *citations: int, reasoning: str = "So.") -> str:
    return json.dumps({"reasoning": reasoning, "answer": answer, "citations": list(citations)})


def answers(script, found, folder=None, reasks=1, **params):
    backend = Scripted(script=script)
    questions = [Query(f"q{at}", f"Who owns\nBix {at}?") for at in range(len(found))]
    with Asker(backend, folder, Ledger(), reasks=reasks) as llm:
        return ANSWERS.make("llm", **params).answer(questions, found, llm=llm), backend


THREE = evidence("Ann owns Bix.", "Bix\nbarks.", "Rain fell.")


def test_an_answer_cites_its_units_and_its_text_has_no_markers():
    (found,), backend = answers(lambda request: reply("Ann owns Bix [1], who barks [2][1].", 3, 1), [THREE])
    assert found.text == "Ann owns Bix, who barks."
    assert found.cited == (1, 2, 3)
    assert (found.reasoning, found.failed, found.no_evidence, found.invented) == ("So.", False, False, 0)
    request = backend.sent[0][0]
    assert shown(request) == ["Ann owns Bix.", "Bix barks.", "Rain fell."]
    assert request.messages[-1].content.endswith("Question: Who owns Bix 0?")


def test_numbers_that_no_unit_has_are_refused_and_counted():
    (found,), _ = answers(lambda request: reply("Ann [0] [4].", 2, 9, -1), [THREE])
    assert (found.text, found.cited, found.invented) == ("Ann.", (2,), 4)


@pytest.mark.parametrize(("style", "task"), [("abstract", "answer_abstract"), ("precise", "answer_precise")])
def test_the_style_picks_the_prompt(style, task):
    _, backend = answers(lambda request: reply("Ann"), [THREE], style=style)
    assert backend.calls == [(task, "q0")]
    assert ANSWERS.make("llm", style=style).prompts == (task,)
    assert load_prompt(task).placeholders == {"question", "evidence"}
    with pytest.raises(ConfigError, match="expected one of abstract, precise"):
        ANSWERS.make("llm", style="short")


@pytest.mark.parametrize(
    ("text", "plain", "cited"),
    [
        ("Ann [1]. Bix [2, 3]; Cid [4-6].", "Ann. Bix; Cid.", [1, 2, 3, 4, 5, 6]),
        ("Ann ([1], [2]) and【3】 Bix", "Ann and Bix", [1, 2, 3]),
        ("In [2019] he wrote a[i] and [18F]FDG [sic].", "In [2019] he wrote a[i] and [18F]FDG [sic].", []),
        ("[1] Ann", "Ann", [1]),
        ("[1]", "", [1]),
        ("From [7-3] or [1-900]", "From or", [7, 3, 1, 900]),
    ],
)
def test_markers(text, plain, cited):
    assert without_markers(text) == (plain, cited)


def test_checked_numbers_are_distinct_and_ascending():
    assert checked([], 3) == ((), 0)
    assert checked([3, 3, 1, 0, 4, 4], 3) == ((1, 3), 2)


def test_an_answer_of_nothing_but_markers_is_asked_for_again():
    replies = iter([reply(" [1] ", 1), reply("Ann", 1)])
    (found,), backend = answers(lambda request: next(replies), [THREE])
    assert found.text == "Ann"
    assert "the answer is empty" in backend.sent[1][0].messages[-1].content


@pytest.mark.parametrize("bad", ["no JSON", '{"citations": [1]}', Failure("server", "500")])
def test_a_failure_is_an_empty_flagged_answer_and_touches_no_other(bad):
    found, _ = answers(lambda request: bad if request.subject == "q0" else reply("Ann", 1), [THREE, THREE])
    assert (found[0].text, found[0].cited, found[0].failed) == ("", (), True)
    assert found[0].failure == ("server" if isinstance(bad, Failure) else "invalid")
    assert (found[1].text, found[1].failed) == ("Ann", False)
    assert summary(found)[f"failed_{found[0].failure}"] == 1


def test_missing_reasoning_and_citations_are_no_failure():
    (found,), _ = answers(lambda request: '{"answer": "Ann [2]", "citations": ["[1]"]}', [THREE])
    assert (found.text, found.cited, found.reasoning) == ("Ann", (1, 2), "")


def test_evidence_beyond_the_context_is_halved_and_what_is_dropped_counted():
    def script(request):
        return Failure("context_length", "too long") if len(shown(request)) > 2 else reply("Ann", 1, 5)

    (found, other), backend = answers(script, [evidence(*"ABCDEFG"), evidence("A", "B")])
    assert (found.text, found.cited, found.dropped_units) == ("Ann", (1,), 6)
    assert found.invented == 1  # unit 5 was not shown
    assert [shown(request) for batch in backend.sent for request in batch if request.subject == "q0"] == [
        list("ABCDEFG"),
        list("ABC"),
        list("A"),
    ]
    assert other.dropped_units == 0


def test_one_unit_beyond_the_context_fails(tmp_path):
    (found,), backend = answers(lambda request: Failure("context_length", "x"), [evidence("A", "B")], tmp_path)
    assert (found.text, found.failure, found.dropped_units) == ("", "context_length", 1)
    assert len(backend.calls) == 2
    (file,) = (tmp_path / "quarantine").iterdir()
    assert len(file.read_text().splitlines()) == 1


def test_without_evidence_the_model_is_told_so_or_not_asked():
    (found,), backend = answers(lambda request: reply("Insufficient information."), [Evidence()])
    assert "(no evidence was found)" in backend.sent[0][0].messages[-1].content
    assert (found.no_evidence, found.abstained, found.failed) == (True, True, False)
    (found, other), backend = answers(
        lambda request: reply("insufficient information"), [Evidence(), THREE], no_evidence="abstain"
    )
    assert (found.text, found.no_evidence, found.abstained) == ("Insufficient information.", True, True)
    assert backend.calls == [("answer_abstract", "q1")]
    assert (other.no_evidence, other.abstained) == (False, True)


def test_a_second_run_makes_no_call(tmp_path):
    first, _ = answers(lambda request: reply("Ann", 1), [THREE, Evidence()], tmp_path)
    second, backend = answers(lambda request: pytest.fail("asked again"), [THREE, Evidence()], tmp_path)
    assert first == second
    assert backend.calls == []


def test_none_answers_nothing_and_llm_needs_a_model():
    questions = [Query("q", "Who?")]
    (found,) = ANSWERS.make("none").answer(questions, [THREE])
    assert (found.text, found.failed, found.no_evidence) == ("", False, False)
    assert ANSWERS.make("none").prompts == ()
    with pytest.raises(ConfigError, match=r"answer 'llm' needs a model: set llm\.reader"):
        ANSWERS.make("llm").answer(questions, [THREE])
    with pytest.raises(DataError, match="got evidence for 0 questions, expected 1"):
        ANSWERS.make("none").answer(questions, [])


def test_counts_reach_the_ledger():
    backend = Scripted(script=lambda request: reply("Ann", 8) if request.subject == "q0" else Failure("server", "500"))
    ledger = Ledger()
    with Asker(backend, None, ledger) as llm:
        found = ANSWERS.make("llm").answer([Query("q0", "Who?"), Query("q1", "What?")], [THREE, THREE], llm=llm)
    total = summary(found)
    assert (total["questions"], total["failed"], total["uncited"], total["invented_citations"]) == (2, 1, 1, 1)
    text = json.dumps(ledger.snapshot())
    assert "invented_citations" in text
    assert "failed" in text

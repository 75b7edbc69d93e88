"""Decomposition and mentions by a language model."""

from __future__ import annotations

import json

import pytest
from scripted_backend import Scripted

from aeg.backends.llm import Asker, Ledger, load_prompt
from aeg.core.records import EffectiveQuery, Query
from aeg.errors import ConfigError
from aeg.query import DECOMPOSITIONS, MENTIONS

WHERE = "Where was the founder of Tarn Lab born?"
PARTS = ["Who founded Tarn Lab?", "Where was Mira Voss born?", "Where is Ostrel?", "What is Ostrel?"]


def queries(*texts: str) -> list[Query]:
    return [Query(f"q{n}", text) for n, text in enumerate(texts)]


def analysis(complexity, *sub_questions) -> str:
    return json.dumps(
        {"complexity": complexity, "sub_questions": [{"question": s, "focus": "f"} for s in sub_questions]}
    )


def decompose(script, texts, folder=None, prompts=None, **params):
    """Return the texts of each question's effective queries, the ledger's counts and the backend."""
    backend = (
        script if isinstance(script, Scripted) else Scripted(script=script if callable(script) else lambda r: script)
    )
    llm = Asker(backend, folder, Ledger(), prompts=prompts or {})
    found = DECOMPOSITIONS.make("llm", **params).decompose(queries(*texts), llm=llm)
    llm.close()
    grouped = [[item.text for item in found if item.query == row] for row in range(len(texts))]
    return grouped, counts(llm, "decomposition"), backend


def counts(llm: Asker, task: str) -> dict[str, int]:
    rows = [row for row in llm.ledger.table() if row.task == task]
    return {name: n for row in rows for name, n in row.counts.items()}


def test_a_complex_question_is_followed_by_its_sub_questions():
    replies = {"q0": analysis(1.5), "q1": analysis(8, *PARTS[:2]), "q2": analysis(2, PARTS[0])}
    found, counted, backend = decompose(lambda r: replies[r.subject], ["Who is Ann?", WHERE, "Who is Bix?"])
    assert found == [["Who is Ann?"], [WHERE, *PARTS[:2]], ["Who is Bix?"]]
    assert counted == {"decomposed": 1, "sub_questions": 2}
    assert len(backend.sent) == 1  # one batch
    assert WHERE in backend.sent[0][1].messages[-1].content


@pytest.mark.parametrize(("complexity", "whole"), [(6.49, True), (6.5, False), (10, False), (0, True)])
def test_the_threshold_itself_decomposes(complexity, whole):
    """Eq. 4 has c(q) >= tau_c."""
    found, _, _ = decompose(analysis(complexity, PARTS[0]), [WHERE])
    assert found == [[WHERE] if whole else [WHERE, PARTS[0]]]


def test_further_sub_questions_are_cut_and_repeats_dropped():
    given = [PARTS[0], WHERE.replace(" ", "  "), PARTS[0] + " ", " ", *PARTS[1:]]
    found, counted, _ = decompose(analysis(9, *given), [WHERE])
    assert found == [[WHERE, *PARTS[:3]]]
    assert counted == {"decomposed": 1, "sub_questions": 3, "sub_questions_cut": 1, "sub_questions_repeated": 3}
    found, counted, _ = decompose(analysis(9, *given), [WHERE], max_sub_questions=0)
    assert found == [[WHERE]]
    assert counted["sub_questions_cut"] == 4


def test_complex_without_sub_questions_is_counted():
    found, counted, _ = decompose(analysis(9), [WHERE])
    assert (found, counted) == ([[WHERE]], {"without_sub_questions": 1})


def test_bare_strings_and_no_list_are_read():
    found, _, _ = decompose(json.dumps({"complexity": "7", "sub_questions": PARTS[:1]}), [WHERE])
    assert found == [[WHERE, PARTS[0]]]
    assert decompose('{"complexity": 7, "sub_questions": null}', [WHERE])[0] == [[WHERE]]
    assert decompose('{"complexity": 7}', [WHERE])[0] == [[WHERE]]


@pytest.mark.parametrize("bad", ["10.5", "-1", "75", "NaN", '"7 of 10"', "null"])
def test_a_score_out_of_range_is_asked_again_with_the_error_told(bad):
    replies = iter([f'{{"complexity": {bad}, "sub_questions": []}}', analysis(7, PARTS[0])])
    found, counted, backend = decompose(lambda r: next(replies), [WHERE])
    assert found == [[WHERE, PARTS[0]]]
    assert len(backend.calls) == 2
    told = backend.sent[-1][0].messages[-1].content
    assert ("NaN" if bad == "NaN" else "complexity") in told
    assert counted["decomposed"] == 1


def test_a_question_without_a_usable_reply_stays_whole_and_is_asked_again_by_the_next_run(tmp_path):
    first = decompose(lambda r: "nonsense" if r.subject == "q1" else analysis(8, PARTS[0]), ["A?", "B?"], tmp_path)
    assert first[0] == [["A?", PARTS[0]], ["B?"]]
    assert first[1]["failed"] == 1
    second = decompose(analysis(8, PARTS[0]), ["A?", "B?"], tmp_path)
    assert second[0] == [["A?", PARTS[0]], ["B?", PARTS[0]]]
    assert second[2].calls == [("decomposition", "q1")]
    assert "failed" not in second[1]


def test_a_second_run_makes_no_call(tmp_path):
    first = decompose(analysis(8, PARTS[0]), [WHERE, "Who?"], tmp_path)
    second = decompose(Scripted(script=lambda r: pytest.fail("called")), [WHERE, "Who?"], tmp_path)
    assert (second[0], second[2].sent) == (first[0], [])


def test_the_users_prompt_needs_the_question_only(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("### user\nSplit {{question}} (never {{question}})")
    found, _, backend = decompose(analysis(7, PARTS[0]), [WHERE], prompts={"decomposition": str(file)})
    assert found == [[WHERE, PARTS[0]]]
    assert backend.sent[0][0].messages[-1].content == f"Split {WHERE} (never {WHERE})"


def test_threshold_and_maximum_stand_in_the_prompt():
    _, _, backend = decompose(analysis(1), [WHERE], complexity_threshold=4.25, max_sub_questions=7)
    system = backend.sent[0][0].messages[0].content
    assert "4.25 or more" in system
    assert "at most 7 sub-questions" in system


def mentions(script, texts, folder=None):
    backend = Scripted(script=script if callable(script) else lambda r: script)
    llm = Asker(backend, folder, Ledger())
    effective = [EffectiveQuery(0, text) for text in texts]
    found = MENTIONS.make("llm").mentions(effective, queries("Q?"), llm=llm)
    llm.close()
    return found, counts(llm, "mentions"), backend


def test_mentions_are_distinct_and_in_the_texts_order():
    reply = json.dumps({"entities": ["tarn lab", "Mira  Voss", "TARN LAB", "...", "laboratory"]})
    found, counted, _ = mentions(reply, ["Who is Mira Voss of Tarn Lab?"])
    assert found == [("Mira Voss", "tarn lab", "laboratory")]
    assert counted.pop("empty_keys", 0) + counted.pop("repaired", 0) == 1  # `...` goes as a name or as an item
    assert counted == {"repeated": 1, "not_in_question": 1}


def test_each_effective_query_has_its_mentions_and_equal_texts_are_asked_once():
    names = {"Who is Ann?": ["Ann"], "Who is Bix?": ["Bix"]}
    found, _, backend = mentions(
        lambda r: json.dumps({"entities": next(v for k, v in names.items() if k in r.messages[-1].content)}),
        ["Who is Ann?", "Who is Bix?", "Who is Ann?"],
    )
    assert found == [("Ann",), ("Bix",), ("Ann",)]
    assert len(backend.calls) == 2


def test_without_a_usable_reply_there_are_no_mentions():
    found, counted, _ = mentions(
        lambda r: "?" if "Bix" in str(r.messages) else '{"entities": ["Ann"]}', ["Who is Ann?", "Who is Bix?"]
    )
    assert found == [("Ann",), ()]
    assert counted["failed"] == 1


def test_no_questions_no_calls():
    assert decompose(analysis(1), [])[0] == []
    assert mentions("{}", [])[0] == []


def test_without_a_model_they_say_what_to_set():
    with pytest.raises(ConfigError, match=r"decomposition 'llm' needs a model: set llm\.reader"):
        DECOMPOSITIONS.make("llm").decompose(queries("A?"))
    with pytest.raises(ConfigError, match=r"mentions 'llm' needs a model: set llm\.reader"):
        MENTIONS.make("llm").mentions([], [])


@pytest.mark.parametrize(("registry", "prompt"), [(DECOMPOSITIONS, "decomposition"), (MENTIONS, "mentions")])
def test_role_and_prompts_are_declared_and_ship(registry, prompt):
    for name in registry:
        method = registry.get(name)
        assert (method.role, method.prompts) == (("reader", (prompt,)) if name == "llm" else ("", ()))
    examples = [turn.parts[0] for turn in load_prompt(prompt).turns if turn.role == "assistant"]
    assert examples
    assert all(json.loads(example) for example in examples)

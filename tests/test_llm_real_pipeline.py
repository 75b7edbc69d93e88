"""The whole pipeline with a real model: a small one behind llama.cpp, whose replies have shape and no worth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from llm_runs import answers, content, endpoint, go, settings, usage

from aeg.corpus import CORPORA
from aeg.errors import DependencyError
from aeg.pipeline.accounts import ANSWERS, CONSTRUCTION, DECOMPOSITION, SIEVE
from experiments.serve_llm import local_server

# Short prompts with two examples, which a small base model continues in the right form, most of the time.
PROMPTS = {
    "ner": [
        ("About {title}. Passage: {passage}", '{"entities": ["Mira Voss", "Tarn Lab"]}', "Mira Voss founded Tarn Lab."),
        ("About {title}. Passage: {passage}", '{"entities": ["Kora", "Ostrel"]}', "The Kora flows through Ostrel."),
    ],
    "triples_atoms": [
        (
            "About {title}. Entities: {entities} Passage: {passage}",
            '{"triples": [["Mira Voss", "founded", "Tarn Lab"]], "atoms": [{"text": "Mira Voss founded Tarn Lab.", '
            '"entities": ["Mira Voss", "Tarn Lab"]}]}',
            "Mira Voss founded Tarn Lab.",
        ),
        (
            "About {title}. Entities: {entities} Passage: {passage}",
            '{"triples": [["Kora", "flows through", "Ostrel"]], "atoms": [{"text": "The Kora flows through Ostrel.", '
            '"entities": ["Kora", "Ostrel"]}]}',
            "The Kora flows through Ostrel.",
        ),
    ],
    "decomposition": [
        ("Question: {question}", '{"complexity": 1.0, "sub_questions": []}', "Who founded Tarn Lab?"),
        ("Question: {question}", '{"complexity": 2.0, "sub_questions": []}', "Where is Ostrel?"),
    ],
    "mentions": [
        ("Question: {question}", '{"entities": ["Tarn Lab"]}', "Who founded Tarn Lab?"),
        ("Question: {question}", '{"entities": ["Ostrel"]}', "Where is Ostrel?"),
    ],
    "sieve": [
        ("Question: {question} Candidates: {candidates}", '{"ids": [0]}', "[0] Mira Voss founded Tarn Lab."),
        (
            "Question: {question} Candidates: {candidates}",
            '{"ids": [1]}',
            "[0] It rained. [1] Ostrel lies on the Kora.",
        ),
    ],
    "answer_precise": [
        (
            "Evidence: {evidence} Question: {question}",
            '{"reasoning": "Piece 1 says so.", "answer": "Mira Voss", "citations": [1]}',
            "[1] Mira Voss founded Tarn Lab.",
        ),
        (
            "Evidence: {evidence} Question: {question}",
            '{"reasoning": "Piece 1 says so.", "answer": "the Kora", "citations": [1]}',
            "[1] Ostrel lies on the Kora.",
        ),
    ],
}
LONGEST = {"title": "a lab", "entities": '["Mira Voss", "Tarn Lab"]', "question": "Who founded Tarn Lab?"}


def prompt_files(folder: Path) -> str:
    """Write the prompts; return the section `llm.prompts`."""
    found = []
    for name, examples in PROMPTS.items():
        turns = []
        for form, reply, text in examples:
            values = {**LONGEST, **dict.fromkeys(("passage", "candidates", "evidence"), text)}
            if "{passage}" not in form and "{candidates}" not in form and "{evidence}" not in form:
                values["question"] = text
            turns += ["### user", form.format(**values), "### assistant", reply]
        form = examples[0][0].replace("{", "{{").replace("}", "}}")
        (folder / f"{name}.txt").write_text("\n".join([*turns, "### user", form]) + "\n")
        found.append(f"{name}: '{folder / name}.txt'")
    return "{" + ", ".join(found) + "}"


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    """The settings of a run against the real server; skipped where it is not installed."""
    folder = tmp_path_factory.mktemp("real")
    sample = CORPORA.make("sample").load(None)
    documents, questions = sample.documents[:2], sample.queries[:2]
    (folder / "documents.jsonl").write_text(
        "".join(
            json.dumps({"id": d.id, "title": d.title, "text": d.text.split(". ")[0] + "."}) + "\n" for d in documents
        )
    )
    (folder / "questions.jsonl").write_text(
        "".join(json.dumps({"id": q.id, "question": q.question, "answer": q.answer}) + "\n" for q in questions)
    )
    corpus = f"{{name: jsonl, documents: '{folder}/documents.jsonl', questions: '{folder}/questions.jsonl'}}"
    try:
        with local_server(context=1536) as url:
            model = endpoint(url, max_concurrency=1, timeout=100)
            yield [
                *settings(folder, corpus, model),
                "llm.judge=null",
                "llm.reasks=0",
                f"llm.prompts={prompt_files(folder)}",
                "extraction={name: llm, entities_max_tokens: 64, max_tokens: 224}",
                "query.decomposition={name: llm, max_tokens: 48}",
                "query.mentions={name: llm, max_tokens: 32}",
                "sieve={name: llm, max_tokens: 24}",
                "answer={name: llm, style: precise, max_tokens: 64}",
                "evaluation.baselines=[]",
            ]
    except DependencyError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def outcome(chosen):
    log: list[str] = []
    found = go(chosen, log)
    return found, log


def lines(chosen: list[str], what: str) -> list[dict]:
    folder = Path(next(item for item in chosen if item.startswith("artifacts_dir=")).partition("=")[2]) / "llm" / what
    return [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]


def test_structure_and_accounting(chosen, outcome):
    found, _ = outcome
    modules = usage(found)
    calls = sum(row["calls"] for row in modules.values())
    cached, lost = lines(chosen, "cache"), lines(chosen, "quarantine")
    assert calls == len(cached) + len(lost)  # every reply is kept, as good or as no use
    assert modules[CONSTRUCTION]["calls"] >= 2
    assert modules[DECOMPOSITION]["calls"] >= 4
    assert modules[SIEVE]["calls"] == modules[ANSWERS]["calls"] == 2
    for row in modules.values():
        assert (row["prompt_tokens"] > 20 * row["calls"]) == (row["calls"] > 0)
        assert row["completion_tokens"] >= row["calls"]
    good = [json.loads(record["reply"]["text"]) for record in cached]
    assert all(isinstance(reply, dict) for reply in good)  # JSON, as the schema asks
    assert len(cached) > len(lost)
    rows = answers(found)
    assert len(rows) == 2
    for row in rows:
        assert set(row["kept"]) <= set(row["candidates"])
        assert all(1 <= number <= len(row["units"]) for number in row["cited"])
        assert (row["answer"] is None) == ("failed" in row["flags"])


def test_a_second_run_asks_only_for_what_was_no_use(chosen, outcome):
    found, _ = outcome
    lost = len(lines(chosen, "quarantine"))
    again = go(chosen)
    calls = sum(row["calls"] for row in usage(again).values())
    assert calls == lost
    assert content(again) == content(found)  # greedy: what was no use is no use again

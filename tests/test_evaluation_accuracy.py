"""Answer accuracy with a scripted judge: values by hand, and what happens when the judge does not do its work."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from judge_helpers import Scripted, asker, listed, literal_judge, tagged

from aeg.backends.llm.base import Failure
from aeg.backends.llm.prompt import load_prompt
from aeg.config.accuracy import AccuracyConfig
from aeg.core.records import Query
from aeg.errors import ConfigError, DataError
from aeg.evaluation.accuracy import AccuracyMeasure
from aeg.evaluation.aggregate import aggregate
from aeg.evaluation.judgement import BenchReply, StatementsReply, VerdictsReply, factual_correctness, judgement_of

REFERENCE = "Bix is a dog. Ann owns Bix. Bix is red."
QUERIES = [Query("q1", "Who is Bix?", answer=REFERENCE, type="fact"), Query("q2", "Who?", answer="", type="fact")]


def encode(texts: list[str]) -> torch.Tensor:
    """The reference is (1, 0), all else (0.6, 0.8): a cosine of 0.6."""
    return torch.tensor([[1.0, 0.0] if text == REFERENCE else [0.6, 0.8] for text in texts])


def measure(**settings) -> AccuracyMeasure:
    return AccuracyMeasure(AccuracyConfig(**settings), encode)


def scores_of(answer, script=literal_judge, **settings):
    backend = Scripted(model="judge", script=script)
    return measure(**settings).score(QUERIES[:1], [answer], asker(backend)), backend


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_factual_correctness_is_the_f1_of_precision_and_recall(tp, fp, fn):
    found = factual_correctness(tp, fp, fn)
    assert 0.0 <= found <= 1.0
    if tp:
        precision, recall = tp / (tp + fp), tp / (tp + fn)
        assert found == pytest.approx(2 * precision * recall / (precision + recall))
    else:
        assert found == (0.0 if fp or fn else 1.0)


def test_values_by_hand():
    # Two of the answer's three statements are supported, one of the reference's three is missing: FC = 4 / 6.
    scores, backend = scores_of("Ann owns Bix. Bix is a dog. Bix barks.")
    assert scores.values["factual_correctness"][0] == pytest.approx(4 / 6)
    assert scores.values["semantic_similarity"][0] == pytest.approx(0.6)
    assert scores.values["answer_accuracy"][0] == pytest.approx(0.7 * 4 / 6 + 0.3 * 0.6)
    said = scores.judgements[0]
    assert said.supported == (True, True, False)
    assert said.missing == (False, False, True)
    assert (said.tp, said.fp, said.fn) == (2, 1, 1)
    assert [request.task for request in backend.asked] == ["statements", "statements", "statement_verdicts"]
    assert {request.subject for request in backend.asked} == {"q1"}
    assert all(request.schema for request in backend.asked)


@pytest.mark.parametrize(
    ("alpha", "similarity", "expected"),
    [(0.75, "shifted", 0.75 * 4 / 6 + 0.25 * 0.8), (1.0, "cosine", 4 / 6), (0.0, "shifted", 0.8)],
)
def test_alpha_and_the_form_of_similarity(alpha, similarity, expected):
    scores, _ = scores_of("Ann owns Bix. Bix is a dog. Bix barks.", alpha=alpha, similarity=similarity)
    assert scores.values["answer_accuracy"][0] == pytest.approx(expected)


def test_the_prompts_carry_question_answer_and_both_lists():
    _, backend = scores_of("Bix barks.")
    verdicts = backend.asked[-1]
    assert tagged(backend.asked[0], "question") == "Who is Bix?"
    assert [tagged(request, "answer") for request in backend.asked[:2]] == ["Bix barks.", REFERENCE]
    assert listed(verdicts, "answer_statements") == ["Bix barks."]
    assert listed(verdicts, "reference_statements") == ["Bix is a dog.", "Ann owns Bix.", "Bix is red."]


def test_skipped_failed_and_empty_are_told_apart():
    queries = [*QUERIES, *(replace(QUERIES[0], id=f"q{n}") for n in (3, 4))]
    backend = Scripted(model="judge", script=literal_judge)
    scores = measure().score(queries, [REFERENCE, "x", None, "  "], asker(backend))
    np.testing.assert_allclose(scores.values["factual_correctness"], [1.0, np.nan, np.nan, 0.0])
    np.testing.assert_allclose(scores.values["semantic_similarity"], [1.0, np.nan, np.nan, 0.0])
    np.testing.assert_allclose(scores.values["answer_accuracy"], [1.0, np.nan, np.nan, 0.0])
    assert scores.counts()["answer_accuracy"] == {"scored": 2, "skipped": 1, "failed": 1}
    assert scores.reasons == {2: "the reader gave no answer"}
    assert scores.details == {"answers_empty": 1, "answers_without_statements": 0}
    assert len({request.subject for request in backend.asked}) == 1, "only q1 needs the judge"
    rows = aggregate("rag", scores.values, [q.type for q in queries], resamples=100, failed=scores.failures())
    assert {(row.n, row.skipped, row.failed) for row in rows} == {(2, 1, 1)}


def test_an_answer_without_statements_is_wrong_without_a_verdict_being_asked():
    scores, backend = scores_of("I do not know")
    assert scores.values["factual_correctness"][0] == 0.0
    assert scores.values["answer_accuracy"][0] == pytest.approx(0.3 * 0.6)
    assert scores.judgements[0].fn == 3
    assert not scores.judgements[0].asked
    assert scores.details["answers_without_statements"] == 1
    assert [request.task for request in backend.asked] == ["statements", "statements"]


def test_a_reference_without_statements_fails_and_is_never_scored():
    def script(request):
        return '{"statements": []}' if tagged(request, "answer") == REFERENCE else literal_judge(request)

    scores, backend = scores_of("Bix barks.", script)
    assert np.isnan(scores.values["answer_accuracy"][0])
    assert scores.counts()["answer_accuracy"]["failed"] == 1
    assert scores.counts()["semantic_similarity"] == {"scored": 1, "skipped": 0, "failed": 0}
    assert "reference" in scores.reasons[0]
    assert sum(tagged(request, "answer") == REFERENCE for request in backend.asked) == 3, "asked, and twice again"


def test_a_statement_that_the_judge_repeats_counts_once():
    def script(request):
        twice = {"statements": ["Bix  barks.", "Bix barks.", "...", " "]}
        if request.task == "statements" and tagged(request, "answer") != REFERENCE:
            return json.dumps(twice)
        return literal_judge(request)

    scores, _ = scores_of("Bix barks.", script)
    assert scores.judgements[0].answer == ("Bix barks.",)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda reply: reply["answer"].append({"id": 9, "verdict": "TP"}), "statement 9 was not asked about"),
        (lambda reply: reply["reference"].append({"id": 0, "verdict": "FN"}), "statement 0 was not asked about"),
        (lambda reply: reply["reference"].pop(), "reference: no verdict on statement 3"),
        (lambda reply: reply["answer"].append({"id": 1, "verdict": "TP"}), "more than one verdict on statement 1"),
        (lambda reply: reply["answer"][0].update(verdict="FN"), "verdict"),
    ],
)
def test_verdicts_that_do_not_fit_the_statements_are_asked_for_again_with_the_error_told(spoil, told):
    def script(request):
        reply = json.loads(literal_judge(request))
        examples = sum(turn.role == "assistant" for turn in load_prompt(request.task).turns)
        first = sum(message.role == "assistant" for message in request.messages) == examples
        if request.task == "statement_verdicts" and first:
            spoil(reply)
        return json.dumps(reply)

    scores, backend = scores_of("Bix barks.", script)
    verdicts = [request for request in backend.asked if request.task == "statement_verdicts"]
    assert len(verdicts) == 2
    assert told in verdicts[1].messages[-1].content
    assert scores.values["factual_correctness"][0] == 0.0
    assert scores.judgements[0].fn == 3


def test_a_judge_that_never_gives_all_verdicts_fails_the_question():
    def script(request):
        return literal_judge(request) if request.task == "statements" else '{"answer": [], "reference": []}'

    scores, backend = scores_of("Bix barks.", script)
    assert np.isnan(scores.values["answer_accuracy"][0])
    assert np.isnan(scores.values["factual_correctness"][0])
    assert scores.values["semantic_similarity"][0] == pytest.approx(0.6)
    assert scores.failed.tolist() == [True]
    assert scores.reasons[0].startswith("no verdicts: invalid")
    assert sum(request.task == "statement_verdicts" for request in backend.asked) == 3


@pytest.mark.parametrize("side", ["answer", "reference"])
def test_statements_that_break_off_are_not_scored_in_part(side):
    """The parser saves the whole items of a list that breaks off; a part of the statements is no measure."""

    def script(request):
        said = literal_judge(request)
        ours = request.task == "statements" and (tagged(request, "answer") == REFERENCE) == (side == "reference")
        return said[:-10] if ours else said

    scores, _ = scores_of("Bix barks. Ann owns Bix. Ann sings.", script)
    assert np.isnan(scores.values["factual_correctness"][0])
    assert scores.reasons == {0: f"no statements of the {side}: the reply breaks off"}


def test_verdicts_that_break_off_are_scored_where_none_is_missing():
    scores, _ = scores_of(
        "Bix is a dog.",
        lambda request: literal_judge(request)[: -1 if request.task == "statement_verdicts" else None],
    )
    assert scores.values["factual_correctness"][0] == pytest.approx(0.5)


def test_an_answer_that_equals_a_reference_without_statements_fails():
    scores, _ = scores_of(REFERENCE, lambda request: '{"statements": []}')
    assert scores.failed.tolist() == [True]


def test_a_failed_call_fails_its_question_only():
    queries = [QUERIES[0], replace(QUERIES[0], id="q9", question="And Ann?")]

    def script(request):
        return Failure("timeout", "no reply in 60 s") if request.subject == "q9" else literal_judge(request)

    scores = measure().score(queries, [REFERENCE, "Bix barks."], asker(Scripted(script=script)))
    np.testing.assert_allclose(scores.values["answer_accuracy"], [1.0, np.nan])
    assert scores.failed.tolist() == [False, True]
    assert "timeout" in scores.reasons[1]


def test_a_question_beyond_the_judges_context_is_quarantined(tmp_path):
    def script(request):
        too_long = request.task == "statements" and tagged(request, "answer") == "Bix barks."
        return Failure("context_length", "9,000 of 8,192 tokens") if too_long else literal_judge(request)

    with asker(Scripted(script=script), tmp_path) as judge:
        scores = measure().score(QUERIES[:1], ["Bix barks."], judge)
    assert scores.reasons == {0: "no statements of the answer: context_length: 9,000 of 8,192 tokens"}
    kept = "".join(path.read_text() for path in (tmp_path / "quarantine").iterdir())
    assert json.loads(kept)["subject"] == "q1"


def test_a_second_run_asks_nothing(tmp_path):
    backend = Scripted(model="judge", script=literal_judge)
    first = asker(backend, tmp_path)
    once = measure().score(QUERIES, ["Bix barks. Ann owns Bix.", "x"], first)
    first.close()
    calls = len(backend.asked)
    second = asker(backend, tmp_path)
    again = measure().score(QUERIES, ["Bix barks. Ann owns Bix.", "x"], second)
    second.close()
    assert len(backend.asked) == calls == 3
    np.testing.assert_array_equal(once.values["answer_accuracy"], again.values["answer_accuracy"])


def test_agreement_by_hand():
    """The second time the judge takes back one of two verdicts on the answer and none of three on the reference."""

    def script(request):
        reply = json.loads(literal_judge(request))
        if request.sample == 1:
            reply["answer"][0]["verdict"] = "FP"
        return json.dumps(reply)

    backend = Scripted(model="judge", script=script)
    judge = asker(backend)
    queries = [QUERIES[0], QUERIES[1], replace(QUERIES[0], id="q3", question="Whose?")]
    tool = measure(repeat=5)
    scores = tool.score(queries, ["Ann owns Bix. Bix barks.", "x", "I do not know"], judge)
    found = tool.agreement(queries, scores, judge)
    assert (found.questions, found.statements, found.equal, found.failed, found.unmatched) == (1, 5, 4, 0, 0)
    assert found.share == pytest.approx(0.8)
    # 2·1 / (2·1 + 1 + 2) the first time; no TP, two FP and two FN the second.
    assert found.mean_difference == pytest.approx(0.4)
    assert "4 of 5" in str(found)
    repeated = [request for request in backend.asked if request.sample]
    assert [request.task for request in repeated] == ["statement_verdicts"], "statements are not made again"


def test_agreement_samples_by_seed_and_counts_what_failed():
    queries = [replace(QUERIES[0], id=f"q{n}", question=f"Who is number {n}?") for n in range(8)]

    def picked(seed):
        def script(request):
            return Failure("server", "500") if request.sample else literal_judge(request)

        backend = Scripted(model="judge", script=script)
        judge = asker(backend)
        tool = measure(repeat=3, repeat_seed=seed)
        found = tool.agreement(queries, tool.score(queries, ["Bix barks."] * 8, judge), judge)
        assert (found.questions, found.failed, found.statements) == (0, 3, 0)
        assert np.isnan(found.mean_difference)
        assert np.isnan(found.share)
        return [request.subject for request in backend.asked if request.sample]

    assert len(set(picked(0))) == 3
    assert picked(0) == picked(0)
    assert len({tuple(picked(seed)) for seed in range(5)}) > 1


STATEMENT_FILE = "Break it down.\nQuestion:{question}\nAnswer: {answer}\nGenerated Statements:"
VERDICT_FILE = 'Q: {question}\nAnswer Statements: {answer}\nGround Truth Statements: {ground_truth}\n{{"TP": [], ...}}'


@pytest.fixture
def bench_files(tmp_path):
    """Files in the form of GraphRAG-Bench's prompts: Python's placeholders, no roles."""
    files = {"statements": tmp_path / "s.txt", "statement_verdicts": tmp_path / "v.txt"}
    files["statements"].write_text(STATEMENT_FILE, encoding="utf-8")
    files["statement_verdicts"].write_text(VERDICT_FILE, encoding="utf-8")
    return {name: str(path) for name, path in files.items()}


def bench_judge(request):
    text = request.messages[-1].content
    if request.task == "statements":
        return json.dumps([f"{part}." for part in text.split("Answer: ")[1].split("\n")[0].split(".")[:-1]])
    return json.dumps(
        {
            "TP": [{"statement": "bix  barks", "reason": "r"}, {"statement": "Made up.", "reason": "r"}],
            "FP": [{"statement": "Ann sings.", "reason": "r"}],
            "FN": [{"statement": "Bix is a dog.", "reason": "r"}],
        }
    )


def test_the_benchmarks_own_prompts_and_replies(bench_files):
    backend = Scripted(model="judge", script=bench_judge)
    tool = measure(judge_prompts="graphrag_bench", alpha=0.75, similarity="shifted")
    query = Query("q", "Who?", answer="Bix is a dog.")
    scores = tool.score([query], ["Bix barks.Ann sings.Ann walks."], asker(backend, prompts=bench_files))
    # As its code has it: the lists are counted as they stand, the made-up statement too. FC = 4 / (4 + 1 + 1).
    assert scores.values["factual_correctness"][0] == pytest.approx(4 / 6)
    said = scores.judgements[0]
    assert said.supported == (True, False, None)
    assert said.missing == (True,)
    assert scores.details["verdicts_unmatched"] == 1
    assert scores.details["statements_without_verdict"] == 1
    sent = backend.asked[-1].messages
    assert [message.role for message in sent] == ["user"]
    assert sent[0].content == (
        'Q: Who?\nAnswer Statements: ["Bix barks.", "Ann sings.", "Ann walks."]\n'
        'Ground Truth Statements: ["Bix is a dog."]\n{"TP": [], ...}'
    )


def test_the_benchmark_gives_one_where_neither_side_has_a_statement(bench_files):
    tool = measure(judge_prompts="graphrag_bench")
    scores = tool.score(QUERIES[:1], ["Yes"], asker(Scripted(script=lambda request: "[]"), prompts=bench_files))
    assert scores.values["factual_correctness"][0] == 1.0


def test_an_empty_classification_fails_and_is_not_one(bench_files):
    def script(request):
        return bench_judge(request) if request.task == "statements" else "{}"

    tool = measure(judge_prompts="graphrag_bench")
    scores = tool.score(QUERIES[:1], ["Bix barks."], asker(Scripted(script=script), prompts=bench_files))
    assert np.isnan(scores.values["factual_correctness"][0])
    assert scores.failed.tolist() == [True]


def test_the_benchmarks_form_needs_its_files(bench_files):
    tool = measure(judge_prompts="graphrag_bench")
    with pytest.raises(ConfigError, match="statements and statement_verdicts are the shipped prompts"):
        tool.score(QUERIES, ["a", "b"], asker(Scripted(script=literal_judge)))
    half = {"statements": bench_files["statements"]}
    with pytest.raises(ConfigError, match="but statement_verdicts are the shipped"):
        tool.score(QUERIES, ["a", "b"], asker(Scripted(script=literal_judge), prompts=half))


def test_what_a_table_says_of_the_leaderboard():
    assert not AccuracyConfig().comparable
    assert AccuracyConfig().note().startswith("not comparable with the leaderboard: judge prompts")
    bench = AccuracyConfig(alpha=0.75, similarity="shifted", judge_prompts="graphrag_bench")
    assert bench.comparable
    assert "not comparable" not in bench.note()
    assert "alpha 0.7 " in replace(bench, alpha=0.7).note()
    assert "'cosine'" in replace(bench, similarity="cosine").note()
    scores, _ = scores_of(REFERENCE)
    assert scores.note == AccuracyConfig().note()


@pytest.mark.parametrize(
    "settings", [{"alpha": 1.2}, {"similarity": "dot"}, {"judge_prompts": "theirs"}, {"repeat": -1}]
)
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ConfigError):
        AccuracyConfig(**settings)


def test_no_judge_and_wrong_lengths_are_refused():
    with pytest.raises(ConfigError, match=r"llm\.judge"):
        measure().score(QUERIES, ["a", "b"])
    judge = asker(Scripted(script=literal_judge))
    with pytest.raises(DataError, match="1 answers for 2"):
        measure().score(QUERIES, ["a"], judge)
    scores = measure().score(QUERIES[:1], [REFERENCE], judge)
    with pytest.raises(DataError, match="2 questions for 1"):
        measure(repeat=1).agreement(QUERIES, scores, judge)


def test_an_encoder_without_unit_vectors_is_refused():
    tool = AccuracyMeasure(AccuracyConfig(), lambda texts: torch.full((len(texts), 2), float("nan")))
    with pytest.raises(DataError, match="unit vectors"):
        tool.score(QUERIES[:1], ["Bix barks."], asker(Scripted(script=literal_judge)))


@given(st.lists(st.booleans(), max_size=6), st.lists(st.booleans(), max_size=6), st.randoms())
def test_a_complete_reply_is_read_in_any_order(supported, missing, chance):
    answer = [{"id": n, "verdict": "tp" if yes else "FP"} for n, yes in enumerate(supported, 1)]
    reference = [{"id": f"[{n}]", "verdict": "FN" if no else "covered"} for n, no in enumerate(missing, 1)]
    chance.shuffle(answer)
    chance.shuffle(reference)
    reply = VerdictsReply.model_validate({"answer": answer, "reference": reference})
    said = judgement_of([f"a{n}" for n in range(len(supported))], [f"r{n}" for n in range(len(missing))], reply)
    assert said.supported == tuple(supported)
    assert said.missing == tuple(missing)
    assert (said.tp, said.fp, said.fn) == (sum(supported), len(supported) - sum(supported), sum(missing))


def test_replies_take_a_bare_list_and_missing_classes():
    assert StatementsReply.model_validate_json('["a", "b"]').texts() == ["a", "b"]
    assert BenchReply.model_validate({"TP": [{"statement": "a"}]}).FP == []


def test_the_benchmarks_lists_are_counted_each_under_its_own_name():
    reply = {name: [{"statement": str(n)} for n in range(size)] for name, size in (("TP", 1), ("FP", 2), ("FN", 4))}
    said = judgement_of(["0", "1"], ["3"], BenchReply.model_validate(reply))
    assert (said.tp, said.fp, said.fn, said.unmatched) == (1, 2, 4, 3)
    assert said.supported == (True, False)
    assert said.missing == (True,)


def test_the_benchmarks_examples_must_be_pasted_in(bench_files, tmp_path):
    path = tmp_path / "raw.txt"
    path.write_text("Examples:\n{examples}\n" + VERDICT_FILE, encoding="utf-8")
    judge = asker(Scripted(script=bench_judge), prompts=bench_files | {"statement_verdicts": str(path)})
    with pytest.raises(ConfigError, match="placeholder 'examples' has no value"):
        measure(judge_prompts="graphrag_bench").score(QUERIES[:1], ["Bix barks."], judge)

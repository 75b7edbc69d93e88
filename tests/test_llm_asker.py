"""Asking: cache, parsing, asking again, quarantine, duplicates, interruption; with a fake and over HTTP."""

from __future__ import annotations

import json

import pydantic
import pytest
from llm_fake import Fake, ask, reply
from llm_server import ScriptedServer, cut_at_length, empty, fails, say, too_long

from aeg.backends.llm import BACKENDS, Asker, Failure, Ledger, Recorded
from aeg.errors import ConfigError, LLMError


class Words(pydantic.BaseModel):
    words: list[str]


GOOD = '{"words": ["a", "b"]}'


def counts(asker: Asker, task: str = "echo") -> dict[str, int]:
    return next((dict(row.counts) for row in asker.ledger.table() if row.task == task and row.counts), {})


def row(asker: Asker):
    return next(row for row in asker.ledger.table() if row.model == asker.backend.model)


def records(folder) -> list[dict]:
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]


def test_answers_are_in_order_and_a_second_run_makes_no_call(tmp_path):
    fake = Fake(model="m", script=lambda request, number: json.dumps({"words": [request.messages[-1].content]}))
    asks = [ask(str(n), reply=Words) for n in range(7)]
    with Asker(fake, tmp_path, Ledger()) as asker:
        answers = asker.ask(asks)
        assert [answer.value.words for answer in answers] == [[str(n)] for n in range(7)]
        assert not any(answer.cached or answer.repaired or answer.failure for answer in answers)
        assert fake.state == {"opened": 1, "closed": 0, "cancelled": 0}
    assert fake.state["closed"] == 1

    with Asker(fake, tmp_path, Ledger()) as again:
        assert [answer.value for answer in again.ask(asks)] == [answer.value for answer in answers]
        assert all(answer.cached for answer in again.ask(asks))
    assert fake.state["opened"] == 1
    assert len(fake.sent) == 7
    assert (row(again).calls, row(again).cache_hits, row(again).prompt_tokens) == (0, 14, 0)
    assert row(again).cached_prompt_tokens == 140


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fake = Fake(script=lambda request, number: "x" if number else Failure("server", "down"))
    asker = Asker(fake, None, Ledger())
    assert [answer.value for answer in asker.ask([ask("1"), ask("2")])] == ["x", None]
    assert list(tmp_path.iterdir()) == []


def test_duplicates_are_asked_once(tmp_path):
    fake = Fake(script=lambda request, number: request.messages[-1].content)
    asker = Asker(fake, tmp_path, Ledger())
    assert [answer.value for answer in asker.ask([ask("x"), ask("y"), ask("x")])] == ["x", "y", "x"]
    assert len(fake.sent) == 2
    assert counts(asker) == {"duplicates": 1}


def test_samples_are_asked_each(tmp_path):
    fake = Fake(script=lambda request, number: f"{number}")
    asker = Asker(fake, tmp_path, Ledger())
    asker.ask([ask("x", sample=n) for n in range(3)])
    assert [request.sample for request in fake.sent] == [2, 1, 0]


def test_a_bad_reply_is_asked_again_with_the_error_told(tmp_path):
    fake = Fake(script=lambda request, number: '{"words": 3}' if number == 0 else GOOD)
    asker = Asker(fake, tmp_path, Ledger())
    (answer,) = asker.ask([ask("x", reply=Words)])
    assert answer.value == Words(words=["a", "b"])
    first, second = fake.sent
    assert second.messages[: len(first.messages)] == first.messages
    assert [turn.role for turn in second.messages[2:]] == ["assistant", "user"]
    assert second.messages[2].content == '{"words": 3}'
    assert "words: Input should be a valid list" in second.messages[3].content
    assert counts(asker) == {"reasked": 1}
    assert row(asker).calls == 2

    (answer,) = Asker(fake, tmp_path, Ledger()).ask([ask("x", reply=Words)])
    assert answer.cached
    assert len(fake.sent) == 2


def test_the_stages_rule_is_told_too():
    fake = Fake(script=lambda request, number: GOOD)
    asker = Asker(fake, None, Ledger(), reasks=1)
    (answer,) = asker.ask([ask("x", reply=Words, check=lambda value: "the word c is missing")])
    assert answer.value is None
    assert answer.failure.kind == "invalid"
    assert "the word c is missing" in fake.sent[1].messages[-1].content


def test_an_empty_reply_is_told_in_the_users_turn():
    fake = Fake(
        script=lambda request, number: "  " if number == 0 else Failure("empty", "none") if number == 1 else "x"
    )
    (answer,) = Asker(fake, None, Ledger()).ask([ask("x")])
    assert answer.value == "x"
    for request in fake.sent:
        assert [turn.role for turn in request.messages] == ["system", "user"]
    assert len({request.messages for request in fake.sent}) == 3


def test_failures_are_quarantined_and_asked_again_by_the_next_run(tmp_path):
    fake = Fake(model="m", script=lambda request, number: "no JSON" if "bad" in request.messages[1].content else GOOD)
    asks = [ask("good", reply=Words), ask("bad", reply=Words)]
    with Asker(fake, tmp_path, Ledger(), reasks=2) as asker:
        good, bad = asker.ask(asks)
    assert good.failure is None
    assert (bad.value, bad.failure.kind, bad.failure.text) == (None, "invalid", "no JSON")
    assert len(fake.sent) == 4
    assert counts(asker) == {"quarantined": 1, "reasked": 2}
    (record,) = records(tmp_path / "quarantine")
    assert (record["task"], record["subject"], record["kind"]) == ("echo", "subject bad", "invalid")
    assert record["reply"] == "no JSON"
    assert record["request"]["messages"][1]["content"] == "bad"
    assert "no JSON" not in "".join(file.read_text() for file in (tmp_path / "cache").iterdir())

    healed = Fake(model="m", script=lambda request, number: GOOD)
    answers = Asker(healed, tmp_path, Ledger()).ask(asks)
    assert [answer.failure for answer in answers] == [None, None]
    assert [request.messages[-1].content for request in healed.sent] == ["bad"]


@pytest.mark.parametrize("kind", ["refused", "rate_limit", "server", "timeout", "connection"])
def test_what_the_backend_gave_up_is_not_asked_again(kind):
    fake = Fake(script=lambda request, number: Failure(kind, "why"))
    asker = Asker(fake, None, Ledger())
    (answer,) = asker.ask([ask("x")])
    assert answer.failure == Failure(kind, "why")
    assert len(fake.sent) == 1
    assert counts(asker) == {"quarantined": 1}


def test_a_length_cut_reply_gets_twice_the_tokens_once(tmp_path):
    fake = Fake(script=lambda request, number: reply(GOOD, finish="length"))
    asker = Asker(fake, tmp_path, Ledger(), reasks=3)
    (answer,) = asker.ask([ask("x", reply=Words, max_tokens=100)])
    assert answer.failure.kind == "length"
    assert [request.max_tokens for request in fake.sent] == [100, 200]
    assert fake.sent[0].messages == fake.sent[1].messages
    assert not (tmp_path / "cache").exists()
    assert counts(asker) == {"quarantined": 1, "reasked": 1}


def test_the_longer_reply_is_cached_under_the_first_request(tmp_path):
    fake = Fake(script=lambda request, number: reply(GOOD, finish="stop" if number else "length"))
    for _ in range(2):
        (answer,) = Asker(fake, tmp_path, Ledger()).ask([ask("x", reply=Words)])
        assert answer.value.words == ["a", "b"]
    assert len(fake.sent) == 2


def test_a_context_length_failure_is_returned_for_the_stage_to_split(tmp_path):
    fake = Fake(script=lambda request, number: Failure("context_length", "too long"))
    asker = Asker(fake, tmp_path, Ledger())
    (answer,) = asker.ask([ask("x")])
    assert answer.failure.kind == "context_length"
    assert counts(asker) == {"context_length": 1}
    assert not (tmp_path / "quarantine").exists()
    asker.quarantine(ask("x"), answer.failure)
    assert [record["kind"] for record in records(tmp_path / "quarantine")] == ["context_length"]
    assert counts(asker) == {"context_length": 1, "quarantined": 1}


def test_a_reask_that_is_too_long_counts_as_what_failed_before():
    fake = Fake(script=lambda request, number: "no" if number == 0 else Failure("context_length", "too long"))
    (answer,) = Asker(fake, None, Ledger()).ask([ask("x", reply=Words)])
    assert answer.failure.kind == "invalid"


def test_a_reply_that_breaks_off_is_used_counted_and_not_cached(tmp_path):
    fake = Fake(script=lambda request, number: '{"words": ["a", "b"], "x": "brea' if number == 0 else GOOD)
    asker = Asker(fake, tmp_path, Ledger())
    (answer,) = asker.ask([ask("x", reply=Words)])
    assert (answer.value.words, answer.repaired, answer.partial) == (["a", "b"], True, True)
    assert counts(asker) == {"partial": 1, "repaired": 1}
    assert [record["kind"] for record in records(tmp_path / "quarantine")] == ["partial"]
    (answer,) = Asker(fake, tmp_path, Ledger()).ask([ask("x", reply=Words)])
    assert not answer.partial
    assert len(fake.sent) == 2


def test_a_repaired_reply_is_cached_and_still_says_so(tmp_path):
    fake = Fake(script=lambda request, number: 'Here: {"words": ["a",],}')
    for cached in (False, True):
        asker = Asker(fake, tmp_path, Ledger())
        (answer,) = asker.ask([ask("x", reply=Words)])
        assert (answer.value.words, answer.repaired, answer.cached) == (["a"], True, cached)
        assert counts(asker) == {"repaired": 1}
    assert len(fake.sent) == 1


def test_a_cached_reply_that_breaks_a_new_rule_is_replaced(tmp_path):
    fake = Fake(script=lambda request, number: '{"words": ["old"]}' if number == 0 else '{"words": ["new"]}')
    Asker(fake, tmp_path, Ledger()).ask([ask("x", reply=Words)])
    rule = lambda value: None if value.words == ["new"] else "not new"  # noqa: E731
    for stale in (1, 0):
        asker = Asker(fake, tmp_path, Ledger())
        (answer,) = asker.ask([ask("x", reply=Words, check=rule)])
        assert answer.value.words == ["new"]
        assert len(fake.sent) == 2
        assert counts(asker) == ({"stale": 1} if stale else {})


def test_an_interruption_keeps_what_arrived_and_cancels_the_rest(tmp_path):
    def script(request, number):
        if number == 3:
            raise KeyboardInterrupt
        return "x"

    asks = [ask(str(n)) for n in range(6)]
    with pytest.raises(KeyboardInterrupt):
        Asker(Fake(script=script), tmp_path, Ledger()).ask(asks)
    fake = Fake(script=lambda request, number: "y")
    answers = Asker(fake, tmp_path, Ledger()).ask(asks)
    assert len(fake.sent) == 3
    assert sorted(answer.value for answer in answers) == ["x"] * 3 + ["y"] * 3


def test_closing_the_stream_closes_the_backends_iterator():
    fake = Fake(script=lambda request, number: "x")
    stream = Asker(fake, None, Ledger()).stream([ask("1"), ask("2")])
    assert next(stream)[1].value == "x"
    stream.close()
    assert fake.state["cancelled"] == 1
    assert len(fake.sent) == 1


def test_reasoning_is_left_out_of_free_text():
    fake = Fake(script=lambda request, number: "<think>hm</think> Yes.\n")
    (answer,) = Asker(fake, None, Ledger()).ask([ask("x")])
    assert answer.value == "Yes."


def test_lone_surrogates_reach_neither_files_nor_requests(tmp_path):
    fake = Fake(script=lambda request, number: '{"words": "\ud83d"}' if number == 0 else '{"words": ["\ud83d"]}')
    (answer,) = Asker(fake, tmp_path, Ledger()).ask([ask("x", reply=Words)])
    assert answer.value.words == ["\ufffd"]
    for turn in fake.sent[1].messages:
        turn.content.encode()


def test_identity_names_no_endpoint_and_follows_the_prompts(tmp_path):
    backend = BACKENDS.make("openai", model="m", base_url="http://10.0.0.1:1/v1", api_key_env="SECRET_NAME")
    asker = Asker(backend, None, Ledger())
    identity = asker.identity("ner")
    text = json.dumps(identity)
    assert identity["backend"] == "openai"
    assert "10.0.0.1" not in text
    assert "SECRET_NAME" not in text
    (tmp_path / "mine.txt").write_text("### user\nEntities of {{text}}?")
    mine = Asker(backend, None, Ledger(), prompts={"ner": "mine.txt"}, root=tmp_path)
    assert mine.identity("ner")["prompts"]["ner"] != identity["prompts"]["ner"]
    assert mine.prompt("ner").messages(text="x")[0].content == "Entities of x?"
    assert mine.prompt("ner") is mine.prompt("ner")


def test_an_estimate_counts_what_the_cache_lacks(tmp_path):
    fake = Fake(model="m", script=lambda request, number: "x")
    asks = [ask("1"), ask("2"), ask("2"), ask("3", max_tokens=50)]
    asker = Asker(fake, tmp_path, Ledger())
    asker.ask(asks[:1])
    (estimate,) = asker.estimate(asks)
    assert (estimate.task, estimate.calls, estimate.cache_hits) == ("echo", 2, 1)
    assert estimate.completion_tokens == 1024 + 50
    assert asker.estimate(asks, completion_tokens=7)[0].completion_tokens == 14
    assert len(fake.sent) == 1
    assert estimate.cost is None


def test_a_recording_made_over_http_replays_without_the_endpoint(tmp_path):
    asks = [ask(str(n), reply=Words) for n in range(3)]
    with ScriptedServer(lambda got: {"words": [got.prompt]}) as server:
        live = BACKENDS.make("openai", model="m", base_url=server.url, extra_body={"top_k": 5})
        with Asker(live, tmp_path, Ledger()) as asker:
            answers = asker.ask(asks)
    replay = Recorded(model="m", folder=str(tmp_path / "cache"))
    with Asker(replay, tmp_path / "other", Ledger()) as again:
        assert [answer.value for answer in again.ask(asks)] == [answer.value for answer in answers]
        assert all(answer.cached for answer in again.ask(asks))
        assert (row(again).calls, row(again).cache_hits, row(again).cost) == (0, 6, 0.0)
        with pytest.raises(LLMError, match="no reply to echo of 'subject new', by model 'm'"):
            again.ask([*asks, ask("new", reply=Words)])
    assert not (tmp_path / "other" / "cache").exists()
    for wrong in ({"model": "n"}, {"seed": 1}, {"temperature": 0.5}):
        backend = Recorded(**{"model": "m", "folder": str(tmp_path / "cache"), **wrong})
        with pytest.raises(LLMError, match="and 2 more"):
            Asker(backend, None, Ledger()).ask(asks)


def test_a_recording_may_lack_what_failed(tmp_path):
    fake = Fake(model="m", script=lambda request, number: "x" if "1" in request.messages[1].content else reply(" "))
    with Asker(fake, tmp_path, Ledger(), reasks=0) as asker:
        live = asker.ask([ask("1"), ask("2")])
    replay = Recorded(model="m", folder=str(tmp_path / "cache"), missing="failure")
    answers = Asker(replay, None, Ledger()).ask([ask("1"), ask("2")])
    assert [answer.value for answer in answers] == [answer.value for answer in live] == ["x", None]
    assert answers[1].failure.kind == "missing"


def test_recordings_of_two_configurations_are_told_apart(tmp_path):
    for text, top_k in (("a", 1), ("b", 2)):
        with ScriptedServer(text) as server:
            live = BACKENDS.make("openai", model="m", base_url=server.url, extra_body={"top_k": top_k})
            with Asker(live, tmp_path, Ledger()) as asker:
                asker.ask([ask("x")])
    with pytest.raises(LLMError, match="different parameters"):
        Asker(Recorded(model="m", folder=str(tmp_path / "cache")), None, Ledger()).ask([ask("x")])


def test_a_folder_without_a_recording_is_an_error(tmp_path):
    for folder in ("", str(tmp_path), str(tmp_path / "none")):
        with pytest.raises(ConfigError, match="holds no recording"):
            Recorded(model="m", folder=folder).open()


def test_over_http_each_kind_of_trouble_is_handled(tmp_path):
    behaviours = {
        "good": [GOOD],
        "fence": [f"```json\n{GOOD}\n```"],
        "invalid": [say("no"), GOOD],
        "empty": [empty(), GOOD],
        "length": [cut_at_length(GOOD[:9]), GOOD],
        "context": [too_long("vllm")],
        "refused": [fails(400, "bad field")],
        "busy": [fails(500), GOOD],
    }
    seen: dict[str, int] = {}

    def script(received):
        name = received.body["messages"][1]["content"].split()[0]
        seen[name] = seen.get(name, 0) + 1
        return behaviours[name][min(seen[name], len(behaviours[name])) - 1]

    with ScriptedServer(script) as server:
        backend = BACKENDS.make("openai", model="m", base_url=server.url, backoff_base=0.01)
        with Asker(backend, tmp_path, Ledger()) as asker:
            answers = dict(zip(behaviours, asker.ask([ask(name, reply=Words) for name in behaviours]), strict=True))
        calls = server.calls
        with Asker(backend, tmp_path, Ledger()) as again:
            again.ask([ask(name, reply=Words) for name in behaviours if answers[name].failure is None])
        assert server.calls == calls
    failures = {name: answer.failure.kind for name, answer in answers.items() if answer.failure}
    assert failures == {"context": "context_length", "refused": "refused"}
    assert [name for name, answer in answers.items() if answer.repaired] == ["fence"]
    assert counts(asker) == {"context_length": 1, "quarantined": 1, "reasked": 3, "repaired": 1}
    assert seen == {name: len(steps) for name, steps in behaviours.items()}

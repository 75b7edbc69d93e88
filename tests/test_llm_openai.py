"""The `openai` backend against a scripted local server."""

from __future__ import annotations

import itertools
import json
import logging
import signal
import threading
import time

import pytest
from llm_server import (
    ScriptedServer,
    cut_at_length,
    cuts,
    empty,
    fails,
    garbage,
    hangs,
    say,
    too_long,
    too_many,
    trickles,
)

from aeg.backends.llm.base import BACKENDS, Failure, Message, Reply, Request
from aeg.backends.llm.connection import is_proxied
from aeg.backends.llm.openai import OFFICIAL, OpenAI
from aeg.errors import ConfigError, LLMError

KEY = "sk-very-secret-0123456789"


def ask(text="hello", **fields):
    return Request("task", text, (Message("system", "Be brief."), Message("user", text)), **fields)


def backend(server, **fields):
    fields = {"model": "m", "backoff_base": 0.01, "timeout": 5.0, **fields}
    return OpenAI(base_url=server.url, **fields)


def send(server, requests, **fields):
    with backend(server, **fields).open() as session:
        return dict(session.send(requests))


def only(script, **fields):
    """Return the outcome of one request, and how often it was sent."""
    with ScriptedServer(script) as server:
        return send(server, [ask()], **fields)[0], server.calls


def until(holds, seconds=10.0):
    """Wait until something holds; tell whether it came to that."""
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()


# What the server does, and what becomes of it


def test_a_reply_comes_with_its_tokens_and_time():
    outcome, calls = only([say("hi", delay=0.05, prompt_tokens=11, completion_tokens=3)])
    assert isinstance(outcome, Reply)
    assert (outcome.text, outcome.prompt_tokens, outcome.completion_tokens, outcome.finish) == ("hi", 11, 3, "stop")
    assert 0.05 <= outcome.seconds < 3
    assert calls == 1


@pytest.mark.parametrize(
    "bad",
    [
        too_many(),
        fails(500),
        fails(503),
        fails(409),
        cuts(),
        cuts(chunked=True),
        cuts(after=0),
        garbage(),
        garbage(b"<html>busy</html>", "text/html"),
        garbage(b'data: {"choices": []}\n\ndata: {"cho', "text/event-stream"),
        garbage(b'{"choices": []}'),
        garbage(b'{"error": {"message": "upstream is busy", "code": 502}}'),
        say("half a rep", finish="abort"),
        hangs(),
        trickles(),
    ],
    ids=lambda bad: f"{bad.status}-{bad.content_type}-{bad.cut}-{bad.hang}-{bad.trickle}",
)
def test_what_may_pass_is_tried_again(bad):
    outcome, calls = only([bad, bad, say("fine")], timeout=0.3)
    assert isinstance(outcome, Reply), outcome
    assert outcome.text == "fine"
    assert calls == 3


@pytest.mark.parametrize(
    ("bad", "kind", "said"),
    [
        (too_many(), "rate_limit", "HTTP 429: Rate limit reached (3 attempts)"),
        (fails(500), "server", "HTTP 500: the server had an error (3 attempts)"),
        (cuts(), "connection", "(3 attempts)"),
        (cuts(chunked=True), "connection", "(3 attempts)"),
        (cuts(after=0), "connection", "(3 attempts)"),
        (garbage(), "connection", "breaks off or is no JSON"),
        (garbage(b'{"choices": []}'), "server", "no chat completion"),
        (hangs(), "timeout", "no reply within 0.2 s"),
        (trickles(), "timeout", "no reply within 0.2 s"),
    ],
)
def test_what_does_not_pass_is_a_failure_after_the_attempts(bad, kind, said):
    outcome, calls = only([bad], max_attempts=3, timeout=0.2)
    assert isinstance(outcome, Failure)
    assert outcome.kind == kind
    assert said in outcome.message
    assert calls == 3


@pytest.mark.parametrize("flavour", ["openai", "vllm", "llama_cpp"])
def test_a_request_longer_than_the_context_is_told_apart_and_not_repeated(flavour):
    outcome, calls = only([too_long(flavour)])
    assert isinstance(outcome, Failure)
    assert outcome.kind == "context_length"
    assert calls == 1


@pytest.mark.parametrize("bad", [fails(400, "unknown field 'foo'"), fails(403, "not in your region"), fails(422)])
def test_other_refusals_are_not_repeated(bad):
    outcome, calls = only([bad])
    assert isinstance(outcome, Failure)
    assert outcome.kind == "refused"
    assert calls == 1


def test_an_empty_reply_is_a_failure_that_was_paid_for():
    outcome, calls = only([empty(prompt_tokens=9)])
    assert (outcome.kind, outcome.prompt_tokens, calls) == ("empty", 9, 1)
    assert only([say(None)])[0].kind == "empty"
    assert only([say("<think>hm</think>", completion_tokens=4)])[0].completion_tokens == 4


def test_a_reply_cut_at_its_limit_says_so():
    outcome, _ = only([cut_at_length('{"atoms": ["Ann ow')])
    assert (outcome.text, outcome.finish) == ('{"atoms": ["Ann ow', "length")
    outcome, _ = only([cut_at_length("<think>so many thoughts")])
    assert (outcome.text, outcome.finish) == ("", "length")


def test_a_refusal_and_a_content_filter_are_failures():
    assert only([say(None, message=(("refusal", "I cannot."),))])[0].kind == "refused"
    outcome, _ = only([say("half", finish="content_filter")])
    assert (outcome.kind, outcome.text) == ("refused", "half")


def test_reasoning_is_left_out():
    fields = (("reasoning_content", "a long thought"), ("reasoning", "another"))
    assert only([say("four", message=fields)])[0].text == "four"
    assert only([say("<think>2 + 2\n= 4</think>\n\nfour")])[0].text == "four"
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "fo"}, {"type": "text", "text": "ur"}]
    assert only([say("", message=(("content", parts),))])[0].text == "four"


def test_tokens_are_estimated_where_the_endpoint_counts_none():
    body = json.dumps({"choices": [{"message": {"content": "abcdef"}, "finish_reason": "stop"}]}).encode()
    outcome, _ = only([garbage(body)])
    assert outcome.completion_tokens == 2
    assert 8 <= outcome.prompt_tokens <= 20


# Scenario 8 of FACTS.md


def test_retry_after_is_honoured_three_times():
    with ScriptedServer([too_many(0.3), too_many(0.3), too_many(0.3), say("at last")]) as server:
        outcome = send(server, [ask()])[0]
        times = [received.at for received in server.received]
    assert outcome.text == "at last"
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(waits) == 3
    assert min(waits) >= 0.3


def test_a_request_that_is_turned_away_for_ever_harms_no_other():
    def script(received):
        return too_many(0.02) if received.prompt == "unlucky" else say(f"re {received.prompt}")

    names = [f"q{index}" for index in range(30)]
    names[7] = "unlucky"
    with ScriptedServer(script) as server:
        outcomes = send(server, [ask(name) for name in names], max_concurrency=4, max_attempts=5)
        tries = server.prompts.count("unlucky")
    assert sorted(outcomes) == list(range(30))
    assert outcomes[7].kind == "rate_limit"
    assert tries == 5
    assert all(outcomes[index].text == f"re {name}" for index, name in enumerate(names) if index != 7)


def test_a_wish_to_wait_for_hours_is_capped():
    begun = time.monotonic()
    outcome, calls = only([too_many(7200), say("fine")], longest_wait=0.1)
    assert (outcome.text, calls) == ("fine", 2)
    assert 0.1 <= time.monotonic() - begun < 5


# What concerns all requests ends the run


@pytest.mark.parametrize(
    "bad", [fails(401, "bad key"), fails(404, "no such model"), fails(429, "pay first", "insufficient_quota")]
)
def test_what_no_request_can_pass_is_an_error_at_once(bad):
    with ScriptedServer([bad]) as server, backend(server, max_concurrency=1).open() as session:
        with pytest.raises(LLMError, match=r"http://127.0.0.1:\d+/v1, model 'm': .*HTTP 4\d\d: (bad|no|pay) .*See"):
            list(session.send([ask("a"), ask("b"), ask("c")]))
        assert server.calls == 1


def test_an_endpoint_that_is_gone_ends_the_run_after_some_requests():
    with ScriptedServer(lambda received: say("x") if received.number < 3 else fails(502)) as server:
        made = backend(server, max_concurrency=1, max_attempts=1, give_up_after=4)
        outcomes = []
        with made.open() as session:
            stream = session.send([ask(str(index)) for index in range(20)])
            with pytest.raises(LLMError, match=r"4 requests in a row brought no reply.*HTTP 502"):
                outcomes.extend(outcome for _, outcome in stream)
        assert [isinstance(outcome, Reply) for outcome in outcomes] == [True] * 3 + [False] * 3
        assert server.calls == 7


def test_an_endpoint_that_cannot_be_reached_is_a_connection_failure():
    with ScriptedServer() as server:
        made = backend(server, max_attempts=2)
    with made.open() as session:  # the server is gone
        outcomes = dict(session.send([ask(), ask("b")]))
    assert {outcome.kind for outcome in outcomes.values()} == {"connection"}
    assert "2 attempts" in outcomes[0].message


# Concurrency, order, cancelling


def test_no_more_than_max_concurrency_are_under_way_and_that_many_are():
    with ScriptedServer("ok", delay=0.05) as server:
        outcomes = send(server, [ask(str(index)) for index in range(60)], max_concurrency=12)
        assert server.peak == 12
        assert server.connections == 12
    assert sorted(outcomes) == list(range(60))


def test_two_batches_of_a_session_share_the_bound():
    with ScriptedServer("ok", delay=0.02) as server, backend(server, max_concurrency=3).open() as session:
        found = []
        threads = [
            threading.Thread(target=lambda: found.extend(session.send([ask(str(index)) for index in range(12)])))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.peak == 3
    assert sorted(position for position, _ in found) == sorted([*range(12), *range(12)])


def test_replies_come_as_they_arrive():
    def script(received):
        return say(received.prompt, delay=1.0 if received.prompt == "0" else 0.0)

    with ScriptedServer(script) as server, backend(server).open() as session:
        order = [position for position, _ in session.send([ask(str(index)) for index in range(10)])]
    assert order[-1] == 0
    assert sorted(order) == list(range(10))


def test_an_empty_batch_sends_nothing():
    with ScriptedServer() as server:
        assert send(server, []) == {}
        assert server.connections == 0


def test_closing_the_iterator_cancels_what_is_under_way_and_the_session_goes_on():
    def script(received):
        return say("fast") if received.prompt in ("0", "again") else hangs()

    with ScriptedServer(script) as server, backend(server, max_concurrency=4, timeout=60).open() as session:
        stream = session.send([ask(str(index)) for index in range(100)])
        assert next(stream)[1].text == "fast"
        assert until(lambda: server.active == 4 and server.calls == 5)
        begun = time.monotonic()
        stream.close()
        assert time.monotonic() - begun < 5
        assert until(lambda: server.active == 0)
        assert server.dropped == 4
        assert dict(session.send([ask("again")]))[0].text == "fast"
        assert server.calls == 6


def test_closing_the_session_first_ends_the_iterator_with_an_error():
    with ScriptedServer([say("fast"), hangs()]) as server:
        session = backend(server, timeout=60).open()
        stream = session.send([ask("a"), ask("b")])
        next(stream)
        session.close()
        session.close()
        with pytest.raises(LLMError, match="closed while 1 of 2"):
            next(stream)


def test_a_keyboard_interrupt_comes_through():
    with ScriptedServer([hangs()]) as server, backend(server, timeout=60).open() as session:
        timer = threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            list(session.send([ask()]))
        assert time.monotonic() - begun < 10


def test_rate_limits_are_kept_while_many_are_under_way():
    with ScriptedServer("ok") as server:
        begun = time.monotonic()
        send(server, [ask(str(index)) for index in range(15)], requests_per_minute=600, max_concurrency=15)
        assert server.received[-1].at - begun >= 0.5  # 10 at once, then 10 a second


# What is sent


def body_of(request=None, **fields):
    with ScriptedServer() as server:
        send(server, [request or ask()], **fields)
        return server.received[0].body


def test_the_body_holds_what_the_request_says():
    body = body_of(ask("Zürich 青岛", max_tokens=77, sample=2), seed=5, temperature=0.7)
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Zürich 青岛"}],
        "max_tokens": 77,
        "temperature": 0.7,
        "seed": 7,
    }


def test_a_schema_is_asked_for_in_the_form_that_the_endpoint_knows():
    schema = '{"properties":{"a":{"type":"string"}},"type":"object"}'
    form = body_of(ask(schema=schema))["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"] == {"name": "reply", "schema": json.loads(schema), "strict": True}
    assert body_of(ask(schema=schema), structured="json_object")["response_format"] == {"type": "json_object"}
    assert "response_format" not in body_of(ask(schema=schema), structured="none")
    assert "response_format" not in body_of(ask())


def test_fields_can_be_added_and_left_out():
    body = body_of(
        extra_body={"chat_template_kwargs": {"enable_thinking": False}},
        send_seed=False,
        send_temperature=False,
        token_limit="max_completion_tokens",
    )
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["max_completion_tokens"] == 1024
    assert not {"seed", "temperature", "max_tokens"} & set(body)
    with pytest.raises(ConfigError, match=r"extra_body\.temperature"):
        OpenAI(extra_body={"temperature": 1})


def test_a_lone_surrogate_in_a_passage_does_no_harm():
    assert body_of(ask("half \ud83d a pair"))["messages"][1]["content"] == "half ? a pair"


def test_a_query_of_the_base_url_is_sent_and_is_no_part_of_the_endpoint():
    with ScriptedServer() as server:
        made = OpenAI(model="m", base_url=f"{server.url}/?api-version=2024-10-21")
        with made.open() as session:
            list(session.send([ask()]))
        assert server.received[0].path == "/v1/chat/completions?api-version=2024-10-21"
        assert made.endpoint == server.url


def test_what_decides_a_reply_is_in_the_parameters():
    made = OpenAI(model="m")
    assert made.endpoint == OFFICIAL
    assert made.limit_field == "max_completion_tokens"
    for other in (
        OpenAI(model="m", temperature=1),
        OpenAI(model="m", seed=1),
        OpenAI(model="m", structured="none"),
        OpenAI(model="m", extra_body={"top_k": 1}),
    ):
        assert other.parameters != made.parameters
    same = OpenAI(model="m", max_concurrency=5, timeout=7, requests_per_minute=9, max_attempts=2)
    assert same.parameters == made.parameters


def test_it_is_made_from_a_config():
    spec = {
        "name": "openai",
        "model": "m",
        "base_url": "http://h:1/v1",
        "tokens_per_minute": 1000,
        "extra_body": {"a": 1},
    }
    made = BACKENDS.from_spec(spec, "llm.reader")
    assert made == OpenAI(model="m", base_url="http://h:1/v1", tokens_per_minute=1000, extra_body={"a": 1})
    with pytest.raises(ConfigError, match="structured"):
        BACKENDS.from_spec({**spec, "structured": "jsonschema"}, "llm.reader")


# Keys


def test_openai_itself_needs_a_key_from_the_environment(monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(LLMError, match="MY_KEY is not set"):
        OpenAI(model="m", api_key_env="MY_KEY").open()
    with pytest.raises(LLMError, match="MY_KEY is not set"):
        OpenAI(model="m", base_url="https://eu.api.openai.com/v1", api_key_env="MY_KEY").open()
    OpenAI(model="m").open().close()


def test_a_model_must_be_named():
    with pytest.raises(ConfigError, match="model"):
        OpenAI(base_url="http://127.0.0.1:1/v1").open()


def test_the_key_is_sent_and_shown_nowhere(monkeypatch, caplog):
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/elsewhere")
    caplog.set_level(logging.DEBUG)
    echo = f"you sent {KEY}, which I do not like"
    with ScriptedServer([fails(500, echo), fails(400, echo), fails(401, echo)]) as server:
        made = backend(server, api_key_env="MY_KEY", max_concurrency=1)
        with made.open() as session:
            shown = [repr(made), repr(session), str(made.parameters), made.endpoint]
            shown += [str(dict(session.send([ask()])))]
            with pytest.raises(LLMError) as caught:
                list(session.send([ask()]))
        received = server.received
    assert "you sent ***" in shown[-1]
    assert "you sent ***" in str(caught.value)
    assert {found.headers["authorization"] for found in received} == {f"Bearer {KEY}"}
    assert not any("openai-organization" in found.headers for found in received)
    assert "attempt 1 of 6" in caplog.text
    for text in (*shown, str(caught.value), caplog.text):
        assert KEY not in text


@pytest.mark.parametrize(
    "fields",
    [
        {"api_key_env": KEY},
        {"api_key_env": "sk_live_0123456789"},
        {"base_url": f"http://user:{KEY}@host/v1"},
        {"base_url": f"http://{KEY}@host/v1"},
        {"base_url": f"http://host/v1?api_key={KEY}"},
        {"base_url": f"host/{KEY}"},
    ],
)
def test_a_key_in_the_config_is_refused_without_repeating_it(fields):
    with pytest.raises(ConfigError) as caught:
        OpenAI(model="m", **fields)
    assert KEY not in str(caught.value)
    assert "sk_live" not in str(caught.value)


def test_an_address_with_the_call_in_it_is_refused():
    with pytest.raises(ConfigError, match="without '/chat/completions'"):
        OpenAI(model="m", base_url="http://127.0.0.1:1/v1/chat/completions")


# Proxies


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert only(["straight"], max_attempts=1)[0].text == "straight"
    assert is_proxied("http://node7:8000/v1")
    monkeypatch.setenv("NO_PROXY", "node7")
    monkeypatch.setenv("no_proxy", "node7")
    assert not is_proxied("http://node7:8000/v1")


def test_a_proxy_is_used_for_other_machines(monkeypatch):
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with ScriptedServer(["through the proxy"]) as server:
        monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
        made = OpenAI(model="m", base_url="http://node7.example:8000/v1", max_attempts=1)
        with made.open() as session:
            assert dict(session.send([ask()]))[0].text == "through the proxy"
        assert server.received[0].path == "http://node7.example:8000/v1/chat/completions"


def test_a_proxy_that_cannot_be_used_is_an_error_without_its_password(monkeypatch):
    monkeypatch.setenv("http_proxy", f"gopher://user:{KEY}@host:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    made = OpenAI(model="m", base_url="http://node7.example/v1")
    with made.open() as session, pytest.raises(LLMError, match="proxy") as caught:
        list(session.send([ask()]))
    assert KEY not in str(caught.value)

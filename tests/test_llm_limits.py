"""Rate limits, back-off and the reading of errors, without a server."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeg.backends.llm.base import FAILURES
from aeg.backends.llm.limiter import Bucket, Limiter
from aeg.backends.llm.reasoning import strip_reasoning
from aeg.backends.llm.retry import Backoff, retry_after, trouble_of, trouble_of_status


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@given(
    per_minute=st.floats(1, 1e6),
    amounts=st.lists(st.tuples(st.floats(0, 5), st.floats(0.01, 3)), min_size=1, max_size=40),
)
def test_a_bucket_never_lets_out_more_than_its_rate(per_minute, amounts):
    clock = Clock()
    bucket = Bucket(per_minute, clock)
    taken = []
    for pause, share in amounts:
        clock.now += pause
        amount = share * bucket.capacity
        clock.now += bucket.wait(amount)
        assert bucket.wait(amount) <= 1e-6 * max(1.0, bucket.capacity / bucket.rate)
        bucket.take(amount)
        taken.append((clock.now, amount))
    for first, (begun, _) in enumerate(taken):
        for last in range(first, len(taken)):
            out = sum(amount for _, amount in taken[first:last])  # the last may leave a debt
            assert out <= (bucket.capacity + bucket.rate * (taken[last][0] - begun)) * 1.000001


@given(per_minute=st.floats(1, 1e6), amounts=st.lists(st.floats(0.01, 3), min_size=2, max_size=40))
def test_a_busy_bucket_lets_out_its_rate_exactly(per_minute, amounts):
    clock = Clock()
    bucket = Bucket(per_minute, clock)
    sent = [share * bucket.capacity for share in amounts]
    for amount in sent:
        clock.now += bucket.wait(amount)
        bucket.take(amount)
    # The time until the bucket is full again is what was taken, at the rate: nothing lost, nothing invented.
    clock.now += bucket.wait(bucket.capacity)
    assert clock.now == pytest.approx(sum(sent) / bucket.rate, rel=1e-6)


@given(estimates=st.lists(st.tuples(st.floats(1, 100), st.floats(0, 1)), min_size=1, max_size=20))
def test_a_corrected_estimate_counts_as_what_it_took(estimates):
    clock = Clock()
    bucket, exact = Bucket(600_000, clock), Bucket(600_000, clock)
    for estimate, share in estimates:
        bucket.take(estimate)
        bucket.give(estimate * (1 - share))
        exact.take(estimate * share)
    assert bucket.wait(bucket.capacity) == pytest.approx(exact.wait(exact.capacity), abs=1e-9)


def test_the_limiter_spaces_requests_and_keeps_their_order():
    order = []

    async def one(limiter, index):
        await limiter.acquire(1)
        order.append(index)

    async def run():
        limiter = Limiter(requests_per_minute=1200)  # 20 at once, then 20 a second
        begun = time.monotonic()
        await asyncio.gather(*(one(limiter, index) for index in range(30)))
        return time.monotonic() - begun

    assert 0.5 <= asyncio.run(run()) < 3
    assert order == list(range(30))


def test_tokens_that_were_not_needed_are_there_at_once():
    async def run():
        limiter = Limiter(tokens_per_minute=600)  # 10 a second
        await limiter.acquire(500)
        waiting = asyncio.create_task(limiter.acquire(5))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        begun = time.monotonic()
        limiter.correct(estimated=500, actual=2)
        await waiting
        return time.monotonic() - begun

    assert asyncio.run(run()) < 1


def test_a_cancelled_wait_takes_nothing_and_blocks_no_one():
    async def run():
        limiter = Limiter(requests_per_minute=60)
        await limiter.acquire(1)
        waiting = asyncio.create_task(limiter.acquire(1))
        await asyncio.sleep(0.05)
        waiting.cancel()
        begun = time.monotonic()
        await limiter.acquire(1)
        return time.monotonic() - begun

    assert asyncio.run(run()) < 1.5


def test_no_limit_never_waits():
    async def run():
        limiter = Limiter()
        for _ in range(1000):
            await limiter.acquire(1e9)
        limiter.correct(1, 2)

    asyncio.run(asyncio.wait_for(run(), 5))


@given(attempt=st.integers(1, 100_000), base=st.floats(0, 10), cap=st.floats(0, 100), seed=st.integers(0, 99))
def test_back_off_is_bounded_and_repeatable(attempt, base, cap, seed):
    wait = Backoff(base, cap, seed=seed).wait(attempt)
    assert min(cap, base * 2.0 ** min(attempt - 1, 60)) / 2 <= wait <= cap
    assert wait == Backoff(base, cap, seed=seed).wait(attempt)


def test_back_off_has_jitter():
    backoff = Backoff(1, 60)
    assert len({backoff.wait(4) for _ in range(20)}) == 20


@given(asked=st.floats(0, 1e9))
def test_what_the_endpoint_asks_for_is_waited_for_up_to_a_cap(asked):
    wait = Backoff(longest=120).wait(1, asked)
    assert min(asked, 120) <= wait <= min(asked, 120) + 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7), ("0", 0), ("0.5", 0.5), ("Thu, 01 Jan 1970 00:02:00 GMT", 20), ("Thu, 01 Jan 1970 00:00:01 GMT", 0)],
)
def test_retry_after_is_seconds_or_a_date(value, seconds):
    assert retry_after({"Retry-After": value}, now=100.0) == seconds


@pytest.mark.parametrize("value", ["", "soon", "-3", "nan", "inf", "1e9", "9" * 400, "Thu, 99 Foo 1970", "²"])
def test_a_retry_after_that_means_nothing_is_ignored(value):
    assert retry_after({"retry-after": value}) is None


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."),
        (400, "This model's maximum context length is 2048 tokens. However, your request has 8 input tokens plus 2045"),
        (400, "The decoder prompt (length 2136) is longer than the maximum model length of 2048."),
        (400, "The prompt (total length 25938) is too long to fit into the model (context length 4096)."),
        (500, "Context size has been exceeded."),
        (400, "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it"),
        (
            500,
            "the request exceeds the available context size. try increasing the context size or enable context shift",
        ),
        (400, "Requested tokens (2285) exceed context window of 2048"),
        (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
        (400, "Input length 9000 exceeds the maximum allowed length of 8192"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (429, "Request too large for m on tokens per min (TPM): Limit 10000, Requested 12000."),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"),
        (413, "Payload Too Large"),
    ],
)
def test_messages_about_the_context_are_known(status, message):
    found = trouble_of_status(status, {"error": {"message": message}}, {})
    assert (found.kind, found.again) == ("context_length", False)


@pytest.mark.parametrize(
    ("status", "message", "kind", "again"),
    [
        (400, "Invalid schema for response_format 'reply'", "refused", False),
        (400, "Unsupported parameter: 'max_tokens' is not supported with this model.", "refused", False),
        (400, "max_tokens must be at least 1", "refused", False),
        (403, "Country not supported", "refused", False),
        (
            429,
            "Rate limit reached for tokens per min (TPM): Limit 10000, Used 9000, Requested 2000",
            "rate_limit",
            True,
        ),
        (408, "Request Timeout", "server", True),
        (500, "CUDA out of memory", "server", True),
        (529, "overloaded", "server", True),
    ],
)
def test_other_messages_are_not_taken_for_it(status, message, kind, again):
    found = trouble_of_status(status, {"error": {"message": message}}, {})
    assert (found.kind, found.again, found.fatal) == (kind, again, False)


@pytest.mark.parametrize(
    "body", ["", "<html>\n busy </html>", None, [], {}, {"error": None}, {"error": "no"}, {"detail": "no"}]
)
@pytest.mark.parametrize("status", [300, 400, 404, 418, 429, 500, 599])
def test_any_body_of_an_error_is_read(status, body):
    found = trouble_of_status(status, body, {})
    assert found.kind in FAILURES
    assert f"HTTP {status}" in found.message
    assert "\n" not in found.message


def test_a_long_message_is_cut():
    assert len(trouble_of_status(500, "x" * 10_000, {}).message) < 500


def test_errors_of_the_transport_are_connection_failures():
    error = ConnectionResetError("reset by peer")
    assert trouble_of(error, 1).kind == "connection"
    assert "reset by peer" in trouble_of(error, 1).message
    assert trouble_of(TimeoutError(), 1).kind == "timeout"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("plain", "plain"),
        ("  plain\n", "plain"),
        ("<think></think>four", "four"),
        ("\n<think>a\nb</think>\n\n{}", "{}"),
        ("<think>a</think><think>b</think>four", "four"),
        ("<thinking>a</thinking> four", "four"),
        ("[THINK]a[/THINK]four", "four"),
        ("a, so b</think>\nfour", "four"),
        ("<think>never ends", ""),
        ("<think>uses </thinking> inside</think>four", "four"),
        ('{"a": "</think>"}', '{"a": "</think>"}'),
        ("The tag <think>x</think> marks thoughts", "The tag <think>x</think> marks thoughts"),
        ("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>four<|return|>", "four"),
        ("<|channel|>analysis<|message|>hm", ""),
        ("<thinker>four", "<thinker>four"),
        ("", ""),
    ],
)
def test_reasoning_in_front_of_an_answer_is_stripped(text, answer):
    assert strip_reasoning(text) == answer


@given(st.text())
def test_stripping_twice_is_stripping_once_where_there_is_no_tag(text):
    if "<" not in text and "[" not in text:
        assert strip_reasoning(text) == text.strip()

"""Accounting: what is paid and what is not, by task and model; prices; the budget that is never exceeded."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llm_fake import Fake, ask, reply

from aeg.backends.llm import Asker, Failure, Ledger, Message, Prices, Recorded, Request
from aeg.backends.llm.ledger import prompt_tokens
from aeg.errors import AegError, BudgetError, ConfigError, PendingBatch

PRICES = {"m": {"prompt": 1.0, "completion": 2.0}}


def test_paid_and_cached_tokens_are_kept_apart():
    ledger = Ledger(Prices(PRICES))
    ledger.add("ner", reply("a"), model="m")
    ledger.add("ner", reply("a"), cached=True, model="m")
    ledger.add("ner", Failure("length", "", prompt_tokens=3, completion_tokens=4), model="m")
    ledger.add("judge", reply("a"), model="other")
    ledger.count("ner", "invented_ids", 2)
    ner, judge = ledger.table()
    assert (ner.task, ner.model, ner.calls, ner.cache_hits, ner.failures) == ("ner", "m", 2, 1, 1)
    assert (ner.prompt_tokens, ner.completion_tokens) == (13, 9)
    assert (ner.cached_prompt_tokens, ner.cached_completion_tokens) == (10, 5)
    assert ner.cost == pytest.approx((13 * 1 + 9 * 2) / 1e6)
    assert ner.counts == {"invented_ids": 2}
    assert (judge.cost, judge.calls) == (None, 1)
    assert ledger.spent() == pytest.approx(ner.cost)
    assert ledger.table() == [ner, judge]


def test_a_task_asked_of_two_models_has_a_row_for_each_and_its_time_once():
    ledger = Ledger(Prices(PRICES))
    with ledger.timed("ner"), ledger.timed("ner"):
        ledger.add("ner", reply("a"), model="m")
        ledger.add("ner", reply("a"), model="n")
    first, second = ledger.table()
    assert (first.model, second.model) == ("m", "n")
    assert 0 < first.seconds < 1
    assert second.seconds == 0


def test_time_is_booked_even_where_the_block_fails():
    ledger = Ledger()
    with pytest.raises(RuntimeError), ledger.timed("ner"):
        raise RuntimeError
    assert ledger.table()[0].seconds > 0


def test_a_snapshot_of_an_artifact_is_reported_as_reused_and_not_as_spent():
    ledger = Ledger(Prices(PRICES))
    ledger.add("ner", reply("a"), model="m")
    ledger.count("ner", "repaired")
    with ledger.timed("ner"):
        pass
    later = Ledger(Prices(PRICES))
    later.add("ner", reply("a"), model="m")
    later.merge(json.loads(json.dumps(ledger.snapshot())))
    own, reused = later.table()
    assert (own.reused, reused.reused) == (False, True)
    assert reused.counts == {"repaired": 1}
    assert reused.seconds == ledger.table()[0].seconds
    assert reused.cost == own.cost == later.spent()
    assert later.snapshot() == {"rows": later.snapshot()["rows"][:1]}

    shares = Ledger(Prices(PRICES))
    for _ in range(2):
        shares.merge(ledger.snapshot(), reused=False)
    (row,) = shares.table()
    assert (row.calls, row.counts, row.reused) == (2, {"repaired": 2}, False)
    assert shares.spent() == pytest.approx(2 * ledger.spent())


@pytest.mark.parametrize(
    "table",
    [
        *({"m": 3}, {"m": {"prompt": 1}}, {"m": {"prompt": 1, "completion": -1}}),
        *({"m": {"prompt": True, "completion": 1}}, {"m": {"prompt": float("inf"), "completion": 1}}),
        *({"m": {"prompt": "1", "completion": 1}}, {"m": {"prompt": 1, "completion": 1, "cached": 1}}),
    ],
)
def test_prices_are_checked(table):
    with pytest.raises(ConfigError, match=r"llm\.prices\.m"):
        Prices(table)


def test_a_budget_needs_a_price():
    with pytest.raises(ConfigError, match=r"model 'mm' has no price.*Did you mean 'm'"):
        Asker(Fake(model="mm"), None, Ledger(Prices(PRICES), max_cost_usd=1))
    Asker(Fake(model="mm"), None, Ledger(Prices(PRICES)))
    Asker(Recorded(model="mm"), None, Ledger(Prices(PRICES), max_cost_usd=1))


@given(st.lists(st.text(max_size=50), max_size=5))
def test_the_prompt_estimate_grows_with_the_bytes(texts):
    tokens = prompt_tokens(Request("t", "s", tuple(Message("user", text) for text in texts)))
    assert tokens >= sum(len(text.encode()) for text in texts) / 3


def test_an_estimate_books_nothing():
    ledger = Ledger(Prices(PRICES))
    row = ledger.estimate("ner", "m", calls=10, prompt_tokens=1000, completion_tokens=500, cache_hits=2)
    assert (row.calls, row.cache_hits, row.cost) == (10, 2, pytest.approx(0.002))
    assert ledger.estimate("ner", "other", 1, 1, 1).cost is None
    assert ledger.table() == []


def worst(text: str = "0", tokens: int = 1000) -> float:
    return Ledger(Prices(PRICES)).worst_case("m", ask(text, max_tokens=tokens).request())


def test_the_budget_stops_before_it_is_exceeded_and_the_run_goes_on_later(tmp_path):
    fake = Fake(model="m", script=lambda request, number: reply("x", completion_tokens=400))
    asks = [ask(f"{n:02d}", max_tokens=1000) for n in range(20)]
    budget = 5.5 * worst("00")
    first = Ledger(Prices(PRICES), max_cost_usd=budget)
    with pytest.raises(BudgetError, match="run the same command again"):
        Asker(fake, tmp_path, first).ask(asks)
    assert 0 < budget - first.spent() < worst("00")
    assert first.table()[0].calls == len(fake.sent) < 20
    answers = Asker(fake, tmp_path, Ledger(Prices(PRICES), max_cost_usd=budget)).ask(asks)
    assert [answer.value for answer in answers] == ["x"] * 20
    assert len(fake.sent) == 20
    assert max(fake.sizes) == 5


def test_nothing_goes_out_that_could_exceed_the_budget(tmp_path):
    fake = Fake(model="m", script=lambda request, number: "x")
    with pytest.raises(BudgetError, match="next of 1 requests"):
        Asker(fake, tmp_path, Ledger(Prices(PRICES), max_cost_usd=0.99 * worst())).ask([ask("0", max_tokens=1000)])
    assert fake.sent == []
    assert fake.state["opened"] == 0
    assert Asker(fake, tmp_path, Ledger(Prices(PRICES), max_cost_usd=worst())).ask([ask("0", max_tokens=1000)])[0].value


def test_the_budget_is_shared_by_the_askers_of_a_run():
    ledger = Ledger(Prices(PRICES), max_cost_usd=1.5 * worst())
    fake = Fake(model="m", script=lambda request, number: reply("x", prompt_tokens=0, completion_tokens=1000))
    Asker(fake, None, ledger).ask([ask("0", max_tokens=1000)])
    with pytest.raises(BudgetError):
        Asker(fake, None, ledger, what="judge").ask([ask("1", max_tokens=1000)])


def test_asking_again_counts_too():
    ledger = Ledger(Prices(PRICES), max_cost_usd=1.5 * worst())
    fake = Fake(model="m", script=lambda request, number: reply(" ", completion_tokens=1000))
    with pytest.raises(BudgetError):
        Asker(fake, None, ledger, reasks=5).ask([ask("0", max_tokens=1000)])
    assert len(fake.sent) == 1


def test_exit_codes():
    assert (AegError.exit_code, BudgetError.exit_code, PendingBatch.exit_code) == (2, 2, 75)

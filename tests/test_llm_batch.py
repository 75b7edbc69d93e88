"""Offline batches: requests out, results in, in any order, with missing, failed and malformed ones; as live."""

from __future__ import annotations

import json
import random

import pydantic
import pytest
from llm_fake import ask
from llm_server import ScriptedServer

from aeg.backends.llm import Asker, Batch, Ledger, OpenAI, Prices, batch_folder
from aeg.errors import ConfigError, PendingBatch


class Words(pydantic.BaseModel):
    words: list[str]


ASKS = [ask(str(n), reply=Words) for n in range(6)]


def batch(folder, **fields) -> Batch:
    return Batch(**{"model": "m", "folder": str(folder / "night"), **fields})


def run(folder, asks=ASKS, **fields):
    ledger = fields.pop("ledger", None) or Ledger()
    with Asker(batch(folder, **fields), folder, ledger) as asker:
        return asker.ask(asks)


def requests(folder) -> list[list[dict]]:
    files = sorted((folder / "night").glob("requests-*.jsonl"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def good(row: dict, text: str | None = None, **choice) -> dict:
    text = json.dumps({"words": [row["body"]["messages"][1]["content"]]}) if text is None else text
    choices = [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"} | choice]
    body = {"choices": choices, "usage": {"prompt_tokens": 10, "completion_tokens": 5}}
    response = {"status_code": 200, "request_id": "r", "body": body}
    return {"id": "batch_req_1", "custom_id": row["custom_id"], "response": response, "error": None}


def failed(row: dict, form: str) -> dict:
    error = {"message": "it broke", "type": "server_error", "code": "batch_expired"}
    return {
        "null": {"custom_id": row["custom_id"], "response": None, "error": error},
        "openai": {"custom_id": row["custom_id"], "response": {"status_code": 500, "body": {"error": error}}},
        "vllm": {"custom_id": row["custom_id"], "response": {"status_code": 500, "body": None}, "error": error},
        "text": {"custom_id": row["custom_id"], "response": None, "error": "it broke"},
    }[form]


def put(folder, name: str, rows: list) -> None:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "night" / name).write_text("\n".join(lines) + "\n")


def test_the_round_trip_out_of_order_gives_what_live_gives(tmp_path):
    with pytest.raises(PendingBatch) as caught:
        run(tmp_path)
    (rows,) = requests(tmp_path)
    assert len(rows) == len({row["custom_id"] for row in rows}) == 6
    for row in rows:
        assert (row["method"], row["url"]) == ("POST", "/v1/chat/completions")
        assert sorted(row) == ["body", "custom_id", "method", "url"]
        assert row["body"]["response_format"]["json_schema"]["schema"]["required"] == ["words"]
    message = str(caught.value)
    name = next((tmp_path / "night").iterdir()).name
    assert message.startswith("6 requests to m wait for an offline job: " + name)
    assert "vllm run-batch -i " in message
    assert "--model m" in message

    random.Random(1).shuffle(rows)
    put(tmp_path, "batch_abc_output.jsonl", [good(row) for row in rows])
    answers = run(tmp_path)
    with (
        ScriptedServer(lambda got: {"words": [got.prompt]}) as server,
        Asker(OpenAI(model="m", base_url=server.url), None, Ledger()) as live,
    ):
        assert live.ask(ASKS) == answers
    assert all(answer.cached for answer in run(tmp_path))
    assert len(requests(tmp_path)) == 1


def test_the_body_is_what_the_live_backend_sends(tmp_path):
    with ScriptedServer('{"words": []}') as server:
        fields = {"base_url": server.url, "temperature": 0.5, "seed": 3, "extra_body": {"top_k": 5}}
        with Asker(OpenAI(model="m", **fields), None, Ledger()) as live:
            live.ask([ask("x", reply=Words, sample=2)])
        with pytest.raises(PendingBatch):
            run(tmp_path, [ask("x", reply=Words, sample=2)], **fields)
        (sent,) = server.received
    assert requests(tmp_path)[0][0]["body"] == sent.body
    assert sent.body["seed"] == 5


def test_live_and_batch_share_their_replies(tmp_path):
    with ScriptedServer(lambda got: {"words": [got.prompt]}) as server:
        with Asker(OpenAI(model="m", base_url=server.url), tmp_path, Ledger()) as live:
            answers = live.ask(ASKS)
        again = run(tmp_path, base_url=server.url)
    assert [answer.value for answer in again] == [answer.value for answer in answers]
    assert not (tmp_path / "night").exists()


def test_a_pending_file_is_not_written_twice(tmp_path):
    for _ in range(3):
        with pytest.raises(PendingBatch, match="6 requests"):
            run(tmp_path)
    assert len(requests(tmp_path)) == 1
    with pytest.raises(PendingBatch, match="7 requests") as caught:
        run(tmp_path, [*ASKS, ask("new", reply=Words)])
    assert [len(rows) for rows in requests(tmp_path)] == [6, 1]
    assert "requests-001-" in str(caught.value)
    assert "requests-002-" in str(caught.value)


@pytest.mark.parametrize("form", ["null", "openai", "vllm", "text"])
def test_missing_and_failed_ones_are_requested_again(tmp_path, form):
    with pytest.raises(PendingBatch):
        run(tmp_path)
    (rows,) = requests(tmp_path)
    put(tmp_path, "results.jsonl", [failed(rows[1], form), good(rows[0]), *(good(row) for row in rows[3:])])
    with pytest.raises(PendingBatch, match="2 requests"):
        run(tmp_path)
    _, again = requests(tmp_path)
    assert [row["body"] for row in again] == [row["body"] for row in rows[1:3]]
    assert not {row["custom_id"] for row in again} & {row["custom_id"] for row in rows}
    with pytest.raises(PendingBatch, match="2 requests"):
        run(tmp_path)
    assert len(requests(tmp_path)) == 2
    put(tmp_path, "results-2.jsonl", [good(row) for row in again])
    answers = run(tmp_path)
    assert [answer.value.words for answer in answers] == [[str(n)] for n in range(6)]
    assert [answer.cached for answer in answers] == [True, False, False, True, True, True]


def test_the_first_success_wins_whatever_else_was_said(tmp_path):
    with pytest.raises(PendingBatch):
        run(tmp_path, ASKS[:1])
    ((row,),) = requests(tmp_path)
    put(tmp_path, "a.jsonl", [failed(row, "null")])
    put(tmp_path, "b.jsonl", [good(row, '{"words": ["b"]}'), good(row, '{"words": ["c"]}')])
    assert run(tmp_path, ASKS[:1])[0].value.words == ["b"]


def test_after_the_last_attempt_it_has_failed_and_is_quarantined(tmp_path):
    for attempt in range(2):
        with pytest.raises(PendingBatch):
            run(tmp_path, ASKS[:2], max_attempts=2)
        rows = requests(tmp_path)[attempt]
        put(tmp_path, f"results-{attempt}.jsonl", [failed(rows[0], "openai"), *map(good, rows[1:])])
    good_one, bad_one = reversed(run(tmp_path, ASKS[:2], max_attempts=2))
    assert good_one.failure is None or bad_one.failure is None
    failures = [answer.failure for answer in (good_one, bad_one) if answer.failure]
    assert [failure.kind for failure in failures] == ["server"]
    assert "attempt 2 of 2" in failures[0].message
    assert len(list((tmp_path / "quarantine").iterdir())) == 1
    with pytest.raises(PendingBatch):
        run(tmp_path, ASKS[:2], max_attempts=3)


def test_a_refusal_for_good_is_not_requested_again(tmp_path):
    with pytest.raises(PendingBatch):
        run(tmp_path, ASKS[:2])
    (rows,) = requests(tmp_path)
    long = {"message": "This model's maximum context length is 10 tokens.", "code": "context_length_exceeded"}
    bad = {"message": "unknown field", "code": "invalid"}
    put(
        tmp_path,
        "errors.jsonl",
        [
            {"custom_id": row["custom_id"], "response": {"status_code": 400, "body": {"error": error}}, "error": None}
            for row, error in zip(rows, (long, bad), strict=True)
        ],
    )
    kinds = sorted(answer.failure.kind for answer in run(tmp_path, ASKS[:2]))
    assert kinds == ["context_length", "refused"]


def test_malformed_lines_are_counted_and_reported(tmp_path, caplog):
    with pytest.raises(PendingBatch):
        run(tmp_path, ASKS[:2])
    (rows,) = requests(tmp_path)
    torn = json.dumps(good(rows[1]))[:-9]
    put(tmp_path, "results.jsonl", [good(rows[0]), "", "[]", '{"custom_id": "x"}', "__import__('os')", torn])
    with pytest.raises(PendingBatch, match=r"1 requests.*results\.jsonl: 4 lines were no results"):
        run(tmp_path, ASKS[:2])
    assert "results.jsonl: 4 lines" in caplog.text


def test_an_unusable_reply_is_asked_again_in_the_next_batch(tmp_path):
    with pytest.raises(PendingBatch):
        run(tmp_path, ASKS[:3])
    (rows,) = requests(tmp_path)
    short = good(rows[1], '{"wor', finish_reason="length")
    put(tmp_path, "1.jsonl", [good(rows[0], "no JSON"), short])
    with pytest.raises(PendingBatch, match=r"1 requests.*2 requests"):
        run(tmp_path, ASKS[:3])
    missing, reasked = requests(tmp_path)[1:]
    assert [row["body"]["messages"] for row in missing] == [rows[2]["body"]["messages"]]
    assert {len(row["body"]["messages"]) for row in reasked} == {2, 4}
    assert {row["body"]["max_completion_tokens"] for row in reasked} == {1024, 2048}
    put(tmp_path, "2.jsonl", [good(row) for row in missing + reasked])
    ledger = Ledger()
    answers = run(tmp_path, ASKS[:3], ledger=ledger)
    assert [answer.value.words for answer in answers] == [["0"], ["1"], ["2"]]
    (counts,) = [row.counts for row in ledger.table()]
    assert counts == {"reasked": 2}
    assert all(answer.cached for answer in run(tmp_path, ASKS[:3]))


def test_samples_are_requested_each_even_without_a_seed(tmp_path):
    asks = [ask("x", reply=Words, sample=n) for n in range(3)]
    with pytest.raises(PendingBatch):
        run(tmp_path, asks, send_seed=False, temperature=1.0)
    (rows,) = requests(tmp_path)
    assert len({row["custom_id"] for row in rows}) == 3
    put(tmp_path, "1.jsonl", [good(row, json.dumps({"words": [str(n)]})) for n, row in enumerate(rows)])
    answers = run(tmp_path, asks, send_seed=False, temperature=1.0)
    assert sorted(answer.value.words for answer in answers) == [["0"], ["1"], ["2"]]


def test_large_batches_are_split(tmp_path, monkeypatch):
    monkeypatch.setattr(batch_folder, "_MOST_REQUESTS", 4)
    with pytest.raises(PendingBatch):
        run(tmp_path)
    assert [len(rows) for rows in requests(tmp_path)] == [4, 2]
    size = max(len(file.read_bytes()) for file in (tmp_path / "night").iterdir())
    other = tmp_path / "other"
    monkeypatch.setattr(batch_folder, "_MOST_BYTES", size // 2)
    with pytest.raises(PendingBatch):
        run(other)
    assert all(file.stat().st_size <= size // 2 for file in (other / "night").iterdir())
    assert sorted(row["custom_id"] for rows in requests(other) for row in rows) == sorted(
        row["custom_id"] for rows in requests(tmp_path) for row in rows
    )


def test_the_budget_holds_requests_back_and_says_so(tmp_path):
    prices = Prices({"m": {"prompt": 1.0, "completion": 1.0}})
    worst = Ledger(prices).worst_case("m", ASKS[0].request())

    def ledger() -> Ledger:
        return Ledger(prices, max_cost_usd=4.5 * worst)

    with pytest.raises(PendingBatch, match="2 more requests are held back"):
        run(tmp_path, ledger=ledger())
    (rows,) = requests(tmp_path)
    assert len(rows) == 4
    put(tmp_path, "1.jsonl", [good(row) for row in rows])
    with pytest.raises(PendingBatch, match="2 requests"):
        run(tmp_path, ledger=ledger())
    put(tmp_path, "2.jsonl", [good(row) for row in requests(tmp_path)[1]])
    assert [answer.value.words for answer in run(tmp_path, ledger=ledger())] == [[str(n)] for n in range(6)]


def test_a_config_without_folder_or_model_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"batch\.folder"):
        Batch(model="m").open()
    with pytest.raises(ConfigError, match=r"batch\.model"):
        Batch(folder="x").open()
    with pytest.raises(ConfigError, match="extra_body"):
        Batch(model="m", folder="x", extra_body={"temperature": 1})

"""The whole pipeline with a language model: structure, accounting, caching, quarantine, resuming, batches, budgets."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from llm_model import Model, reply_to, task_of
from llm_runs import answers, content, endpoint, few, go, settings, usage
from llm_server import ScriptedServer, empty, say_json

from aeg.cli.main import main
from aeg.config.load import load_config
from aeg.errors import BudgetError, ConfigError, PendingBatch
from aeg.experiment.run import Outcome, run_folder
from aeg.pipeline.accounts import ANSWERS, CONSTRUCTION, DECOMPOSITION, EVALUATION, RETRIEVAL, SIEVE
from aeg.pipeline.methods import resolve

DOCUMENTS, QUESTIONS = 6, 3
ANSWERED = "answered=[ppr, dense_passages]"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> str:
    return few(tmp_path_factory.mktemp("corpus"), DOCUMENTS, QUESTIONS)


class Ran:
    """A finished run, its model, and how long it took."""

    def __init__(self, folder: Path, corpus: str) -> None:
        self.folder, self.model = folder, Model()
        self.server = ScriptedServer(self.model, delay=0.2)
        self.server.__enter__()
        endpoints = endpoint(self.server.url, max_concurrency=1)
        self.settings = settings(folder, corpus, endpoints, ANSWERED, "evaluation.accuracy.repeat=2")
        started = time.perf_counter()
        self.outcome: Outcome = go(self.settings)
        self.seconds = time.perf_counter() - started
        self.tasks = self.model.tasks


@pytest.fixture(scope="module")
def ran(corpus, tmp_path_factory):
    found = Ran(tmp_path_factory.mktemp("ran"), corpus)
    yield found
    found.server.__exit__()


def test_every_stage_asks_what_it_should(ran):
    tasks = ran.tasks
    assert tasks["ner"] == tasks["triples_atoms"] == DOCUMENTS
    assert tasks["decomposition"] == QUESTIONS
    assert tasks["mentions"] >= QUESTIONS
    assert tasks["sieve"] == tasks["answer_abstract"] == 2 * QUESTIONS
    assert QUESTIONS < tasks["statements"] <= 3 * QUESTIONS  # an answer and its reference; the same text once
    assert QUESTIONS < tasks["statement_verdicts"] <= 2 * QUESTIONS + 2


def test_answers_are_measured_and_counted(ran):
    rows = {(row.method, row.metric): row for row in ran.outcome.rows if row.group == "all"}
    for method in ("ppr", "dense_passages"):
        for metric in ("answer_accuracy", "factual_correctness", "semantic_similarity", "exact_match", "token_f1"):
            row = rows[method, metric]
            assert (row.n, row.skipped, row.failed) == (QUESTIONS, 0, 0), metric
        parts = [rows[method, name].value for name in ("factual_correctness", "semantic_similarity")]
        assert rows[method, "answer_accuracy"].value == pytest.approx(0.7 * parts[0] + 0.3 * parts[1])
        assert 0 < rows[method, "factual_correctness"].value <= 1
    assert ("dense_atoms", "answer_accuracy") not in rows
    assert rows["dense_atoms", "recall@2"].n == QUESTIONS
    records = json.loads((ran.outcome.folder / "metrics.json").read_text())
    assert {"n", "skipped", "failed"} <= set(records[0])
    text = ran.outcome.text
    assert f"({QUESTIONS}/0/0)" in text
    assert "not comparable with the leaderboard" in text
    assert "judge's agreement with itself" in text


def test_the_record_of_each_question(ran):
    rows = answers(ran.outcome)
    assert [(row["method"], row["question_id"]) for row in rows] == sorted(
        ((row["method"], row["question_id"]) for row in rows), key=lambda pair: (pair[0] != "ppr", pair[1])
    )
    assert len(rows) == 2 * QUESTIONS
    for row in rows:
        assert set(row["kept"]) < set(row["candidates"])
        assert row["kept"] == [c for c in row["candidates"] if c in set(row["kept"])]
        assert len(row["kept"]) == -(-len(row["candidates"]) // 2)  # the model keeps every second one
        assert row["answer"] == f"It is {len(row['units'])} pieces."
        assert row["cited"] == [1]  # 99 is no unit: refused
        assert row["flags"] == []
        assert 0 <= dict(row["metrics"])["answer_accuracy"] <= 1
        assert json.loads(row["judgement"])["judgement"]["answer"]
    atoms = [row for row in rows if row["method"] == "ppr"]
    assert {len(row["candidates"][0]) for row in atoms} == {64}
    kept = [set(row["kept"]) for row in atoms]
    assert all(
        {name for unit in row["units"] for name in unit["atoms"]} == k for row, k in zip(atoms, kept, strict=True)
    )
    assert max(len(row["candidates"]) for row in atoms) > 4  # sub-questions' candidates are united (eq. 10)


def test_accounting_by_module(ran):
    modules, tasks = usage(ran.outcome), ran.tasks
    assert modules[CONSTRUCTION]["calls"] == 2 * DOCUMENTS
    assert modules[DECOMPOSITION]["calls"] == QUESTIONS + tasks["mentions"]
    assert modules[RETRIEVAL]["calls"] == 0
    assert modules[SIEVE]["calls"] == modules[ANSWERS]["calls"] == 2 * QUESTIONS
    assert modules[EVALUATION]["calls"] == tasks["statements"] + tasks["statement_verdicts"]
    for row in modules.values():
        assert row["prompt_tokens"] == 10 * row["calls"]  # as the server says
        assert row["completion_tokens"] == 5 * row["calls"]
        assert row["cost"] == pytest.approx(row["calls"] * (10 * 1.0 + 5 * 2.0) / 1e6)
        assert row["failures"] == 0
    assert modules[CONSTRUCTION]["seconds"] >= 0.2 * 2 * DOCUMENTS
    assert modules[RETRIEVAL]["seconds"] > 0
    manifest = json.loads((ran.outcome.folder / "manifest.json").read_text())
    assert manifest["usage"]["sides"]["now"]["query"]["calls"] == sum(
        modules[name]["calls"] for name in (DECOMPOSITION, SIEVE, ANSWERS)
    )
    assert set(manifest["prompts"]) >= {"ner", "sieve", "answer_abstract", "statement_verdicts"}
    assert manifest["llm"]["judge"]["model"] == "m"
    text = ran.outcome.text
    for line in ("Atom-Entity Graph Construction", "Index side", "Query side", "Total, evaluation apart"):
        assert line in text


def test_a_second_run_asks_nothing(ran):
    before, first = content(ran.outcome), usage(ran.outcome)
    asked = len(ran.model.asked)
    again = go(ran.settings)
    assert len(ran.model.asked) == asked
    assert content(again) == before
    assert all(row["calls"] == row["cache_hits"] == 0 for row in usage(again).values())
    reused = usage(again, reused=True)
    for module in (CONSTRUCTION, DECOMPOSITION, SIEVE, ANSWERS, EVALUATION):
        for name in ("calls", "prompt_tokens", "cost"):
            assert reused[module][name] == pytest.approx(first[module][name]), (module, name)
    assert "Reused" in again.text


def test_another_seed_balance_reuses_extraction_and_decomposition(ran):
    asked = len(ran.model.asked)
    go([*ran.settings, "query.seeds.atom_share=0.9", "answered=[ppr]"])
    new = {task for task, _ in ran.model.asked[asked:]}
    assert new <= {"sieve", "answer_abstract", "statements", "statement_verdicts"}


def test_replies_are_replayed_without_the_model(ran, tmp_path):
    recorded = f"{{name: recorded, model: m, folder: '{ran.folder / 'artifacts' / 'llm' / 'cache'}'}}"
    asked = len(ran.model.asked)
    replayed = go([*ran.settings, f"artifacts_dir={tmp_path}", *(f"llm.{role}={recorded}" for role in ROLES)])
    assert len(ran.model.asked) == asked
    assert content(replayed)["answers.parquet"] == content(ran.outcome)["answers.parquet"]
    assert usage(replayed)[SIEVE]["cache_hits"] == 2 * QUESTIONS
    assert usage(replayed)[SIEVE]["cost"] == 0


ROLES = ("extractor", "reader", "judge")


def close(one, other):
    """Whether two results are equal, numbers up to 1e-6, those in JSON too."""
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, abs=1e-6, nan_ok=True)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(close(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, str) and isinstance(other, str) and one[:1] == other[:1] == "{":
        return close(json.loads(one), json.loads(other))
    return one == other


def test_what_was_quarantined_is_asked_again_and_nothing_else(corpus, ran, tmp_path):
    """One passage's atoms, one sieve and one answer come back empty; the next run asks for these alone."""
    bad = {"triples_atoms": None, "sieve": None, "answer_abstract": None}

    def instead(task, prompt):
        if task in bad and bad[task] in (None, prompt):
            bad[task] = prompt
            return empty()
        return None

    model = Model(instead)
    with ScriptedServer(model) as server:
        chosen = settings(tmp_path, corpus, endpoint(server.url), "llm.reasks=0", "answered=[ppr]")
        log: list[str] = []
        first = go(chosen, log)
        assert any("1 quarantined" in line for line in log)
        assert sum("the next run asks for them again" in line for line in log) == 3
        rows = answers(first)
        assert sum("sieve_fallback" in row["flags"] for row in rows) == 1
        failed = [row for row in rows if "failed" in row["flags"]]
        assert [row["answer"] for row in failed] == [None]
        (row,) = (r for r in first.rows if (r.method, r.metric, r.group) == ("ppr", "token_f1", "all"))
        assert (row.n, row.skipped, row.failed) == (QUESTIONS - 1, 0, 1)
        quarantine = [p.read_text() for p in (tmp_path / "artifacts" / "llm" / "quarantine").iterdir()]
        assert sum(text.count("\n") for text in quarantine) == 3

        bad.clear()
        asked = len(model.asked)
        second = go(chosen)
        again = model.asked[asked:]
        assert sum(task == "triples_atoms" for task, _ in again) == 1
        assert not {task for task, _ in again} & {"ner", "decomposition", "mentions"}
        assert usage(second, reused=True)[CONSTRUCTION]["calls"] == 2 * DOCUMENTS  # journalled by the first run

        done = len(model.asked)
        third = go(chosen)
        assert len(model.asked) == done
        assert content(third) == content(second)
    # With a model that never failed the result is the same.
    with ScriptedServer(Model()) as server:
        clean = go(settings(tmp_path / "clean", corpus, endpoint(server.url), "llm.reasks=0", "answered=[ppr]"))
    # Up to rounding: a text that comes later is embedded in another batch.
    for name in ("answers.parquet", "results.parquet"):
        rows, others = (pq.read_table(run.folder / name).to_pylist() for run in (clean, third))
        assert rows
        assert close(rows, others)


def test_a_batch_round_trip_gives_the_live_result(corpus, ran, tmp_path, capsys):
    """Requests are written with exit code 75, results supplied out of order, and the same command goes on."""
    folder = tmp_path / "batch"
    batch = f"{{name: batch, model: m, folder: '{folder}'}}"
    overrides = settings(tmp_path, corpus, batch, ANSWERED, "evaluation.accuracy.repeat=2")
    (tmp_path / "config.yaml").write_text("name: batched\n")
    command = ["run", str(tmp_path / "config.yaml"), *overrides]
    rounds, code = 0, 75
    while code == 75:
        code = main(command)
        err = capsys.readouterr().err
        if code == 75:
            assert "waiting: " in err
            assert "vllm run-batch" in err
            assert supply(folder)
            rounds += 1
        assert rounds < 12
    assert code == 0, err
    assert 5 <= rounds <= 9
    (parquet,) = (tmp_path / "runs").glob("*/answers.parquet")
    assert parquet.read_bytes() == content(ran.outcome)["answers.parquet"]


def supply(folder: Path) -> int:
    """Answer every file of requests that has no results, last request first."""
    count = 0
    for file in sorted(folder.glob("requests-*.jsonl")):
        results = folder / file.name.replace("requests", "results")
        if results.exists():
            continue
        lines = []
        for line in reversed(file.read_text().splitlines()):
            request = json.loads(line)
            messages = request["body"]["messages"]
            reply = json.dumps(reply_to(task_of(messages), messages[-1]["content"]), ensure_ascii=False)
            choice = {"index": 0, "message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}
            body = {"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}
            response = {"status_code": 200, "request_id": "r", "body": body}
            lines.append(json.dumps({"custom_id": request["custom_id"], "response": response, "error": None}))
            count += 1
        results.write_text("\n".join(lines) + "\n")
    return count


def test_estimate_spends_nothing_and_says_what_it_would_take(corpus, ran, tmp_path, capsys):
    model = Model()
    with ScriptedServer(model) as server:
        overrides = settings(tmp_path, corpus, endpoint(server.url), ANSWERED)
        (tmp_path / "config.yaml").write_text("name: estimated\n")
        assert main(["run", str(tmp_path / "config.yaml"), "--estimate", *overrides]) == 0
        assert not model.asked
        assert not (tmp_path / "runs").exists()
        calls = estimated(capsys.readouterr().out)
        assert calls["Atom-Entity Graph Construction"][0] == 2 * DOCUMENTS
        assert calls["Atomic Sieve"][0] == calls["Grounded Answer Generation"][0] == 2 * QUESTIONS
        assert calls["Entity-Resonance Graph Retrieval"][0] == 0
        assert calls["Total"][0] == sum(n for name, (n, _, _) in calls.items() if name != "Total")
        assert 0 < calls["Total"][1] < calls["Total"][2]  # expected cost below the most
        go(overrides)  # what the estimate made up was not kept
        assert model.tasks["ner"] == DOCUMENTS
        assert len(model.asked) == pytest.approx(calls["Total"][0], rel=0.5)
        capsys.readouterr()
        done = len(model.asked)
        assert main(["run", str(tmp_path / "config.yaml"), "--estimate", *overrides]) == 0
        assert estimated(capsys.readouterr().out)["Total"][0] == 0
        assert len(model.asked) == done


def estimated(out: str) -> dict[str, tuple[int, float, float]]:
    """Calls, cost and cost at most by module."""
    found = {}
    for line in out.splitlines():
        if match := re.match(r"(\w.*?)  +([\d,-]+)  .*?([\d.]+|-)  +([\d.]+|-)$", line):
            calls, cost, most = (cell.replace(",", "").replace("-", "0") for cell in match.groups()[1:])
            found[match[1]] = (int(calls), float(cost), float(most))
    return found


def test_a_budget_stops_before_it_is_exceeded_and_the_run_goes_on(corpus, ran, tmp_path):
    tokens = {"prompt_tokens": 1000, "completion_tokens": 1000}  # a call costs 0.003
    model = Model(lambda task, prompt: say_json(reply_to(task, prompt), **tokens))
    with ScriptedServer(model) as server:
        chosen = settings(tmp_path, corpus, endpoint(server.url, max_concurrency=2), ANSWERED)
        with pytest.raises(BudgetError, match="run the same command again"):
            go([*chosen, "llm.max_cost_usd=0.03"])
        asked = len(model.asked)
        assert 0 < asked * 0.003 <= 0.03
        whole = go([*chosen, "llm.max_cost_usd=5"])
        assert len({(task, prompt) for task, prompt in model.asked}) == len(model.asked)  # nothing was asked twice
    assert content(whole)["answers.parquet"] == content(ran.outcome)["answers.parquet"]


ABLATIONS = {
    "without_ergr": {"dense_atoms"},
    "without_aqd": {"ppr"},
    "without_as": {"ppr"},
    "without_ka": {"ppr"},
    "without_ergr_aqd": {"dense_atoms"},
    "without_ergr_aqd_as": {"dense_atoms"},
    "without_ergr_aqd_as_ka": {"dense_atoms"},
}


@pytest.fixture(scope="module")
def ablated(corpus, tmp_path_factory) -> dict[str, tuple[Outcome, dict[str, int]]]:
    """All rows of Table 2, over one folder of artifacts."""
    folder, found = tmp_path_factory.mktemp("ablation"), {}
    model = Model()
    with ScriptedServer(model) as server:
        chosen = settings(folder, corpus, endpoint(server.url), "evaluation.accuracy.repeat=0")
        base = [item for item in chosen if not item.startswith("evaluation.baselines")]
        tree = load_config(None, base)
        from omegaconf import OmegaConf

        from aeg.config.load import to_plain

        OmegaConf.save(OmegaConf.create({**to_plain(tree), "name": "whole"}), folder / "whole.yaml")
        for name in ABLATIONS:
            (folder / f"{name}.yaml").write_text(f"extends: [whole, ablation/{name}]\nname: {name}\n")
            before = model.tasks
            outcome = go_file(folder / f"{name}.yaml")
            found[name] = outcome, dict(model.tasks - before)
    return found


def go_file(path: Path) -> Outcome:
    from aeg.experiment.run import run

    return run(load_config(path), lambda _: None)


@pytest.mark.parametrize("name", ABLATIONS)
def test_the_ablations_of_table_2(ablated, name):
    outcome, asked = ablated[name]
    rows = answers(outcome)
    assert {row["method"] for row in rows} == ABLATIONS[name]
    assert len(rows) == QUESTIONS
    assert {row.metric for row in outcome.rows} >= {"answer_accuracy"}
    if "as" in name.split("_"):
        assert "sieve" not in asked
        assert all(row["kept"] == row["candidates"] for row in rows)
    else:
        assert all(len(row["kept"]) < len(row["candidates"]) for row in rows)
    manifest = json.loads((outcome.folder / "manifest.json").read_text())
    effective = manifest["parts"]["corpus"]["counts"]["seeds"]["effective_queries"]
    assert (effective == QUESTIONS) == ("aqd" in name.split("_"))
    atoms = manifest["parts"]["corpus"]["graph"]["atoms"]
    assert (atoms == DOCUMENTS) == ("ka" in name.split("_"))
    # The extraction is paid for once.
    assert ("ner" in asked) == (name == "without_ergr")


def test_a_missing_model_or_price_is_told_before_anything_is_spent(corpus, tmp_path):
    model = endpoint("http://127.0.0.1:9/v1")
    chosen = settings(tmp_path, corpus, model)
    for role, what in (("extractor", "extraction 'llm'"), ("reader", "query.decomposition 'llm'")):
        with pytest.raises(ConfigError, match=f"{what} needs a model: set llm.{role}"):
            go([*chosen, f"llm.{role}=null"])
    with pytest.raises(ConfigError, match="'m' has no price"):
        go([*chosen, "llm.prices={}", "llm.max_cost_usd=1"])
    with pytest.raises(ConfigError, match="no ranking is called 'pr'"):
        go([*chosen, "answered=[pr]"])
    with pytest.raises(ConfigError, match=r"llm\.prompts\.seive: no such prompt. Did you mean 'sieve'"):
        go([*chosen, "llm.prompts={seive: x.txt}"])
    (tmp_path / "mine.txt").write_text("### user\n{{question}} {{candidate}}\n")
    with pytest.raises(ConfigError, match="unknown placeholder 'candidate'"):
        go([*chosen, f"llm.prompts={{sieve: '{tmp_path / 'mine.txt'}'}}"])
    with pytest.raises(ConfigError, match=r"graphrag_bench.*needs a file"):
        go([*chosen, "evaluation.accuracy.judge_prompts=graphrag_bench"])
    with pytest.raises(ConfigError, match=r"llm\.reader\.name: unknown LLM backend 'openia'"):
        go([*chosen, "llm.reader={name: openia, model: m}"])
    assert not (tmp_path / "artifacts").exists()


def test_a_prompt_of_one_s_own_asks_anew(corpus, ran, tmp_path):
    from aeg.backends.llm.prompt import load_prompt

    turns = load_prompt("answer_abstract").turns
    own = tmp_path / "own.txt"
    text = "".join(
        f"### {turn.role}\n"
        + "".join(f"{{{{{p}}}}}" if at % 2 else p for at, p in enumerate(turn.parts)).strip()
        + "\n"
        for turn in turns
    )
    own.write_text(text.replace("You answer a question", "You answer a question well, and", 1))
    before = ran.model.asked.copy()
    ran.model.instead = lambda task, prompt: None
    from llm_model import _FIRST

    _FIRST[own.read_text().splitlines()[1]] = "answer_abstract"
    outcome = go([*ran.settings, f"llm.prompts={{answer_abstract: '{own}'}}", "answered=[ppr]"])
    new = [task for task, _ in ran.model.asked[len(before) :]]
    assert new.count("answer_abstract") == QUESTIONS
    assert "sieve" not in new
    manifest = json.loads((outcome.folder / "manifest.json").read_text())
    assert manifest["prompts"]["answer_abstract"] != load_prompt("answer_abstract").hash


def test_where_things_lie_does_not_name_the_run_folder():
    one = load_config(None, ["llm.reader={name: openai, model: m, base_url: 'http://a/v1'}", "llm.max_cost_usd=1"])
    other = load_config(None, ["llm.reader={name: openai, model: m, base_url: 'http://b/v1'}"])
    third = load_config(None, ["llm.reader={name: openai, model: n, base_url: 'http://b/v1'}"])
    assert run_folder(one) == run_folder(other) != run_folder(third)


def test_pending_batches_of_several_rankings_are_written_at_once(corpus, ran, tmp_path):
    batch = f"{{name: batch, model: m, folder: '{tmp_path / 'batch'}'}}"
    readers = [*ran.settings, f"llm.reader={batch}", f"artifacts_dir={tmp_path / 'artifacts'}", ANSWERED]
    with pytest.raises(PendingBatch):  # decomposition; extraction is live
        go(readers)
    supply(tmp_path / "batch")
    with pytest.raises(PendingBatch):  # mentions
        go(readers)
    supply(tmp_path / "batch")
    with pytest.raises(PendingBatch):  # the sieve, of both rankings
        go(readers)
    assert supply(tmp_path / "batch") == 2 * QUESTIONS


TABLE_5 = {
    "llm.reader.model": "gpt-4o-mini",
    "llm.extractor.model": "gpt-4o-mini",
    "encoder.model": "bge-large",
    "encoder.max_length": 512,  # the table's 2048 exceeds the model's positions
    "retrieval.top_k": 25,
    "graph.synonym_top_k": 2047,
    "graph.synonym_threshold": 0.8,
    "query.seeds.entity_weight": 1.0,
    "query.linking.top_k": 20,
    "query.linking.threshold": 0.3,
    "propagation.0.name": "ppr",
    "propagation.0.restart": 0.3,
    "query.seeds.alpha": 0.1,
    "propagation.1.num_iter": 20,
    "propagation.2.num_walks": 1000,
    "propagation.2.walk_length": 10,
    "query.decomposition.max_sub_questions": 3,
    "query.decomposition.complexity_threshold": 6.5,
}


@pytest.mark.parametrize("key", TABLE_5)
def test_the_paper_s_defaults_are_there_and_reach_the_methods(key):
    from omegaconf import OmegaConf

    from aeg.config.load import to_plain

    plain = OmegaConf.create(to_plain(load_config("paper/defaults")))
    assert OmegaConf.select(plain, key) == TABLE_5[key]
    special = {"model": "other", "max_length": 100, "synonym_threshold": 0.5, "threshold": 0.5, "restart": 0.5}
    changed = special.get(key.split(".")[-1], 2)
    config = load_config("paper/defaults", [f"{key}={changed}"] if not key.endswith("name") else [])
    methods = resolve(config)
    reached = {
        "llm": lambda: methods.models[key.split(".")[1]].model,
        "encoder": lambda: getattr(methods.encoder, key.split(".")[-1]),
        "query.linking": lambda: getattr(methods.linking, key.split(".")[-1]),
        "query.decomposition": lambda: getattr(methods.decomposition, key.split(".")[-1]),
        "query.seeds": lambda: getattr(methods.propagation[0].seeds, key.split(".")[-1]),
        "graph": lambda: getattr(config.graph, key.split(".")[-1]),
        "retrieval": lambda: config.retrieval.top_k,
        "propagation": lambda: getattr(methods.propagation[int(key.split(".")[1])].method, key.split(".")[-1], None),
    }
    if not key.endswith("name"):
        section = next(part for part in reached if key.startswith(part))
        assert reached[section]() == changed


def test_an_index_is_built_and_answers_with_a_model(tmp_path, capsys):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Ann Marlow leads the Tarn Laboratory. It rained.")
    (tmp_path / "docs" / "b.txt").write_text("Edith Crane founded the Tarn Laboratory in Keswick.")
    model, index = Model(), tmp_path / "index"
    with ScriptedServer(model) as server:
        url = [
            f"llm.{{}}.{key}={value}" for key, value in (("name", "openai"), ("model", "m"), ("base_url", server.url))
        ]
        spec = {role: [item.format(role) for item in url] for role in ("extractor", "reader")}
        build = ["index", str(tmp_path / "docs"), "--out", str(index), "device=cpu", "extraction.name=llm"]
        assert main(build) == 2
        assert "set llm.extractor" in capsys.readouterr().err
        assert main([*build, *spec["extractor"]]) == 0
        assert model.tasks == {"ner": 2, "triples_atoms": 2}
        ask = ["query", str(index), "Who founded the laboratory?"]
        assert main([*ask, "--answer"]) == 2
        assert "names no answer method" in capsys.readouterr().err
        before = sorted(index.rglob("*"))
        assert main([*ask, "--answer", "answer.name=llm", *spec["reader"]]) == 0
        out = capsys.readouterr().out
        assert out.splitlines()[0].startswith("It is ")
        assert "[1] " in out
        assert "from document " in out
        assert main([*ask, "--answer", "--json", "answer.name=llm", *spec["reader"]]) == 0
        assert json.loads(capsys.readouterr().out)["cited"] == [1]
        assert sorted(index.rglob("*")) == before  # nothing is written to an index that is asked
        assert main([*ask, "--top", "1"]) == 0
    assert "Laboratory" in capsys.readouterr().out

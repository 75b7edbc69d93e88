"""The configs of the paper's tables: they load, expand, name their table, and expect what the paper says."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from paper_numbers import DEFAULTS, TABLES

from aeg.config.load import load_config, shipped_configs
from aeg.errors import ConfigError
from aeg.experiment import paper
from aeg.experiment.paper import PaperTable, paper_configs
from aeg.experiment.sweep import Sweep, load_sweep
from aeg.pipeline.methods import resolve

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "configs" / "paper").glob("*.yaml"))
CONFIGS = paper_configs()
expected = cache(paper.expected)
BASES = {"defaults", "evidence", "table5"}  # bases, and Table 5, which is a list of settings
ROUNDED_DOWN = {("Table 8", "bge-m3"): 71.875}  # printed as 71.8
TYPED = ("Table 8", "Table 10", "Table 11", "Table 12", "Table 13")


@cache
def sweep_of(name: str) -> Sweep:
    return load_sweep(CONFIGS[name])


def test_every_table_and_figure_has_its_config():
    assert {expected(path).table for path in CONFIGS.values()} == set(TABLES)
    assert {file.stem for file in FILES} == set(CONFIGS) | BASES


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_names_its_table_by_its_own_name_and_says_how_to_run_it(name):
    table = expected(CONFIGS[name]).table
    assert name.removesuffix("_evidence") == table.replace(" ", "").lower()
    head = CONFIGS[name].read_text(encoding="utf-8").split("\nextends:")[0]
    for word in ("command:", "duration:", "expected:"):
        assert word in head, word
    assert "needs:" in head or "data:" in head
    assert f"configs/paper/{name}.yaml" in head


@pytest.mark.parametrize("name", CONFIGS)
def test_expected_values_are_the_papers(name):
    table = expected(CONFIGS[name])
    known = TABLES[table.table]
    unheard = [column for column in table.columns if column not in known["columns"]]
    assert not unheard
    for row in table.rows:
        for column in table.columns:
            values = known["rows"].get(row)
            ours = None if values is None else values[known["columns"].index(column)]
            assert table.value(row, column) == ours, (row, column)
    said = {row for row, values in table.rows.items() if any(value is not None for value in values)}
    expected_rows = set(known["rows"]) if table.table != "Table 1" else {"RAG (w/o rerank)", "RAG (w rerank)", "Ours"}
    assert said == expected_rows


@pytest.mark.parametrize("name", CONFIGS)
def test_every_run_of_a_table_is_valid_and_every_row_finds_its_run(name):
    sweep, table = sweep_of(name), expected(CONFIGS[name])
    assert sweep.name == name
    assert sweep.sections["paper"]["table"] == table.table
    reserved = {"method", "module"}
    for reading in table.find:
        for row, chosen in reading.rows.items():
            named = {key: value for key, value in chosen.items() if key not in reserved}
            fits = [run for run in sweep.runs if all(run.axes.get(key) == value for key, value in named.items())]
            assert fits, (reading.name, row)
            labels = _labels(fits[0].config)
            assert chosen.get("method", labels[0]) in labels
    columns = {str(spec["dataset"]) for spec in table.columns.values() if "dataset" in spec}
    assert columns <= {run.axes.get("dataset") for run in sweep.runs}


def _labels(config) -> list[str]:
    return [str(item.get("label", item["name"])) for item in config.propagation] + config.evaluation.baselines


@pytest.mark.parametrize("name", [name for name in CONFIGS if expected(CONFIGS[name]).table in TYPED])
def test_configs_that_repeat_the_paper_pin_its_settings(name):
    for run in sweep_of(name).runs:
        if "sparse" in run.name:
            continue
        seeds, axes = run.config.query.seeds, run.axes
        assert (seeds.balance, seeds.entity_weight, seeds.atom_top_k) == ("alpha", 1.0, None)
        assert seeds.alpha == axes.get("query.seeds.alpha", 0.1)
        assert run.config.query.linking == {"name": "embedding", "top_k": 20, "threshold": 0.3}
        assert run.config.retrieval.top_k == 25
        assert run.config.graph.synonym_threshold == 0.8
        assert not run.config.operator.entity_specificity
        assert run.config.operator.beta is None


@pytest.mark.parametrize(
    "name", [name for name in CONFIGS if name.endswith("_evidence") or name in ("table3", "table6")]
)
def test_what_runs_here_asks_no_model(name):
    table = expected(CONFIGS[name])
    assert table.same_quantity == (name in ("table3", "table6"))
    for run in sweep_of(name).runs:
        assert not resolve(run.config).models
        assert run.config.encoder["model"] == "minilm"


def test_both_readings_of_damping_are_run():
    for name in ("table12", "table12_evidence"):
        low, high = expected(CONFIGS[name]).find
        for row in TABLES["Table 12"]["rows"]:
            assert low.rows[row]["propagation.0.restart"] == float(row)
            assert high.rows[row]["propagation.0.restart"] == pytest.approx(1 - float(row))


def test_the_defaults_are_table_5():
    config = load_config("paper/defaults")
    ppr, power, walks = config.propagation
    ours = {
        "LLM": config.llm.reader["model"],
        "Embedding model": {"bge-large": "BAAI/bge-large-en-v1.5"}[config.encoder["model"]],
        "retrieval_top_k": config.retrieval.top_k,
        "synonymy_edge_topk": config.graph.synonym_top_k,
        "synonymy_edge_sim_threshold": config.graph.synonym_threshold,
        "entity_node_weight": config.query.seeds.entity_weight,
        "entity_top_k": config.query.linking["top_k"],
        "entity_sim_threshold": config.query.linking["threshold"],
        "propagation_method": ppr["name"],
        "damping": ppr["restart"],  # as eq. 7 reads it
        "passage_node_weight": config.query.seeds.alpha,
        "propagation_num_iter": power["num_iter"],
        "propagation_num_walks": walks["num_walks"],
        "propagation_walk_length": walks["walk_length"],
        "max_sub_questions": config.query.decomposition["max_sub_questions"],
        "complexity_threshold": config.query.decomposition["complexity_threshold"],
    }
    assert ours == {name: value for name, value in DEFAULTS.items() if name != "embedding_max_seq_len"}
    assert config.encoder["max_length"] == 512  # bge-large has no more positions, whatever Table 5 asks for
    assert load_config("paper/table5").query == config.query


class TestThePapersOwnNumbers:
    """Where the paper's tables fit themselves and one another, and where they do not (the configs' notes say so)."""

    @pytest.mark.parametrize("table", TYPED)
    def test_averages_of_question_types(self, table):
        for row, values in TABLES[table]["rows"].items():
            mean = sum(values[:4]) / 4
            if (table, row) in ROUNDED_DOWN:
                assert mean == pytest.approx(ROUNDED_DOWN[table, row])
            else:
                assert mean == pytest.approx(values[4], abs=0.0501), row

    def test_averages_over_data_sets(self):
        for row, values in TABLES["Table 1"]["rows"].items():
            tasks = [*values[:4], *values[5:9], *values[10:13]]
            assert sum(values[10:13]) / 3 == pytest.approx(values[13], abs=0.0501), row
            assert sum(tasks) / 11 == pytest.approx(values[14], abs=0.0501), row
        for row, values in TABLES["Table 2"]["rows"].items():
            assert sum(values[:3]) / 3 == pytest.approx(values[3], abs=0.0501), row

    def test_average_degrees_fit_but_ours(self):
        off = [
            row
            for row, (nodes, edges, degree, _) in TABLES["Table 3"]["rows"].items()
            if abs(2 * edges / nodes - degree) > 0.01
        ]
        assert off == ["Ours"]
        assert TABLES["Table 3"]["rows"]["Ours"][2] - 2 * 146115 / 14586 == pytest.approx(3.0, abs=0.02)
        assert "20.03" in " ".join(expected(CONFIGS["table3"]).notes)

    def test_counts_of_table_6_add_up(self):
        for row, (nodes, entities, atoms, edges, *kinds) in TABLES["Table 6"]["rows"].items():
            assert nodes == entities + atoms, row
            assert edges == sum(kinds), row

    def test_table_7_adds_up_but_its_times(self):
        *modules, total = TABLES["Table 7"]["rows"].values()
        for at in (2, 3, 4, 8):
            assert sum(row[at] or 0 for row in modules) == pytest.approx(total[at], abs=0.0005), at
        assert sum(row[0] for row in modules) == pytest.approx(1457.26)
        assert total[0] == 2018.46

    def test_table_4_counts_the_answers_tokens_only(self):
        ours, answers = TABLES["Table 4"]["rows"]["Ours"], TABLES["Table 7"]["rows"]["Grounded Answer Generation"]
        assert ours[3] == pytest.approx(answers[4] / 1e6, abs=0.005)
        assert TABLES["Table 7"]["rows"]["Total"][4] / 1e6 == pytest.approx(16.17, abs=0.005)

    def test_two_tables_share_a_row(self):
        assert TABLES["Table 12"]["rows"]["0.5"] == TABLES["Table 13"]["rows"]["0.05"]


GOOD = {
    "table": "Table 0",
    "title": "t",
    "measure": "m",
    "columns": {"A": {"group": "all"}, "B": {}},
    "rows": {"ours": [1.0, None]},
}


class TestSections:
    """What a section `paper:` must be."""

    def test_a_good_one(self):
        table = PaperTable.from_section({**GOOD, "main": "A", "reference": "ours"})
        assert (table.value("ours", "A"), table.value("ours", "B")) == (1.0, None)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"tabel": "x"}, "paper.tabel: unknown key. Did you mean 'table'"),
            ({"title": None}, "paper.title: missing"),
            ({"rows": {"ours": [1.0]}}, "paper.rows.ours: got 1 values for 2 columns"),
            ({"rows": {"ours": [1.0, "x"]}}, "paper.rows.ours: .*expected numbers or null"),
            ({"columns": {"A": {"group": "all"}, "B": {"foo": 1}}}, "paper.columns.B: expected one of group"),
            ({"columns": {"A": {"mean": ["C"]}, "B": {}}}, "paper.columns.A.mean: got 'C'"),
            ({"main": "C"}, "paper.main: got 'C'"),
            ({"reference": "their"}, "paper.reference: got 'their'"),
            ({"find": [{"rows": {"their": {}}}]}, "paper.find: got 'their'"),
        ],
    )
    def test_a_faulty_one(self, change, message):
        with pytest.raises(ConfigError, match=message):
            PaperTable.from_section({**GOOD, **change})

    def test_a_config_without_one(self):
        with pytest.raises(ConfigError, match="has no section `paper:`"):
            expected("paper/defaults")


def test_shipped_configs_hold_the_papers():
    assert set(shipped_configs()) >= {f"paper/{name}" for name in CONFIGS}

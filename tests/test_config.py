"""Configs: every shipped file, overrides, inheritance, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from aeg.config.load import data_root, find_config, load_config, read_yaml
from aeg.config.schema import ExperimentConfig
from aeg.errors import ConfigError, DataError
from aeg.pipeline.methods import resolve

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = [file for file in sorted((ROOT / "configs").rglob("*.yaml")) if "sweep" not in read_yaml(file)]  # test_sweep


def test_there_are_configs():
    assert {"quickstart.yaml", "medical.yaml", "two_wiki.yaml", "novel.yaml"} <= {file.name for file in SHIPPED}


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_every_shipped_config_loads_and_names_known_methods(file):
    config = load_config(file)
    methods = resolve(config)
    assert methods.propagation or config.evaluation.baselines
    assert file.read_text(encoding="utf-8").startswith("# ")


def test_every_config_has_the_common_keys():
    config = load_config(None)
    for key in ("data_root", "run_dir", "artifacts_dir", "device", "seeds", "num_questions", "sample_seed", "plugins"):
        assert hasattr(config, key), key
    assert config.device == "auto"


def test_the_data_root_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("AEG_DATA", "/somewhere")
    assert data_root(load_config(None)) == Path("/somewhere")
    assert data_root(load_config(None, ["data_root=/else"])) == Path("/else")
    monkeypatch.delenv("AEG_DATA")
    assert data_root(load_config(None)) is None


def test_the_papers_two_readings_of_restart():
    equation = load_config("preset/paper")
    experiments = load_config("preset/paper_experiments")
    assert equation.propagation[0]["restart"] == 0.3
    assert experiments.propagation[0]["restart"] == 0.7
    for config in (equation, experiments):
        assert config.query.seeds.balance == "alpha"
        assert config.query.seeds.alpha == 0.1
        assert config.query.seeds.atom_top_k is None
        assert config.query.linking == {"name": "embedding", "top_k": 20, "threshold": 0.3}
    assert experiments.graph.synonym_top_k == 100


def test_overrides_reach_lists_and_replace_methods(tmp_path):
    config = load_config(
        "quickstart", ["propagation.0.restart=0.1", "extraction.name=syntactic", "num_questions=null", "device=cpu"]
    )
    assert config.propagation[0] == {"name": "ppr", "restart": 0.1}
    assert config.extraction == {"name": "syntactic"}
    assert config.num_questions is None


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["propagatoin=1"], "propagatoin: unknown key. Did you mean 'propagation'"),
        (["query.seeds.balanc=share"], r"query\.seeds\.balanc: unknown key\. Did you mean 'balance'"),
        (["query.seeds.balance=shares"], r"query\.seeds\.balance: got 'shares', expected one of share, trust, alpha"),
        (["graph.synonym_threshold=1.5"], r"graph\.synonym_threshold: got 1\.5, expected a number in \(0, 1\]"),
        (["chunk.overlap=256"], r"chunk\.overlap: got 256, expected less than max_tokens \(256\)"),
        (["retrieval.depth=5"], r"retrieval\.depth: got 5, expected at least top_k \(25\)"),
        (["num_questions=many"], "num_questions: .*'many'"),
        (["num_questions=0"], r"num_questions: got 0, expected a number in \[1, inf\)"),
        (["evaluation.ks=[5,2]"], r"evaluation\.ks: got \[5, 2\], expected ascending"),
        (["propagation.9.restart=0.1"], "'9' is no index of a list of 8 entries"),
        (["device"], "expected key.sub=value"),
        (["chunk=3"], "chunk: got 3, expected a section"),
        (["seeds=[a]"], r"seeds\[0\]|seeds"),
    ],
)
def test_wrong_values_name_the_key_and_what_is_allowed(overrides, message):
    with pytest.raises(ConfigError, match=message):
        load_config("quickstart", overrides)


def test_files_that_are_not_configs(tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: x\ncorpus: {name: sample\n")
    with pytest.raises(ConfigError, match=r"broken\.yaml, line \d+: not valid YAML"):
        load_config(broken)
    listed = tmp_path / "list.yaml"
    listed.write_text("- 1\n")
    with pytest.raises(ConfigError, match="expected a mapping"):
        load_config(listed)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("name: Zürich\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(latin)
    with pytest.raises(DataError, match=r"no such config file\. Did you mean 'quickstart'"):
        load_config("configs/quickstar.yaml")


def test_extends_merges_files_in_order(tmp_path):
    (tmp_path / "base.yaml").write_text("name: base\nchunk: {max_tokens: 100, overlap: 10}\n")
    (tmp_path / "child.yaml").write_text("extends: base\nname: child\nchunk: {overlap: 20}\n")
    config = load_config(tmp_path / "child.yaml")
    assert (config.name, config.chunk.max_tokens, config.chunk.overlap) == ("child", 100, 20)
    (tmp_path / "loop.yaml").write_text("extends: loop\n")
    with pytest.raises(ConfigError, match="extends itself"):
        load_config(tmp_path / "loop.yaml")


def test_find_config_finds_shipped_files_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("quickstart", "configs/quickstart.yaml", "preset/paper"):
        assert find_config(name).is_file()


def test_configs_are_frozen():
    with pytest.raises(AttributeError):
        ExperimentConfig().name = "x"  # type: ignore[misc]

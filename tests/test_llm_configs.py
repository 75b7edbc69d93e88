"""The shipped `llm` sections: each names three backends that exist, and one override changes the model of all."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from aeg.backends.llm import BACKENDS
from aeg.backends.llm.ledger import Prices
from aeg.config.load import read_yaml

FOLDER = Path(__file__).resolve().parent.parent / "configs" / "llm"
NAMES = ("batch", "llama_cpp", "openai", "recorded", "transformers", "vllm")
ROLES = ("extractor", "reader", "judge")


def section(name, **overrides):
    tree = read_yaml(FOLDER / f"{name}.yaml")
    for key, value in overrides.items():
        OmegaConf.update(tree, f"llm.{key}", value)
    return OmegaConf.to_container(tree, resolve=True)["llm"]


def test_all_are_there():
    assert sorted(path.stem for path in FOLDER.glob("*.yaml")) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_config_names_a_backend_for_each_role(name):
    plain = section(name)
    assert set(plain) <= {*ROLES, "prices"}
    made = [BACKENDS.from_spec(plain[role], f"llm.{role}") for role in ROLES]
    assert made[0] == made[1] == made[2]
    assert made[0].model
    assert plain[ROLES[0]]["name"] == (name if name in BACKENDS else "openai")
    Prices(plain.get("prices"))


@pytest.mark.parametrize("name", NAMES)
def test_the_extractors_model_is_everyones_unless_one_says_otherwise(name):
    assert [section(name, **{"extractor.model": "m"})[role]["model"] for role in ROLES] == ["m"] * 3
    other = section(name, **{"judge.model": "m"})
    assert [other[role]["model"] == "m" for role in ROLES] == [False, False, True]


@pytest.mark.parametrize("name", NAMES)
def test_the_header_says_what_for_and_how(name):
    header = [line for line in (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines() if line[:1] == "#"]
    for word in ("for:", "before:", "command:"):
        assert any(line.startswith(f"#   {word}") for line in header), word

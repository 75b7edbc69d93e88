"""The shipped `llm` sections: each names a backend that exists for each role."""

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


def section(name):
    return OmegaConf.to_container(read_yaml(FOLDER / f"{name}.yaml"), resolve=True)["llm"]


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
def test_the_header_says_what_for_and_how(name):
    lines = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    header = [line for line in lines if line.startswith("#")]
    assert header[0].endswith("for `extends`.")
    assert len(header) > 1

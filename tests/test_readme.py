"""The README's code runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import igraph
import pytest
import torch

from aeg.cli.main import main
from aeg.propagation import METHODS

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
SHIPPED = [name for name in METHODS if type(METHODS.make(name)).__module__.startswith("aeg.")]  # not those of tests
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.S)


def block(containing: str) -> str:
    (found,) = (text for text in BLOCKS if containing in text)
    return found


def test_the_engine_on_anyone_s_graph():
    names = {
        "num_nodes": 3,
        "edge_index": torch.tensor([[0, 1], [1, 2]]),
        "weight": torch.tensor([1.0, 2.0]),
        "seeds": torch.eye(3),
    }
    exec(compile(block("Operator.from_edges"), "README", "exec"), names)
    assert names["scores"].shape == (3, 3)


def test_the_batched_call_replaces_igraph_s():
    from aeg import Operator
    from aeg.propagation import make

    graph = igraph.Graph.Barabasi(60, 3)
    graph.es["weight"] = [1.0 + (i % 5) for i in range(graph.ecount())]
    personalizations = torch.rand(4, 60).tolist()
    scores, _ = make("ppr", restart=0.5)(Operator.from_igraph(graph), torch.tensor(personalizations).T)
    for at, reset in enumerate(personalizations):
        expected = graph.personalized_pagerank(damping=0.5, reset=reset, weights="weight", implementation="prpack")
        assert scores[:, at].tolist() == pytest.approx(expected, abs=1e-5)


def test_the_tutorial_s_method_holds_the_contract(tmp_path, capsys):
    plugin = tmp_path / "lazy_walk.py"
    plugin.write_text(block("class LazyWalk"))
    assert main(["check-method", "lazy_walk", "--plugin", str(plugin)]) == 0
    assert main(["check-method", "lazy_walk", "steps=6", "--plugin", str(plugin)]) == 0
    assert "contract holds" in capsys.readouterr().out


def test_every_method_is_in_the_table():
    for name in SHIPPED:
        assert f"| `{name}` |" in README, name

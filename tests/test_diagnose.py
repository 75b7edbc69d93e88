"""The diagnosis: for each cause a corpus made so that it is known, and a run on the sample."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from aeg.config.load import load_config
from aeg.core.operator import Operator
from aeg.errors import ConfigError, DataError
from aeg.evaluation.diagnosis import CAUSES, Facts, Terrain, cause_of, distinct_rank, uncrowded_rank, walk_length
from aeg.experiment.run import run
from experiments.diagnose.__main__ import Diagnosis, diagnose, in_words, main
from experiments.diagnose.finished import read_run
from experiments.diagnose.settings import Settings

K = 3
SETTINGS = Settings(k=K, common=0.5)
SUBJECTS = (
    *("a bridge of grey stone", "seven wooden ships", "the price of barley", "a frozen waterfall", "two blind monks"),
    *("an iron bell", "maps of the coast", "a school for weavers", "the comet of that year", "salted herring"),
    *("a feud about sheep", "windmills", "a lost opera", "glass beads", "the old calendar", "marble quarries"),
)


class World:
    """A corpus that is put together statement by statement, with a recorded extraction."""

    def __init__(self) -> None:
        self.documents: list[dict] = []
        self.extraction: list[dict] = []
        self.questions: list[dict] = []
        self._texts = 0

    def add(self, name: str, *atoms: list[str], text: str | None = None, triples: tuple = (), same: str = "") -> str:
        """Add a document with atoms that mention the entities given; their texts differ widely."""
        stated = []
        for at, entities in enumerate(atoms):
            subject = SUBJECTS[self._texts % len(SUBJECTS)]
            self._texts += 1
            words = f"{same} {at}" if same else f"On {subject} {name} says this"
            stated.append({"text": text or f"{words}: {', '.join(entities)}", "entities": entities})
        body = f"{name}. " + " ".join(atom["text"] + "." for atom in stated)
        self.documents.append({"id": name, "text": body})
        names = sorted({entity for atom in stated for entity in atom["entities"]})
        record = {"passage": name, "entities": names, "triples": [list(t) for t in triples], "atoms": stated}
        self.extraction.append(record)
        return name

    def ask(self, cause: str, question: str, *gold: str) -> None:
        self.questions.append(
            {"id": cause, "question": question, "type": cause[0], "gold_doc_ids": list(gold), "evidence": []}
        )

    def crowd(self, link: str, number: int, *more: str) -> None:
        """Add documents with one atom each on an entity, and leaves that return what it gets."""
        for at in range(number):
            self.add(f"{link}-{at}", [link, f"Leaf {link} {at}", *more])

    def save(self, folder: Path) -> list[str]:
        for name in ("documents", "extraction", "questions"):
            lines = "".join(json.dumps(item) + "\n" for item in getattr(self, name))
            (folder / f"{name}.jsonl").write_text(lines)
        corpus = "{name: jsonl, documents: documents.jsonl, questions: questions.jsonl, prechunked: true}"
        return [
            f"data_root={folder}",
            f"corpus={corpus}",
            "extraction={name: recorded, path: extraction.jsonl}",
            "graph.synonym=false",
            "query.linking.name=lexical",
            "query.seeds.atom_share=0.0",
            "query.seeds.fallback_top_k=1",
            "retrieval.passage_score=sum",
            "propagation=[{name: ppr, restart: 0.1}, {name: ppr, restart: 0.7, label: short}]",
            "evaluation={baselines: [bm25], resamples: 100}",
            "device=cpu",
        ]


def ranked(world: World, link: str, number: int) -> str:
    """Add gold that stands right below `number` documents which it has nothing to hold against."""
    world.crowd(link, number)
    return world.add(f"{link}-gold", [link, f"Sink {link}"], triples=())


def make_world() -> World:
    world = World()
    gold = [world.add(f"measure-{at}", ["Avalor", f"Leaf {at}"]) for at in range(K + 1)]
    world.ask("measure", "What of Avalor?", *gold)
    world.crowd("Brimsay", K)
    world.ask("extraction", "What of Brimsay?", world.add("nothing"))
    decoys = [world.add(f"decoy-{at}", ["Common Decoy"], text=f"And what happened then {at}") for at in range(K)]
    world.ask("no_entity", "And what happened then?", world.add("unlinked", ["Kelda Voe"]))
    assert decoys
    world.crowd("Corrin Bay", K)
    world.ask("named", "Did Quillon Marsh see Corrin Bay?", world.add("marsh", ["Quillon Marsh of Brell"]))
    world.crowd("Dunmore", K)
    world.ask("unreachable", "What of Dunmore?", world.add("island", ["Far Island"]))
    world.crowd("Eastray", K, "Between Eastray")
    world.add("between", ["Between Eastray", "Behind Eastray"])
    world.ask("wrong_entity", "What of Eastray?", world.add("behind", ["Behind Eastray"]))
    chain = [world.add(f"chain-{at}", [f"Faray {at}", f"Faray {at + 1}"]) for at in range(3)]
    world.crowd("Faray 0", K)
    world.ask("too_far", "What of Faray 0?", *chain)
    for at in range(K):
        world.add(f"twin-{at}", ["Gairsay", "Twin Leaf"], ["Gairsay", "Twin Leaf"], same="The ship sank in the sound")
    world.ask("duplicates", "What of Gairsay?", world.add("single", ["Gairsay", "Own Leaf"]))
    for at in range(K):
        world.add(f"long-{at}", *[["Holm"]] * 5)
    world.ask("crowded", "What of Holm?", world.add("short", ["Holm", "Leaf Holm"]))
    many = [("Inga Sound", label, "Hub Inga") for label in ("of", "by", "near", "under", "beside", "within")]
    for at in range(K):
        leaves = [f"Hub leaf {at} {leaf}" for leaf in range(8)]
        world.add(f"hub-{at}", ["Hub Inga", *leaves], triples=tuple(many))
    world.ask(
        "hubs", "What of Inga Sound?", world.add("aside", ["Moss Inga"], triples=(("Inga Sound", "of", "Moss Inga"),))
    )
    for at in range(40):  # what gold below is tied to takes its mass away
        world.add(f"sink-{at}", ["Great Sink"])
    for cause, link, number in (
        ("below", "Juray", K + 1),
        ("far_below", "Kirkby", 4 * K),
        ("out_of_sight", "Lamb", 34),
    ):
        world.crowd(link, number)
        world.ask(cause, f"What of {link}?", world.add(f"{link}-gold", [link, "Great Sink"]))
    world.ask("found", "What of Own Moor?", world.add("moor", ["Own Moor"]))
    return world


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("world")
    overrides = [*make_world().save(place), f"artifacts_dir={place / 'artifacts'}", f"run_dir={place / 'runs'}"]
    return run(load_config(None, overrides), lambda _: None).folder


@pytest.fixture(scope="module")
def found(folder) -> Diagnosis:
    return diagnose(read_run(folder, "ppr"), SETTINGS, examples=1)


def by_question(found: Diagnosis) -> dict[str, list[str]]:
    causes: dict[str, list[str]] = {}
    for miss in found.misses:
        causes.setdefault(miss.query.id, []).append(miss.cause)
    return causes


@pytest.mark.parametrize("cause", [cause for cause in CAUSES if cause not in ("too_far", "mixed")])
def test_every_cause_is_found_where_the_corpus_was_made_for_it(found, cause):
    told = {miss.query.id: miss.facts for miss in found.misses}
    assert by_question(found).get(cause) == [cause], told.get(cause)


def test_a_short_walk_does_not_get_far(folder):
    causes = by_question(diagnose(read_run(folder, "short"), replace(SETTINGS, faint=0.05)))
    assert causes["too_far"][-1] == "too_far"
    assert causes["unreachable"] == ["unreachable"]


def test_words_that_are_mixed_in_can_put_gold_below(tmp_path):
    world = World()
    for at in range(K):
        text = f"The red kettle of Papa Stour whistled in year {at}"
        world.add(f"kettle-{at}", ["Papa Stour", "Great Sink"], text=text)
    for at in range(20):
        world.add(f"sink-{at}", ["Great Sink"])
    world.ask("mixed", "Who heard the red kettle of Papa Stour?", world.add("other", ["Papa Stour", "Leaf Papa"]))
    overrides = [*world.save(tmp_path), f"artifacts_dir={tmp_path / 'a'}", f"run_dir={tmp_path / 'runs'}"]
    folder = run(load_config(None, [*overrides, "retrieval.mix={}"]), lambda _: None).folder
    (miss,) = diagnose(read_run(folder, "ppr"), SETTINGS).misses
    assert (miss.cause, miss.facts.walked, miss.facts.rank) == ("mixed", 1, K + 1)


def test_every_miss_has_one_cause_and_the_counts_add_up(found, folder):
    rows = pq.read_table(folder / "results.parquet", columns=["question_id", "method", "documents"]).to_pylist()
    documents = {row["question_id"]: row["documents"][:K] for row in rows if row["method"] == "ppr"}
    golds = {item["id"]: item["gold_doc_ids"] for item in make_world().questions}
    expected = {(name, gold) for name, of in golds.items() for gold in of if gold not in documents[name]}
    assert {(miss.query.id, miss.gold.name) for miss in found.misses} == expected
    assert len(found.misses) == len(expected)
    assert sum(found.totals.values()) == sum(map(len, golds.values()))
    assert "found" not in by_question(found)


def test_the_table_adds_up_and_the_examples_say_what_outranked_it(found, folder):
    text = in_words(read_run(folder, "ppr"), SETTINGS, found)
    table = text.split("\n\n")[1].splitlines()
    assert "cause" in table[0]
    counts = [int(line.split(" (")[0].split()[-1]) for line in table if " (" in line]
    assert sum(counts[:-1]) == counts[-1] == len(found.misses)
    (told,) = (block for block in text.split("\n\n") if block.startswith("[hubs]"))
    assert "links: 'Inga Sound' -> 'inga sound'" in told
    assert "seeds: 1.00 'inga sound'" in told
    assert "by lift 1)" in told
    assert "hub-0" in told
    assert "by 'hub inga'" in told


def test_the_program_writes_every_miss(folder, tmp_path, capsys):
    target = tmp_path / "misses.json"
    assert main([str(folder), "--k", str(K), "--common", "0.5", "--json", str(target)]) == 0
    content = json.loads(target.read_text())
    assert {miss["question_id"]: miss["cause"] for miss in content["misses"]}["crowded"] == "crowded"
    assert content["settings"]["k"] == K
    assert f"{len(content['misses'])} missed" in capsys.readouterr().out
    assert main([str(folder), "--method", "bm25"]) == 2
    assert "not a propagation method of this run" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 2
    assert "expected the folder of a finished run" in capsys.readouterr().err


def test_the_held_out_half_is_not_diagnosed(folder, tmp_path):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["config"]["questions"] = "odd"
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="developing on it"):
        read_run(tmp_path, None)
    with pytest.raises(ConfigError, match="k: got 0"):
        Settings(k=0)


def test_statements(tmp_path):
    world = World()
    body = "The tower of Norwick fell during a gale. Herring paid for the bells of Norwick."
    world.documents.append({"id": "long", "text": body})
    lost = [{"text": f"Norwick tale {n} about {SUBJECTS[n]}", "entities": ["Norwick"]} for n in range(9)]
    stated = {"text": "The tower of Norwick fell during a gale", "entities": ["Norwick", "Gale"]}
    world.extraction.append(
        {"passage": "long", "entities": ["Norwick", "Gale"], "triples": [], "atoms": [*lost, stated]}
    )
    world.ask("tower", "What of Norwick?")
    world.questions[0]["evidence"] = [
        "A gale felled the tower of Norwick, it fell",
        "Herring paid for bells",
        "Bankers from Genoa invented double accounting",
        "of the and",
    ]
    overrides = [*world.save(tmp_path), f"artifacts_dir={tmp_path / 'a'}", f"run_dir={tmp_path / 'runs'}"]
    outcome = run(load_config(None, overrides), lambda _: None)
    run_read = read_run(outcome.folder, "ppr")
    wide = diagnose(run_read, Settings(budget=500))
    assert [(miss.gold.name[:7], miss.cause) for miss in wide.misses] == [
        ("Herring", "extraction"),
        ("Bankers", "measure"),
    ]
    assert sum(wide.totals.values()) == 3
    rows = pq.read_table(outcome.folder / "results.parquet").to_pylist()
    (units,) = (row["units"] for row in rows if row["method"] == "ppr")
    assert len(units) == 10
    narrow = diagnose(run_read, Settings(budget=10, common=0.99))
    assert {miss.gold.name[:7]: miss.cause for miss in narrow.misses}.keys() <= {"A gale ", "Herring", "Bankers"}


def test_a_run_on_the_sample(tmp_path, capsys):
    overrides = [f"artifacts_dir={tmp_path / 'a'}", f"run_dir={tmp_path / 'runs'}", "questions=even"]
    small = [
        "propagation=[{name: heat_kernel}, {name: ppr}]",
        "evaluation.resamples=100",
        "evaluation.baselines=[bm25]",
    ]
    decomposed = "query.decomposition={name: recorded, path: 'builtin:sample'}"
    outcome = run(load_config("quickstart", [*overrides, *small, decomposed]), lambda _: None)
    for method in ("heat_kernel", "ppr"):
        found = diagnose(read_run(outcome.folder, method), Settings(k=2), "passages", examples=1)
        rows = pq.read_table(outcome.folder / "results.parquet").to_pylist()
        recall = [dict(row["metrics"])["recall@2"] for row in rows if row["method"] == method and row["metrics"]]
        assert found.misses
        assert found.relinked == 0
        golds = Counter(miss.query.id for miss in found.misses)
        sizes = {miss.query.id: len(miss.query.gold_doc_ids) for miss in found.misses}
        lost = sum(golds[name] / sizes[name] for name in golds)
        assert lost == pytest.approx(sum(1 - value for value in recall))  # the run's own recall
    assert main([str(outcome.folder), "--method", "ppr", "--of", "statements", "--budget", "64"]) == 0
    assert "gold statements within 64 tokens" in capsys.readouterr().out


def test_the_first_cause_that_holds_counts():
    facts = Facts(True, True, 1, False, True, 1, 3, rank=40, walked=40, distinct=40, uncrowded=40, lifted=40, k=3)
    worse = {
        "far_below": {"rank": 30},
        "below": {"rank": 6},
        "hubs": {"lifted": 3},
        "crowded": {"uncrowded": 3},
        "duplicates": {"distinct": 3},
        "mixed": {"walked": 3},
        "too_far": {"distance": 4},
        "wrong_entity": {"led": False},
        "unreachable": {"distance": None},
        "named": {"named": True},
        "no_entity": {"linked": 0},
        "extraction": {"stated": False},
        "measure": {"possible": False},
    }
    assert cause_of(facts) == "out_of_sight"
    assert [*worse, "out_of_sight"] == [*reversed([name for name in CAUSES if name != "out_of_sight"]), "out_of_sight"]
    for cause, change in worse.items():
        facts = replace(facts, **change)
        assert cause_of(facts) == cause


def test_what_ties_and_what_does_not():
    # atoms 0..11 mention entity 12 (common); 0 mentions 13, 1 mentions 14, 13-15 related, 15 on atom 2
    edges = [(atom, 12) for atom in range(12)] + [(0, 13), (1, 14), (13, 15), (2, 15)]
    terrain = Terrain(Operator.from_edges(16, torch.tensor(edges).T), 12, common=0.5)
    assert terrain.entities([0, 1]) == {13, 14}
    assert terrain.own([0]) == {13}
    assert terrain.led([13], [[0], [1], [2]]) == [True, False, True]
    assert terrain.led([12], [[0], [1], [2]]) == [False, False, False]
    everything = Terrain(Operator.from_edges(16, torch.tensor(edges).T), 12, common=1.0)
    assert everything.led([12], [[0], [1], [2]]) == [True, True, True]
    assert terrain.distances([]).tolist() == [-1] * 16
    assert terrain.distances([14])[[1, 12, 0, 13, 15]].tolist() == [1, 2, 3, 4, 4]  # by atom 2 or by entity 13


def test_ranks_and_lengths():
    distance = np.array([0, 1, 2, -1])
    assert walk_length(distance, np.zeros(4), 0.01) == 0
    assert walk_length(distance, np.array([1.0, 1.0, 1.0, 50.0]), 0.5) == 0
    assert walk_length(distance, np.array([1.0, 1.0, 1.0, 0.0]), 0.3) == 2
    assert distinct_rank(np.eye(3), 0.9) == 3
    assert uncrowded_rank([[0, 1], [0], [0], [2]], 1) == 2
    assert uncrowded_rank([[0], [0], [0], [0]], 2) == 3

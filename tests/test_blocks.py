"""Questions in blocks: an interrupted ranking goes on where it was, and is the same bytes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch
from slurm_encoder import make_encoder

from aeg.cluster.signals import Stopped
from aeg.config.load import load_config
from aeg.errors import DataError
from aeg.pipeline.blocks import blocks, joined
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.stages import Pipeline

METHODS = (
    "{name: ppr, engine: iterate}, "
    "{name: ppr, label: folded, engine: folded, seeds: {atom_top_k: null, lexical_share: 0.0}}, "
    "{name: rwr, num_walks: 20}, {name: katz}, {name: weighted_bfs}"
)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def built(tmp_path_factory, encoder) -> Path:
    """Artifacts of the sample's extraction and graph."""
    folder = tmp_path_factory.mktemp("built")
    made(folder, encoder)
    return folder


def made(folder: Path, encoder: Path, *overrides: str) -> tuple[Retriever, object]:
    pipeline = Pipeline(
        load_config(
            "quickstart",
            [
                f"encoder={{name: hf, model: '{encoder}', pooling: mean}}",
                "graph.synonym=false",
                "device=cpu",
                "workers=1",
                f"artifacts_dir={folder}",
                f"propagation=[{METHODS}]",
                "evaluation.baselines=[]",
                "retrieval.block=30",
                *overrides,
            ],
        )
    )
    corpus = pipeline.corpus(pipeline.methods.corpus)
    graph, name = pipeline.graph(pipeline.passages(corpus))
    retriever = Retriever(pipeline, graph, name)
    return retriever, retriever.seeding(corpus.queries)


def kept(folder: Path) -> dict[str, bytes]:
    """The files of rankings by artifact, manifests left out, as they hold times."""
    files = (file for file in (folder / "ranking").rglob("*") if file.is_file() and file.name != "manifest.json")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def clear(folder: Path) -> None:
    for file in (folder / "ranking").rglob("*"):
        if file.is_file():
            file.unlink()


def stopping_after(monkeypatch, count: int) -> list[int]:
    """Let `rank_block` be stopped by a signal after so many calls; returns the blocks that it was called for."""
    real, called = Retriever.rank_block, []

    def rank_block(self, item, method, seeding, seed, block):
        if len(called) == count:
            raise Stopped(signal.SIGUSR1)
        called.append(block.index)
        return real(self, item, method, seeding, seed, block)

    monkeypatch.setattr(Retriever, "rank_block", rank_block)
    return called


def test_an_interrupted_ranking_goes_on_and_is_the_same_bytes(built, encoder, monkeypatch):
    clear(built)
    retriever, seeding = made(built, encoder)
    retriever.rankings(seeding)
    whole = kept(built)
    assert len(whole) == 5
    clear(built)
    for count in (7, 4):  # of 5 methods and 3 blocks: stopped in the middle of the second block, then of the third
        retriever, seeding = made(built, encoder)
        told: list[tuple[int, int]] = []
        retriever.pipeline.advanced = lambda done, total, told=told: told.append((done, total))
        with monkeypatch.context() as patch:
            called = stopping_after(patch, count)
            with pytest.raises(Stopped):
                retriever.rankings(seeding)
        assert len(called) == count
    assert told == [(30, 79), (60, 79)]
    assert len(kept(built)) == 7 + 4
    retriever, seeding = made(built, encoder)
    with monkeypatch.context() as patch:
        called = stopping_after(patch, 99)
        retriever.rankings(seeding)
    assert called == [2, 2, 2, 2]
    assert kept(built) == whole


def test_a_block_that_cannot_be_read_is_ranked_again(built, encoder, monkeypatch):
    clear(built)
    retriever, seeding = made(built, encoder)
    with monkeypatch.context() as patch:
        stopping_after(patch, 5)
        with pytest.raises(Stopped):
            retriever.rankings(seeding)
    damaged = sorted((built / "ranking").rglob("blocks/*.safetensors"))[0]
    damaged.write_bytes(damaged.read_bytes()[:100])
    retriever, seeding = made(built, encoder)
    with monkeypatch.context() as patch:
        called = stopping_after(patch, 99)
        retriever.rankings(seeding)
    assert sorted(called) == [0, *[1] * 5, *[2] * 5]
    clear(built)
    again, seeding = made(built, encoder)
    assert all(
        torch.equal(mine.units, other.units)
        for mine, other in zip(again.rankings(seeding), retriever.rankings(seeding), strict=True)
    )


def test_blocks_of_whole_tiles_change_nothing(built, encoder):
    clear(built)
    (one, seeding), (many, _) = made(built, encoder, "retrieval.block=1000"), made(built, encoder, "retrieval.block=64")
    for mine, other in zip(one.rankings(seeding), many.rankings(seeding), strict=True):
        assert mine.engine == other.engine
        assert torch.equal(mine.units, other.units), mine.method
        assert torch.allclose(mine.unit_scores, other.unit_scores, atol=1e-6)
        if mine.method == "ppr":
            head = slice(0, 64)  # the rest comes in a narrower tile
            assert torch.equal(mine.unit_scores[head], other.unit_scores[head])


def test_the_engine_is_chosen_by_all_questions(built, encoder, monkeypatch):
    from aeg.propagation import ppr

    asked = []
    real = ppr.choose_engine

    def choose(engine, op, seeds, rows, steps, push):
        asked.append((engine, seeds.num_queries))
        return real(engine, op, seeds, rows, steps, push=push)

    monkeypatch.setattr(ppr, "choose_engine", choose)
    retriever, seeding = made(built, encoder, "propagation=[{name: ppr, tol: 1.0e-4}]")
    clear(built)
    retriever.rankings(seeding)
    assert asked[0] == ("auto", 79)
    assert {engine for engine, _ in asked[1:]} == {"iterate"}


def test_candidates_of_blocks_are_as_wide_as_the_widest():
    retrieved = blocks(torch.tensor([0, 0, 1, 2, 2, 2]), 3, 1)
    assert [(b.start, b.stop) for b in retrieved] == [(0, 2), (2, 3), (3, 6)]
    with pytest.raises(DataError, match="no block"):
        joined([])


def test_sub_questions_of_one_question_stay_together(built, encoder):
    """A question's effective queries are never parted, and lists of candidates are padded to the widest block's."""
    retriever, seeding = made(built, encoder, "retrieval.block=1", "num_questions=3", "propagation=[{name: ppr}]")
    parts = retriever.blocks(seeding)
    assert [(b.first, b.last) for b in parts] == [(0, 1), (1, 2), (2, 3)]
    whole, found = (
        retriever.rankings(seeding)[0],
        retriever.rank(retriever.pipeline.methods.propagation[0], seeding, None),
    )
    assert torch.equal(whole.candidates, found.candidates)

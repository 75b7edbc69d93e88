"""Folders to report on: a real run, a real sweep with a table of the paper, and a sweep with a broken element."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from aeg.config.load import load_config
from aeg.experiment.run import run
from aeg.experiment.sweep import load_sweep, run_sweep

RESTARTS = "sweep: {grid: {propagation.0.restart: [0.1, 0.3, 0.7, 0.9]}}"
PAPER = """
paper:
  table: Table 12
  title: Restart, ρ
  measure: answer accuracy, percent
  same_quantity: false
  columns: {Fact: {}, "Avg.": {group: all}}
  main: Avg.
  reference: "0.3"
  metric: recall@5
  rows: {"0.1": [71.8, 72.2], "0.3": [72.6, 73.1], "0.7": [71.9, 72.3], "0.9": [61.7, 66.2]}
  find:
    - reading: restart = ρ
      rows:
        "0.1": {propagation.0.restart: 0.1, method: ppr}
        "0.3": {propagation.0.restart: 0.3, method: ppr}
        "0.7": {propagation.0.restart: 0.7, method: ppr}
        "0.9": {propagation.0.restart: 0.9, method: ppr}
"""
BROKEN = """
sweep:
  variants:
    - {name: whole}
    - {name: broken, set: {extraction.path: gone.jsonl}}
"""
DEEDS = ("painted a barn", "sold seven goats", "sailed to Crete", "baked rye bread", "lost a lawsuit", "found a coin")
TYPES = ("odd", "<even> & | `x`")


def corpus(folder: Path) -> None:
    """Write a small corpus, its extraction, and questions of two types."""
    files: dict[str, list[dict]] = {"documents": [], "extraction": [], "questions": []}
    for i in range(12):
        text = f"Ann {DEEDS[i % 6]} in year {i}."
        files["documents"].append({"id": f"d{i:02d}", "text": text})
        atom = {"text": text, "entities": ["Ann", f"year {i}"]}
        files["extraction"].append({"passage": f"d{i:02d}", "entities": ["Ann"], "triples": [], "atoms": [atom]})
        question = {"id": f"q{i:02d}", "question": f"When did Ann {DEEDS[i % 6]}?", "answer": f"In year {i}."}
        files["questions"].append(question | {"type": TYPES[i % 2], "gold_doc_ids": [f"d{i:02d}"], "evidence": [text]})
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def config(folder: Path, name: str, methods: str, more: str) -> Path:
    """Write a config over that corpus."""
    file = folder / f"{name}.yaml"
    file.write_text(
        f"""
name: {name}
data_root: {folder}
run_dir: {folder / "runs"}
artifacts_dir: {folder / "artifacts"}
device: cpu
corpus: {{name: jsonl, documents: documents.jsonl, questions: questions.jsonl}}
extraction: {{name: recorded, path: extraction.jsonl}}
propagation: {methods}
evaluation: {{resamples: 100, baselines: [bm25]}}
{more}
"""
    )
    return file


class Folders:
    """A small corpus with what was run on it.

    Attributes:
        run: a run of three methods and a baseline.
        sweep: four restarts, two methods, and a table of the paper.
        fragile: a sweep of two, one of which failed.
        interrupted: a run folder that an interrupted process left.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        corpus(folder)
        single = config(folder, "single", "[{name: ppr, restart: 0.5}, {name: katz}, {name: rwr}]", "")
        self.run = run(load_config(single), quiet).folder
        self.sweep = self._swept(config(folder, "small", "[{name: ppr}, {name: katz}]", RESTARTS + PAPER), 0)
        self.fragile = self._swept(config(folder, "fragile", "[{name: ppr}]", BROKEN), 1)
        self.interrupted = folder / "runs" / "late-00000000"
        self.interrupted.mkdir(parents=True)
        state = {"status": "interrupted", "since": "2026-01-02T03:04:05+00:00", "error": "interrupted (SIGTERM)"}
        (self.interrupted / "state.json").write_text(json.dumps(state))
        (self.interrupted / "log.txt").write_text("\n".join(f"line {at} <b>" for at in range(40)))

    @property
    def all(self) -> list[Path]:
        """The four folders."""
        return [self.run, self.sweep, self.fragile, self.interrupted]

    @staticmethod
    def _swept(file: Path, code: int) -> Path:
        sweep = load_sweep(file)
        assert run_sweep(sweep, quiet) == code
        return sweep.folder


def quiet(_: str) -> None:
    """Report nothing."""


@functools.cache
def made_in(folder: Path) -> Folders:
    """The folders, made once for all modules."""
    return Folders(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Folders:
    """The folders."""
    return made_in(tmp_path_factory.getbasetemp() / "report")

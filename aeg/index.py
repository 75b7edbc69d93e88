"""An index of one's own documents: built once, then queried."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aeg.answer import Answered
from aeg.artifacts import read_json, write_text
from aeg.config.load import restored, to_plain
from aeg.config.schema import ExperimentConfig
from aeg.core.evidence import CitationUnit
from aeg.core.ranking import top_k
from aeg.core.records import Query
from aeg.errors import ConfigError, DataError
from aeg.graph import AtomEntityGraph, load
from aeg.pipeline.generating import Generator
from aeg.pipeline.retrieving import Retriever, Seeding
from aeg.pipeline.stages import Pipeline, Report
from aeg.propagation.base import Context
from aeg.retrieval.carriers import carriers
from aeg.retrieval.merge import merge_effective

_FILE = "index.json"
_FORMAT = 1


@dataclass(frozen=True)
class Evidence:
    """One ranked atom, with where it stands and what carried its score.

    Attributes:
        rank: from 1.
        score: of the best effective query.
        atom: the atom's text.
        atom_id: its id.
        sources: (document id, passage id, character span in the passage or None) of each occurrence.
        entities: (name, share) of the entities that carried the score, strongest first.
    """

    rank: int
    score: float
    atom: str
    atom_id: str
    sources: tuple[tuple[str, str, tuple[int, int] | None], ...]
    entities: tuple[tuple[str, float], ...]


def own_corpus(path: Path) -> dict[str, Any]:
    """Return the corpus section for a folder of text or Markdown files, or a file of JSON lines.

    Raises:
        DataError: if there is neither.
    """
    if path.is_dir():
        return {"name": "text_folder", "path": str(path.resolve())}
    if path.is_file() and path.suffix == ".jsonl":
        return {"name": "jsonl", "documents": str(path.resolve())}
    raise DataError(f"{path}: expected a folder of .txt and .md files, or a .jsonl file with id and text a line")


def build_index(config: ExperimentConfig, folder: Path, report: Report) -> Pipeline:
    """Build (or go on building) the index of `config`'s corpus in `folder`."""
    pipeline = Pipeline(dataclasses.replace(config, artifacts_dir=str(folder)), report)
    _ = pipeline.methods  # what is wrong with the config is told before anything is touched
    (folder / _FILE).unlink(missing_ok=True)
    try:
        corpus = pipeline.corpus(pipeline.methods.corpus)
        _, name = pipeline.graph(pipeline.passages(corpus))
    finally:
        pipeline.close()
    content = {"format": _FORMAT, "graph": name, "config": to_plain(config), "counts": pipeline.counts}
    write_text(folder / _FILE, json.dumps(content, indent=1, sort_keys=True) + "\n")
    return pipeline


def open_index(folder: Path, overrides: Sequence[str] = ()) -> tuple[Pipeline, AtomEntityGraph, str]:
    """Return the pipeline, graph and graph fingerprint of an index; nothing is written to it.

    Args:
        folder: of the index.
        overrides: `key.sub=value`, merged over the config that the index was built with.

    Raises:
        DataError: if there is no index, or its building was interrupted.
    """
    file = folder / _FILE
    if not file.is_file():
        if any((folder / stage).is_dir() for stage in ("extraction", "graph")):
            raise DataError(f"{folder}: index incomplete; run the same `aeg index` again, it goes on where it stopped")
        raise DataError(f"{folder}: no index here; build one with `aeg index PATH --out {folder}`")
    content = read_json(file)
    if content.get("format") != _FORMAT:
        raise DataError(f"{file}: got format {content.get('format')}, expected {_FORMAT}; build the index again")
    config = restored({**content["config"], "artifacts_dir": str(folder)}, overrides)
    pipeline = Pipeline(config, read_only=True)
    return pipeline, load(folder / "graph" / content["graph"][:32]), content["graph"]


class Searcher:
    """Answers questions from an open index."""

    def __init__(self, folder: Path, overrides: Sequence[str] = ()) -> None:
        self.pipeline, self.graph, name = open_index(folder, overrides)
        self.retriever = Retriever(self.pipeline, self.graph, name)
        self.chosen = self.pipeline.methods.propagation[0]
        self.method, self.seeds = self.chosen.method, self.chosen.seeds

    def search(self, question: str, k: int = 10) -> list[Evidence]:
        """Return the k best atoms for a question.

        Raises:
            DataError: if the question has no text.
        """
        seeding = self._seeding(question)
        op, atoms = self.retriever.operator, len(self.graph.atoms)
        seeds, _ = self.retriever.seeds(seeding, self.seeds)
        scores, _ = self.method(op, seeds, Context(query_embeddings=seeding.embeddings))
        rows, values = merge_effective(*top_k(scores[:atoms], k), seeding.of_query, 1, k)
        best = scores[:atoms].argmax(1)
        found = []
        for rank, (row, value) in enumerate(zip(rows[0].tolist(), values[0].tolist(), strict=True), start=1):
            if row >= 0:
                carried = carriers(op, scores[:, int(best[row])], row, atoms)
                found.append(self._evidence(rank, row, value, carried))
        return found

    def answer(self, question: str) -> tuple[Answered, tuple[CitationUnit, ...]]:
        """Return the answer to a question, and the citation units that it was given from.

        Raises:
            ConfigError: if the config names no answer method.
            DataError: if the question has no text.
            AegError: if the model cannot be asked.
        """
        if self.pipeline.config.answer["name"] == "none":
            raise ConfigError("the index's config names no answer method: give answer.name=llm and llm.reader={...}")
        seeding = self._seeding(question)
        seed = self.pipeline.config.seeds[0] if self.method.stochastic else None
        try:
            found = Generator(self.retriever, seeding).one(self.retriever.rank(self.chosen, seeding, seed))
        finally:
            self.pipeline.close()
        return found.answers[0], found.evidence[0].units

    def _seeding(self, question: str) -> Seeding:
        if not question.strip():
            raise DataError("got an empty question, expected some text")
        return self.retriever.seeding([Query("question", question)])

    def _evidence(self, rank: int, row: int, score: float, carried: list[tuple[int, float]]) -> Evidence:
        table = self.graph.atoms
        places = (table.occurrence_atom == row).nonzero().squeeze(1).tolist()
        sources = []
        for at in places:
            passage = self.graph.passages[int(table.occurrence_passage[at])]
            start, end = table.occurrence_span[at].tolist()
            sources.append((passage.doc_id, passage.id, (start, end) if start >= 0 else None))
        names = tuple((self.graph.entities.names[entity], share) for entity, share in carried)
        return Evidence(rank, score, table.texts[row], table.ids[row], tuple(sources), names)

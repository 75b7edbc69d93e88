"""Asking an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aeg.answer import Answered
from aeg.config.load import restored
from aeg.core.evidence import CitationUnit
from aeg.core.records import Query
from aeg.errors import ConfigError, DataError
from aeg.graph import AtomEntityGraph, load
from aeg.index.layout import View, reading
from aeg.pipeline.generating import Generator
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.seeding import Seeding
from aeg.pipeline.stages import Pipeline
from aeg.propagation.base import Context
from aeg.retrieval.carriers import carriers


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


def open_index(folder: Path, overrides: Sequence[str] = ()) -> tuple[Pipeline, AtomEntityGraph, str]:
    """Return the pipeline, graph and generation of an index; nothing is written to it.

    The graph is one consistent state, however the index is changed meanwhile or afterwards.

    Args:
        folder: of the index.
        overrides: `key.sub=value`, merged over the config that the index was built with.

    Raises:
        DataError: if there is no index, its building was interrupted, or it has another format.
    """
    view, graph = reading(folder, _opened)
    config = restored({**view.content["config"], "artifacts_dir": str(folder)}, overrides)
    return Pipeline(config, read_only=True), graph, view.generation


def _opened(view: View) -> tuple[View, AtomEntityGraph]:
    return view, load(view.path)


class Searcher:
    """Answers questions from an open index."""

    def __init__(self, folder: Path, overrides: Sequence[str] = ()) -> None:
        self.pipeline, self.graph, name = open_index(folder, overrides)
        self.retriever = Retriever(self.pipeline, self.graph, name)
        self.chosen = self.pipeline.methods.propagation[0]
        self.method, self.seeds = self.chosen.method, self.chosen.seeds
        self._seed = self.pipeline.config.seeds[0] if self.method.stochastic else None

    def search(self, question: str, k: int = 10) -> list[Evidence]:
        """Return the k best atoms for a question.

        Raises:
            ConfigError: if k is more than the index's config ranks.
            DataError: if the question has no text.
        """
        depth = self.pipeline.config.retrieval.depth
        if k > depth:
            raise ConfigError(f"k: got {k}, the index ranks {depth} atoms; add the override retrieval.depth={k}")
        seeding = self._seeding(question)
        op, atoms = self.retriever.operator, len(self.graph.atoms)
        seeds, _ = self.retriever.seeds(seeding, self.seeds)
        scores, _ = self.method(op, seeds, Context(query_embeddings=seeding.embeddings))
        ranking = self.retriever.rank(self.chosen, seeding, self._seed)
        rows, values = ranking.units[:, :k], ranking.unit_scores[:, :k]
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
        if not any(self.graph.atoms.texts):
            raise DataError(
                "the index has no texts, it was exported with --no-text: it can be queried, not answered from"
            )
        seeding = self._seeding(question)
        try:
            found = Generator(self.retriever, seeding).one(self.retriever.rank(self.chosen, seeding, self._seed))
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

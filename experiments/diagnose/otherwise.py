"""Where gold would stand if one thing about the ranking were otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from aeg.evaluation.diagnosis import distinct_rank, lift, rank_of, uncrowded_rank
from aeg.graph import AtomEntityGraph
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.seeding import Seeding
from aeg.retrieval.search import DocumentMap
from experiments.diagnose.gold import Gold
from experiments.diagnose.settings import Settings
from experiments.diagnose.walks import Walk

FloatArray = npt.NDArray[np.float64]
Ranks = tuple[int, int, int, int]
"""By the walk alone, among distinct ones, uncrowded, by lift (`aeg.evaluation.diagnosis.Facts`)."""


class Otherwise:
    """Ranks of the gold of one corpus under other rules; what mixes words and similarity in stays, except in the first.

    Args:
        retriever: of the corpus.
        seeding: its questions.
        everywhere: scores [nodes, 1] with all nodes seeded alike.
        settings: thresholds.
    """

    def __init__(self, retriever: Retriever, seeding: Seeding, everywhere: Tensor, settings: Settings) -> None:
        graph = self._graph = retriever.graph
        self._map, self._settings, self._everywhere = retriever.documents, settings, everywhere
        self._device, self._summed = retriever.operator.device, retriever.config.retrieval.passage_score == "sum"
        self._mixed = retriever.mixed(seeding)
        self._row_of_document = {name: row for row, name in enumerate(self._map.ids)}
        self._row_of_atom = {name: row for row, name in enumerate(graph.atoms.ids)}
        self._best = DocumentMap(graph.atoms, graph.passages, "max")
        self._sizes = _sizes(graph, self._map)
        self._vectors = _vectors(graph, self._map)
        self._passages_of = _passages_of_atoms(graph)
        self._documents_everywhere = self._documents(everywhere)

    def passage(self, gold: Gold, walk: Walk, record: dict[str, Any]) -> Ranks:
        """Return the ranks of a gold passage that has an atom."""
        row = self._row_of_document[gold.name]
        plain = self._documents(walk.columns)
        walked = rank_of(_best_of(plain), row)
        lifted = self._ranked(walk, documents=lift(plain, self._documents_everywhere))[1]
        uncrowded = gold.rank
        if self._summed:
            best, mean = self._best.scores(walk.columns, len(self._graph.atoms)), plain / self._sizes
            uncrowded = min(rank_of(self._ranked(walk, documents=scores)[1], row) for scores in (best, mean))
        distinct = gold.rank
        if gold.rank <= len(record["documents"]):
            above = [self._row_of_document[name] for name in record["documents"][: gold.rank - 1]]
            distinct = distinct_rank(self._vectors[[*above, row]], self._settings.near)
        return walked, distinct, uncrowded, rank_of(lifted, row)

    def statement(self, gold: Gold, walk: Walk, record: dict[str, Any]) -> Ranks:
        """Return the ranks of the best atom of a gold statement that has one."""
        atoms = self._graph.atoms
        plain = walk.columns[: len(atoms)]
        lifted = self._ranked(walk, atoms=lift(plain, self._everywhere[: len(atoms)]))[0]
        by_walk, by_lift = (min(rank_of(s, atom) for atom in gold.atoms) for s in (_best_of(plain), lifted))
        rows = [self._row_of_atom[name] for name in record["units"][: gold.rank]]
        if gold.rank > len(rows) or rows[-1] not in gold.atoms:
            return by_walk, gold.rank, gold.rank, by_lift
        assert atoms.embeddings is not None
        distinct = distinct_rank(atoms.embeddings[rows].double().numpy(), self._settings.near)
        uncrowded = uncrowded_rank([self._passages_of[row] for row in rows], self._settings.crowd)
        return by_walk, distinct, uncrowded, by_lift

    def _documents(self, scores: Tensor) -> Tensor:
        return self._map.scores(scores.to(self._device), len(self._graph.atoms)).cpu()

    def _ranked(
        self, walk: Walk, atoms: Tensor | None = None, documents: Tensor | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return scores of atoms and documents as they would be ranked: mixed, best over effective queries."""
        of_atoms = (walk.columns[: len(self._graph.atoms)] if atoms is None else atoms).to(self._device)
        of_documents = (self._documents(walk.columns) if documents is None else documents).to(self._device)
        if self._mixed is not None:
            of_atoms, of_documents = self._mixed.tile(walk.first, of_atoms, of_documents)
        return _best_of(of_atoms), _best_of(of_documents)


def _best_of(scores: Tensor) -> FloatArray:
    return scores.amax(1).double().cpu().numpy()


def _sizes(graph: AtomEntityGraph, documents: DocumentMap) -> Tensor:
    """The number of atoms of each document, [documents, 1], at least 1."""
    of_atoms = torch.stack([documents.of_passage[graph.atoms.occurrence_passage], graph.atoms.occurrence_atom])
    pairs = torch.unique(of_atoms, dim=1)
    return torch.bincount(pairs[0], minlength=len(documents.ids)).clamp(min=1).unsqueeze(1)


def _vectors(graph: AtomEntityGraph, documents: DocumentMap) -> FloatArray:
    """Unit means of the atoms' vectors, one a document."""
    atoms = graph.atoms
    assert atoms.embeddings is not None
    sums = torch.zeros(len(documents.ids), atoms.embeddings.shape[1], dtype=torch.float64)
    rows = documents.of_passage[atoms.occurrence_passage]
    sums.index_add_(0, rows, atoms.embeddings[atoms.occurrence_atom].double())
    return torch.nn.functional.normalize(sums, dim=1).numpy()


def _passages_of_atoms(graph: AtomEntityGraph) -> Sequence[Iterable[int]]:
    found: list[list[int]] = [[] for _ in range(len(graph.atoms))]
    pairs = zip(graph.atoms.occurrence_atom.tolist(), graph.atoms.occurrence_passage.tolist(), strict=True)
    for atom, passage in pairs:
        found[atom].append(passage)
    return found

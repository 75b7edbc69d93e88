"""From propagation scores to ranked atoms and documents, streamed tile by tile (paper, eq. 8 to 10)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from aeg.config.schema import RetrievalConfig
from aeg.core.operator import Operator
from aeg.core.ranking import top_k
from aeg.core.records import Passage
from aeg.core.seeds import Seeds
from aeg.core.tables import AtomTable
from aeg.core.tensors import csr_matrix, row_pointers
from aeg.retrieval.merge import merge_effective

_TILE = 64


class Scorer(Protocol):
    """What retrieval needs of a propagation method: scores and info, tile by tile."""

    def tiles(self, op: Operator, seeds: Seeds, context: Any) -> Iterator[tuple[int, Tensor, Any]]:
        """Yield (first query, scores [nodes, columns], info)."""


@dataclass(frozen=True, eq=False)
class Retrieved:
    """The ranked atoms and documents of each question, candidates of its effective queries united.

    Attributes:
        atoms, atom_scores: [questions, depth], rows of atoms; −1 and 0 where there are fewer.
        documents, document_scores: [questions, passage_top_k], rows of `DocumentMap.ids`; likewise.
        infos: the method's info of each tile of effective queries, in order.
        seconds: wall time of propagation and ranking, all questions together.
    """

    atoms: Tensor
    atom_scores: Tensor
    documents: Tensor
    document_scores: Tensor
    infos: list[Any]
    seconds: float


class DocumentMap:
    """Turns scores of atoms into scores of documents.

    A passage's score is the best or the sum of its atoms' scores (an atom counts once a passage); a split
    document scores its best passage. Documents are ordered by id, which breaks ties.
    """

    def __init__(
        self, atoms: AtomTable, passages: Sequence[Passage], how: str, device: torch.device | str = "cpu"
    ) -> None:
        self.ids = sorted({passage.doc_id for passage in passages})
        row = {doc_id: at for at, doc_id in enumerate(self.ids)}
        self._document = torch.tensor([row[passage.doc_id] for passage in passages], device=device)
        pairs = torch.unique(torch.stack([atoms.occurrence_passage, atoms.occurrence_atom]), dim=1)
        self._passage, self._atom = pairs[0].to(device), pairs[1].to(device)
        self._atoms = len(atoms)
        self._matrix: Tensor | None = None
        if how == "sum":
            crow = row_pointers(pairs[0], len(passages))
            self._matrix = csr_matrix(crow, pairs[1], torch.ones(pairs.shape[1]), (len(passages), len(atoms))).to(
                device
            )

    def scores(self, atom_scores: Tensor) -> Tensor:
        """Return the documents' scores [documents, columns] for scores of atoms [atoms, columns]."""
        passages = self._best(atom_scores) if self._matrix is None else self._matrix @ atom_scores
        return self._documents(passages)

    def from_atoms(self, rows: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k best documents of ranked atoms [queries, n] (row −1: none), each by its best atom."""
        tiles = self._spread(rows, scores, self._atoms)
        return _joined([top_k(self._documents(self._best(tile)), k) for tile in tiles], k, rows)

    def from_passages(self, rows: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k best documents of ranked passages [queries, n] (row −1: none), each by its best passage."""
        tiles = self._spread(rows, scores, len(self._document))
        return _joined([top_k(self._documents(tile), k) for tile in tiles], k, rows)

    def _spread(self, rows: Tensor, scores: Tensor, count: int) -> Iterator[Tensor]:
        """Yield scores [count, queries] of some queries at a time, zero where a row is not ranked."""
        device = self._document.device
        for some, values in zip(rows.split(_TILE), scores.split(_TILE), strict=True):
            out = torch.zeros(count + 1, len(some), device=device)
            out.scatter_(0, some.T.to(device).remainder(count + 1), values.T.to(device))
            yield out[:count]

    def _documents(self, passages: Tensor) -> Tensor:
        return _largest(passages, self._document, len(self.ids))

    def _best(self, atom_scores: Tensor) -> Tensor:
        return _largest(atom_scores[self._atom], self._passage, len(self._document))


def _largest(values: Tensor, group: Tensor, count: int) -> Tensor:
    """The largest value, at least 0, of each group of rows: [count, columns] for values [rows, columns]."""
    out = values.new_zeros(count, values.shape[1])
    return out.scatter_reduce_(0, group.unsqueeze(1).expand_as(values), values, "amax")


def retrieve(
    method: Scorer,
    op: Operator,
    seeds: Seeds,
    effective_to_query: Tensor,
    num_queries: int,
    documents: DocumentMap,
    num_atoms: int,
    config: RetrievalConfig,
    context: Any = None,
) -> Retrieved:
    """Return the ranked atoms and documents of each question.

    Scores of all effective queries are never held at once: each tile goes straight to its top k.

    Source:
        Paper, eq. 8 to 10.
    """
    started = time.perf_counter()
    parts: list[tuple[Tensor, ...]] = []
    infos = []
    for _, scores, info in method.tiles(op, seeds, context):
        best = top_k(scores[:num_atoms], config.depth)
        found = top_k(documents.scores(scores[:num_atoms]), config.passage_top_k)
        parts.append(tuple(part.cpu() for part in (*best, *found)))
        infos.append(info)
    columns = [torch.cat(column) for column in zip(*parts, strict=True)]
    atoms = merge_effective(columns[0], columns[1], effective_to_query, num_queries, config.depth)
    found = merge_effective(columns[2], columns[3], effective_to_query, num_queries, config.passage_top_k)
    return Retrieved(*atoms, *found, infos=infos, seconds=time.perf_counter() - started)


def _joined(parts: list[tuple[Tensor, Tensor]], k: int, like: Tensor) -> tuple[Tensor, Tensor]:
    if not parts:
        return like.new_full((0, k), -1), torch.zeros(0, k, device=like.device)
    return torch.cat([rows for rows, _ in parts]), torch.cat([scores for _, scores in parts])

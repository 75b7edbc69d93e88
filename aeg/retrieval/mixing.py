"""Propagated scores times what texts say by themselves: similarity of embeddings, and words in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aeg.config.schema import MixConfig
from aeg.core.bm25 import Bm25
from aeg.core.records import Passage
from aeg.core.tables import AtomTable
from aeg.retrieval.baselines import searchable
from aeg.retrieval.incidence import Incidence

_FLOOR = 1e-5  # of the largest score: what the walk hardly reached can still be found by its text


class Mixing:
    """The texts of a corpus, ready to be compared with questions.

    With r the propagated score of a unit (an atom or a document), its mixed score for a query is

        max(r / max r, 1e-5) · exp(w · (a cos(q, atom) + p cos(q, passage) + b bm25(q, unit) / max bm25))

    w = `floor` + (1 − `floor`)(1 − τ) falls with the trust τ in the query's links: a question that names what it is
    about is left to the graph. A passage's vector is the mean of its atoms' vectors, scaled to length 1; of several
    passages the best counts. Cosines below 0 count as 0.

    Args:
        config: the weights.
        atoms: with embeddings.
        passages: of the graph.
        documents: the row of each passage's document, int64 [passages].
        num_documents: how many there are.
        device: where the products are done.
    """

    def __init__(
        self,
        config: MixConfig,
        atoms: AtomTable,
        passages: Sequence[Passage],
        documents: Tensor,
        num_documents: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self._config = config
        assert atoms.embeddings is not None
        self._atoms = atoms.embeddings.to(device)
        of_atom = torch.stack([atoms.occurrence_atom, atoms.occurrence_passage])
        members = Incidence(of_atom.flip(0), len(passages), len(atoms), device)
        self._passages = torch.nn.functional.normalize(members.total(self._atoms))
        self._of_atoms = Incidence(of_atom, len(atoms), len(passages), device)
        of_document = torch.stack([documents, torch.arange(len(passages))])
        self._of_documents = Incidence(of_document, num_documents, len(passages), device)
        self._atom_words = Bm25(atoms.texts, device=device) if config.bm25 else None
        self._passage_words = Bm25([searchable(p) for p in passages], device=device) if config.document_bm25 else None

    def of(self, texts: Sequence[str], embeddings: Tensor, trust: Tensor) -> Mixed:
        """Return what mixes the scores of these queries.

        Args:
            texts: of the queries.
            embeddings: [queries, d].
            trust: float64 [queries], τ.
        """
        return Mixed(self, texts, embeddings, trust)

    def atoms(self, texts: Sequence[str], embeddings: Tensor) -> Tensor:
        """Return the exponent of each atom at w = 1, float32 [atoms, queries]."""
        config = self._config
        queries = embeddings.to(self._atoms).T
        found = (self._atoms @ queries).clamp_(min=0).mul_(config.similarity)
        if config.passage_similarity:
            found += config.passage_similarity * self._of_atoms.largest((self._passages @ queries).clamp_(min=0))
        if self._atom_words is not None:
            found += config.bm25 * _scaled(self._atom_words.scores(texts))
        return found

    def documents(self, texts: Sequence[str], embeddings: Tensor) -> Tensor:
        """Return the exponent of each document at w = 1, float32 [documents, queries]."""
        config = self._config
        cosines = (self._passages @ embeddings.to(self._atoms).T).clamp_(min=0)
        found = config.document_similarity * self._of_documents.largest(cosines)
        if self._passage_words is not None:
            words = self._of_documents.largest(self._passage_words.scores(texts))
            found += config.document_bm25 * _scaled(words)
        return found

    def weight(self, trust: Tensor) -> Tensor:
        """Return w of each query, float32 [queries]."""
        floor = self._config.floor
        return (floor + (1 - floor) * (1 - trust)).to(self._atoms)


@dataclass(frozen=True, eq=False)
class Mixed:
    """Mixes the scores of some queries, tile by tile."""

    mixing: Mixing
    texts: Sequence[str]
    embeddings: Tensor
    trust: Tensor

    def part(self, start: int, stop: int) -> Mixed:
        """Return the same for queries `start` to `stop`."""
        some = slice(start, stop)
        return Mixed(self.mixing, self.texts[some], self.embeddings[some], self.trust[some])

    def tile(self, start: int, atoms: Tensor, documents: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mixed scores of the queries from `start` on, for propagated ones.

        Args:
            start: the tile's first query.
            atoms: [atoms, columns].
            documents: [documents, columns].
        """
        some = slice(start, start + atoms.shape[1])
        texts, embeddings = self.texts[some], self.embeddings[some]
        weight = self.mixing.weight(self.trust[some])
        return (
            _mixed(atoms, self.mixing.atoms(texts, embeddings) * weight),
            _mixed(documents, self.mixing.documents(texts, embeddings) * weight),
        )


def _mixed(scores: Tensor, exponent: Tensor) -> Tensor:
    largest = scores.amax(0, keepdim=True) if len(scores) else scores.new_ones(1, scores.shape[1])
    return (scores / torch.where(largest > 0, largest, 1)).clamp_(min=_FLOOR) * exponent.exp_()


def _scaled(scores: Tensor) -> Tensor:
    """Scores scaled to a largest of 1; a column of zeros stays."""
    if not len(scores):
        return scores
    largest = scores.amax(0, keepdim=True)
    return scores / torch.where(largest > 0, largest, 1)

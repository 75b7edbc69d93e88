"""A benchmark corpus with its graph, its questions, and what is relevant to each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aeg.config.load import data_root, load_config
from aeg.core.keys import canonical_key
from aeg.core.operator import Operator
from aeg.core.records import Extraction, Query
from aeg.errors import DataError
from aeg.graph import AtomEntityGraph
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.seeding import Seeding
from aeg.pipeline.stages import Pipeline

MATCH = 0.7  # least cosine of a gold statement and the atom that states it


@dataclass(frozen=True, eq=False)
class World:
    """What the experiments measure on.

    Attributes:
        name: of the config.
        pipeline: the stages.
        graph: the Atom-Entity Graph.
        extractions: of the passages, in their order.
        retriever: ranks on the graph.
        seeding: the questions and their sub-questions, embedded and lexically linked.
        decomposed: whether recorded analyses of the questions were there.
    """

    name: str
    pipeline: Pipeline
    graph: AtomEntityGraph
    extractions: Sequence[Extraction]
    retriever: Retriever
    seeding: Seeding
    decomposed: bool

    @property
    def queries(self) -> Sequence[Query]:
        """The questions."""
        return self.seeding.queries

    @property
    def own(self) -> list[int]:
        """The row of each question among the effective queries."""
        first: dict[int, int] = {}
        for row, query in enumerate(self.seeding.of_query.tolist()):
            first.setdefault(query, row)
        return [first[at] for at in range(len(self.queries))]

    @cached_property
    def statements(self) -> list[list[int]]:
        """For each question, the atom nearest to each of its gold statements, −1 where none is near enough."""
        texts = list(dict.fromkeys(text for query in self.queries for text in query.evidence))
        if not texts:
            return [[] for _ in self.queries]
        vectors = self.graph.atoms.embeddings
        assert vectors is not None
        cosine, atom = (self.pipeline.encoder.encode(texts) @ vectors.T).max(dim=1)
        at = {text: int(a) if c >= MATCH else -1 for text, c, a in zip(texts, cosine, atom, strict=True)}
        return [[at[text] for text in query.evidence] for query in self.queries]

    @cached_property
    def gold_passages(self) -> list[list[int]]:
        """For each question, the relevant passages: its gold documents', else those that hold its gold statements."""
        if any(query.gold_doc_ids for query in self.queries):
            of: dict[str, list[int]] = {}
            for row, passage in enumerate(self.graph.passages):
                of.setdefault(passage.doc_id, []).append(row)
            return [[row for doc in query.gold_doc_ids for row in of.get(doc, [])] for query in self.queries]
        where: dict[int, set[int]] = {}
        table = self.graph.atoms
        for atom, passage in zip(table.occurrence_atom.tolist(), table.occurrence_passage.tolist(), strict=True):
            where.setdefault(atom, set()).add(passage)
        return [sorted({p for atom in atoms if atom >= 0 for p in where[atom]}) for atoms in self.statements]

    def region(self, passages: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the atoms and the entities of some passages: what was extracted from them."""
        atoms = sorted({atom for row in passages for atom in self._atoms_of[row]})
        entities = {entity for row in passages for entity in self._entities_of[row]}
        entities |= {entity for atom in atoms for entity in self._mentioned[atom]}
        return atoms, sorted(entities)

    @cached_property
    def triples(self) -> list[tuple[int, str, int]]:
        """The distinct triples (h, r, t) of the predicate-labelled graph, entities by row, without self-loops."""
        return sorted({triple for row in self._triples_of for triple in row})

    @cached_property
    def _triples_of(self) -> list[list[tuple[int, str, int]]]:
        row = {key: at for at, key in enumerate(self.graph.entities.keys)}
        found = []
        for extraction in self.extractions:
            ends = [(canonical_key(h), canonical_key(r), canonical_key(t)) for h, r, t in extraction.triples]
            found.append([(row[h], r, row[t]) for h, r, t in ends if h and t and h != t])
        return found

    @cached_property
    def _entities_of(self) -> list[list[int]]:
        return [[end for h, _, t in triples for end in (h, t)] for triples in self._triples_of]

    @cached_property
    def _atoms_of(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.graph.passages]
        table = self.graph.atoms
        for atom, passage in zip(table.occurrence_atom.tolist(), table.occurrence_passage.tolist(), strict=True):
            found[passage].append(atom)
        return found

    @cached_property
    def _mentioned(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.graph.atoms.ids]
        for atom, entity in self.graph.data["atom", "mentions", "entity"].edge_index.T.tolist():
            found[atom].append(entity)
        return found


def open_world(config: str, overrides: Sequence[str] = ()) -> World:
    """Build (or load) the graph of a config, and embed, decompose and link its questions.

    Decomposition is the recorded one where the corpus has a file of analyses; linking is lexical, 30 % of the seeds are
    on the ten nearest atoms, and there are synonym edges, whatever the config says, so that the experiments do not move
    with its defaults.

    Raises:
        DataError: if the config has several corpora, or no questions.
    """
    fixed = [
        "graph.synonym=true",
        "query.linking={name: lexical}",
        "query.seeds={balance: share, atom_share: 0.3, atom_top_k: 10}",
        *("sieve.name=none", "answer.name=none", "propagation=[{name: ppr}]"),
    ]
    first = load_config(config, [*fixed, *overrides])
    path = _analyses(first.corpus, data_root(first))
    how = "{name: none}" if path is None else f"{{name: recorded, path: '{path}', missing: none}}"
    plain = load_config(config, [*fixed, *overrides, f"query.decomposition={how}"])
    pipeline = Pipeline(plain)
    parts = pipeline.methods.corpus.parts(pipeline.root)
    if len(parts) != 1:
        raise DataError(f"{config}: got {len(parts)} corpora, expected a config with one")
    corpus = pipeline.corpus(parts[0][1])
    if not corpus.queries:
        raise DataError(f"{config}: the corpus has no questions")
    passages = pipeline.passages(corpus)
    graph, name = pipeline.graph(passages)
    extractions, _ = pipeline.extraction(passages)
    retriever = Retriever(pipeline, graph, name)
    return World(
        plain.name, pipeline, graph, extractions, retriever, retriever.seeding(corpus.queries), path is not None
    )


def predicate_graph(world: World, extra: Sequence[tuple[int, int]] = ()) -> Operator:
    """Return the predicate-labelled graph G_KG = (E, R, T) of the same triples, walked in both directions.

    Each distinct triple (h, r, t) is one edge of weight 1, parallel ones add. Its nodes are numbered as the
    Atom-Entity Graph's, so that atoms are isolated.

    Args:
        world: with the triples.
        extra: further (spurious) edges between entities.

    Source: Appendix C.1, "Predicate-labeled KG baseline".
    """
    shift = len(world.graph.atoms)
    ends = [(h + shift, t + shift) for h, _, t in world.triples] + [(h + shift, t + shift) for h, t in extra]
    index = torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).T
    return Operator.from_edges(world.graph.num_nodes, index)


def with_relations(op: Operator, atoms: int, extra: Sequence[tuple[int, int]]) -> Operator:
    """Return the operator with further relevance edges of weight 1 between entities."""
    from scipy.sparse import coo_array

    ends = np.array(extra, dtype=np.int64).reshape(-1, 2).T + atoms
    added = coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(op.num_nodes, op.num_nodes))
    return Operator.from_scipy((op.scipy() + (added + added.T)).tocsr())


def _analyses(corpus: dict[str, Any], root: Path | None) -> str | None:
    if corpus["name"] == "sample":
        return "builtin:sample"
    path = f"{corpus.get('path', '')}/question_analysis.jsonl"
    return path if root is not None and (root / path).is_file() else None

"""The ranked atoms of an explanation: their scores, sources and chains."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

from aeg.errors import ConfigError
from aeg.explain.accounts import walk_account
from aeg.explain.records import AtomRecord, ChainRecord, StepRecord
from aeg.explain.view import View
from aeg.graph.graph import EDGE_TYPES
from aeg.retrieval.carriers import carriers
from aeg.retrieval.chains import Chain, Resonance, Walks, resonance

_SEEDS = 3
_LEAST = 1e-3  # share of the score from which on a chain is told


class AtomTeller:
    """Tells of the best atoms of a question.

    Args:
        view: the question's scores.
        chains: of each atom.
        simple: only chains that visit no node twice.
        notes: what cannot be told is added here.
    """

    def __init__(self, view: View, chains: int, simple: bool, notes: list[str]) -> None:
        self._view, self._chains, self._simple, self._notes = view, chains, simple, notes

    def atoms(self, top: int) -> tuple[AtomRecord, ...]:
        """Return the records of the `top` best atoms of the ranking."""
        plain = [self._plain(row, rank, score) for row, (rank, score) in list(self._view.ranked.items())[:top]]
        told: dict[int, AtomRecord] = {}
        for query in sorted({record.effective for record in plain}):
            own = [record for record in plain if record.effective == query]
            try:
                walks = self._walks(query)
            except ConfigError as error:
                self._notes.append(f"no chains: {error}")
                break
            rows = [record.node for record in own]
            found = resonance(self._view.op, walks, self._view.seeds[:, query], rows, self._chains, self._simple)
            told.update({record.node: self._with(record, one) for record, one in zip(own, found, strict=True)})
        return tuple(told.get(record.node, record) for record in plain)

    def _walks(self, query: int) -> Walks:
        view, method = self._view, self._view.subject.item.method
        return walk_account(method, view.op, view.seeds[:, query], int(view.iterations[query]))

    def _plain(self, row: int, rank: int, score: float) -> AtomRecord:
        view = self._view
        values, which = view.best
        query = int(which[row])
        passed = carriers(view.op, view.scores[:, query], row, view.num_atoms)
        return AtomRecord(
            rank=rank,
            score=score,
            propagated_rank=view.propagated_rank(row) or 0,
            propagated_score=float(values[row]),
            effective=query,
            node=row,
            sources=view.sources(row),
            entities=tuple((view.num_atoms + entity, share) for entity, share in passed),
        )

    def _with(self, record: AtomRecord, found: Resonance) -> AtomRecord:
        whole = found.walks.mass or 1.0
        shares = [(chain, found.share(chain)) for chain in found.found.chains]
        told = [(chain, share) for at, (chain, share) in enumerate(shares) if at == 0 or share >= _LEAST]
        return dataclasses.replace(
            record,
            chains=tuple(self._chain(chain, share) for chain, share in told),
            covered=min(sum(share for _, share in told), 1.0),
            walks=found.walks.mass,
            tail=found.walks.tail,
            walk_length=found.walks.length,
            seeds=tuple((node, mass / whole) for node, mass in found.walks.seeds[:_SEEDS]),
            cut_off=not found.found.complete,
        )

    def _chain(self, chain: Chain, share: float) -> ChainRecord:
        steps = tuple(
            StepRecord(factor, self._edges(*sorted(ends)))
            for factor, ends in zip(chain.factors, pairwise(chain.nodes), strict=True)
        )
        return ChainRecord(chain.nodes, steps, chain.seed, chain.mass, share)

    def _edges(self, low: int, high: int) -> tuple[tuple[str, float], ...]:
        """The edges between two nodes, by type, as the graph has them."""
        graph, first, found = self._view.graph, self._view.num_atoms, []
        for name, kind in EDGE_TYPES.items():
            if (kind[0] == "atom") != (low < first):
                continue
            store = graph.data[kind]
            left, right = (low if low < first else low - first), high - first
            at = ((store.edge_index[0] == left) & (store.edge_index[1] == right)).nonzero().squeeze(1)
            if len(at):
                found.append((name, float(store.edge_weight[at].sum())))
        return tuple(found)

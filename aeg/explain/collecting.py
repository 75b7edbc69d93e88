"""From a question to its explanation."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from aeg.explain.generation import generation
from aeg.explain.gold import documents, gold_documents, statements
from aeg.explain.records import AtomRecord, EffectiveRecord, Explanation, LinkRecord, Node
from aeg.explain.replay import MISSING, exchanges
from aeg.explain.resonating import AtomTeller
from aeg.explain.subject import Subject
from aeg.explain.view import View, propagated
from aeg.pipeline.ranking import Ranking

_SEEDS = 10
_SAME = 1e-4  # relative difference of two scores that the rounding of batches may make


def explanation(subject: Subject, top: int = 10, chains: int = 3, simple: bool = True) -> Explanation:
    """Return why a question found what it found.

    Args:
        subject: the question and what ranks for it.
        top: atoms (and documents) that are told of.
        chains: of each atom.
        simple: only chains that visit no node twice.

    Raises:
        AegError: whatever the config, the data or the machine lack.
    """
    retriever = subject.retriever
    seeding = retriever.seeding([subject.query])
    ranking = retriever.rank(subject.item, seeding, subject.seed)
    view = propagated(subject, seeding, ranking)
    notes = [*subject.notes, *_flag_notes(view), *_recorded_notes(subject, ranking)]
    teller = AtomTeller(view, chains, simple, notes)
    atoms = teller.atoms(top)
    told = generation(subject, view, notes) if subject.generating else None
    asked = exchanges(retriever.pipeline)
    lost = sum(exchange.failure.startswith(MISSING) for exchange in asked)
    if lost:
        notes.append(
            f"{lost} replies of the language model are not in the cache of replies: these steps are shown as they go "
            "when the model fails, not as they went in the run"
        )
    covers = statements(view) if subject.query.evidence else ()
    found = Explanation(
        origin=subject.origin,
        question_id=subject.query.id,
        question=subject.query.question,
        reference=subject.query.answer,
        label=subject.item.label,
        method=subject.item.name,
        parameters=dataclasses.asdict(subject.item.method),
        num_atoms=view.num_atoms,
        num_entities=len(retriever.graph.entities),
        effective=_effective(view),
        nodes=(),
        atoms=atoms,
        documents=documents(view, top),
        gold=gold_documents(view),
        statements=covers,
        generation=told,
        exchanges=asked,
        metrics=_metrics(subject),
        notes=tuple(dict.fromkeys(notes)),
        simple=simple,
    )
    return dataclasses.replace(found, nodes=_nodes(found, view))


def _effective(view: View) -> tuple[EffectiveRecord, ...]:
    seeding, first = view.seeding, view.num_atoms
    found = []
    for at, (item, links) in enumerate(zip(seeding.effective, seeding.links, strict=True)):
        pi = view.seeds[:, at]
        order = torch.argsort(pi, descending=True, stable=True)[:_SEEDS].tolist()
        found.append(
            EffectiveRecord(
                text=item.text,
                sub_question=at > 0,
                mentions=tuple(item.mentions) or tuple(dict.fromkeys(link.mention for link in links)),
                links=tuple(LinkRecord(link.mention, first + link.entity, link.weight) for link in links),
                entity_mass=float(view.trace.entity_mass[at]),
                atom_mass=float(view.trace.atom_mass[at]),
                seeds=tuple((row, float(pi[row])) for row in order if pi[row] > 0),
                num_seeds=int((pi > 0).sum()),
                flags=tuple(name for name, flag in view.flags.items() if bool(flag[at])),
            )
        )
    return tuple(found)


def _flag_notes(view: View) -> list[str]:
    notes = []
    if view.subject.item.method.stochastic:
        notes.append("the scores are a sample of random walks; chains are told of their expectation")
    for name, text in _FLAGS.items():
        if name in view.flags and bool(view.flags[name].any()):
            notes.append(text)
    return notes


_FLAGS = {
    "fallback": "no entity was linked for at least one effective query: its nearest atoms are the seeds",
    "no_seeds": "at least one effective query has no seeds: it finds nothing",
    "not_converged": "the scores of at least one effective query did not reach the tolerance",
}


def _recorded_notes(subject: Subject, ranking: Ranking) -> list[str]:
    """How the ranking differs from the one that the run recorded."""
    if subject.results is None:
        return []
    ids = subject.retriever.graph.atoms.ids
    ours = [ids[row] for row in ranking.units[0].tolist() if row >= 0]
    theirs = subject.results["units"]
    if ours == theirs:
        return []
    depth = min(10, len(theirs))
    same = sum(a == b for a, b in zip(ours[:depth], theirs[:depth], strict=False))
    scores = zip(ranking.unit_scores[0].tolist(), subject.results["unit_scores"], strict=False)
    apart = max((abs(a - b) / max(abs(b), 1e-30) for a, b in scores), default=0.0)
    if len(ours) == len(theirs) and apart <= _SAME:
        return []  # ties and the rounding of batches
    return [
        f"this is not quite the ranking that the run recorded: {same} of its first {depth} atoms stand in the same "
        f"place, scores differ by up to {100 * apart:.2g} %; code or artifacts have changed since"
    ]


def _metrics(subject: Subject) -> dict[str, float]:
    found: dict[str, float] = {}
    for record in (subject.results, subject.answers):
        found.update(dict(record["metrics"] or ()) if record is not None else {})
    return found


def _nodes(found: Explanation, view: View) -> tuple[Node, ...]:
    """Everything that the records name."""
    rows: set[int] = set()
    for query in found.effective:
        rows.update(link.node for link in query.links)
        rows.update(node for node, _ in query.seeds)
    for atom in found.atoms:
        rows.update(_rows_of(atom))
    for document in (*found.documents, *found.gold):
        rows.update([document.best_atom[1]] if document.best_atom else [])
    for statement in found.statements:
        rows.update(cover.node for cover in (statement.coverage, statement.similarity) if cover is not None)
    if found.generation is not None:
        rows.update(candidate.node for candidate in found.generation.candidates)
        rows.update(row for unit in found.generation.units for row in unit.atoms)
    return tuple(view.node(row) for row in sorted(rows))


def _rows_of(atom: AtomRecord) -> set[int]:
    rows = {atom.node, *(node for node, _ in (*atom.entities, *atom.seeds))}
    return rows | {node for chain in atom.chains for node in chain.nodes}


def as_plain(found: Explanation) -> dict[str, Any]:
    """Return an explanation as plain values, for JSON."""
    return dataclasses.asdict(found)

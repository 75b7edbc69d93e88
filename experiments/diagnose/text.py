"""The diagnosis in words: tables of causes, and examples with the walk's mass."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from aeg.evaluation.aggregate import UNTYPED
from aeg.evaluation.diagnosis import CAUSES
from aeg.experiment.table import aligned
from aeg.retrieval.carriers import carriers
from experiments.diagnose.part import Miss, Part
from experiments.diagnose.walks import Walk

_WIDTH = 400  # characters of a line


def tables(misses: Sequence[Miss], totals: Counter[str], baselines: Sequence[str]) -> list[str]:
    """Return the lines of the table of causes.

    A column for each question type: number of misses and, in brackets, percent of that type's gold. A column for
    each baseline: how many of these misses it has within k.

    Args:
        misses: all of them.
        totals: gold by question type.
        baselines: names.
    """
    types = sorted(totals)
    every = sum(totals.values())
    shown = types if len(types) > 1 else []
    head = ["cause", "all", *shown, *(f"in {name}" for name in baselines)]
    rows = [tuple(head)]
    for cause, meaning in CAUSES.items():
        some = [miss for miss in misses if miss.cause == cause]
        if some:
            rows.append((f"{cause}: {meaning}", *_cells(some, totals, shown, every, baselines)))
    rows.append(("all misses", *_cells(misses, totals, shown, every, baselines)))
    return aligned(rows)


def _cells(
    some: Sequence[Miss], totals: Counter[str], types: Sequence[str], every: int, baselines: Sequence[str]
) -> list[str]:
    of_type = Counter(type_of(miss) for miss in some)
    found = Counter(name for miss in some for name in miss.found_by)
    counts = [(len(some), every), *((of_type[name], totals[name]) for name in types)]
    return [f"{n} ({100 * n / max(all_of, 1):.1f})" for n, all_of in counts] + [str(found[name]) for name in baselines]


def type_of(miss: Miss) -> str:
    """Return the question's type."""
    return miss.query.type or UNTYPED


def example(part: Part, miss: Miss, walk: Walk) -> list[str]:
    """Return a miss in words: question, links, seeds, gold, and what outranked it, with masses."""
    graph, facts = part.graph, miss.facts
    far = "no path" if facts.distance is None else f"{facts.distance} edges from the seeds"
    ranks = (
        f"by the walk alone {facts.walked}, without near-duplicates {facts.distinct}, "
        f"uncrowded {facts.uncrowded}, by lift {facts.lifted}"
    )
    named = f"; its own {miss.named!r} is named" if miss.named else ""
    lines = [
        f"[{miss.cause}] {miss.query.id} ({type_of(miss)}): {miss.query.question}",
        f"  links: {_links(part, walk.question)}",
        f"  seeds: {_seeds(part, walk)}",
        f"  gold:  {_title(part, miss)}; rank {facts.rank} of k {facts.k} ({ranks}); mass {miss.mass:.2e}; {far}, the "
        f"walk goes {facts.length}{named}",
    ]
    if miss.gold.atoms:
        best = max(miss.gold.atoms, key=lambda row: (walk.mass[row], -row))
        lines.append(f"         its best atom: {graph.atoms.texts[best]!r}, {_carried(part, walk, best)}")
    for rank, (name, rows) in enumerate(_above(part, miss, walk.question), start=1):
        mass = float(walk.mass[rows].sum())
        best = max(rows, key=lambda row: (walk.mass[row], -row))
        lines.append(f"  {rank:>2}. {name}; mass {mass:.2e}, atoms {len(rows)}, {_carried(part, walk, best)}")
    return [line if len(line) <= _WIDTH else f"{line[:_WIDTH]} ..." for line in lines]


def _links(part: Part, question: int) -> str:
    found = [
        f"{link.mention!r} -> {part.graph.entities.keys[link.entity]!r} {link.weight:.2f} "
        f"({int(part.graph.entities.mentions[link.entity])} mentions)"
        for item, links in zip(part.seeding.effective, part.seeding.links, strict=True)
        if item.query == question
        for link in links
    ]
    return "; ".join(found[:8]) or "none"


def _seeds(part: Part, walk: Walk) -> str:
    atoms = len(part.graph.atoms)
    named = [
        f"{share:.2f} {part.graph.entities.keys[node - atoms]!r}"
        if node >= atoms
        else f"{share:.2f} atom {textwrap.shorten(part.graph.atoms.texts[node], 60)!r}"
        for node, share in list(walk.seeds.items())[:6]
    ]
    more = len(walk.seeds) - len(named)
    rest = ([f"{more} more"] if more > 0 else []) + (["all atoms"] if walk.everywhere else [])
    return "; ".join(named + rest) or "none"


def _title(part: Part, miss: Miss) -> str:
    titles = {passage.doc_id: passage.title for passage in part.graph.passages}
    return f"{miss.gold.name} {titles.get(miss.gold.name, '')!r}" if part.kind.what == "passages" else miss.gold.name


def _carried(part: Part, walk: Walk, atom: int) -> str:
    import torch

    operator, atoms = part.retriever.operator.to("cpu"), len(part.graph.atoms)
    by = carriers(operator, torch.from_numpy(walk.mass), atom, atoms, 3)
    named = [
        f"{part.graph.entities.keys[row]!r} {share:.0%} ({int(part.graph.entities.mentions[row])} mentions)"
        for row, share in by
    ]
    return f"by {', '.join(named)}" if named else "by its own seed"


def _above(part: Part, miss: Miss, question: int) -> list[tuple[str, list[int]]]:
    """Name and atoms of the first things in the ranking."""
    record: dict[str, Any] = part.records[question]
    graph = part.graph
    if part.kind.what == "statements":
        rows = [part.row_of_atom[name] for name in record["units"][: min(miss.facts.k, 5)]]
        return [(repr(graph.atoms.texts[row]), [row]) for row in rows]
    gold = set(miss.query.gold_doc_ids)
    titles = {passage.doc_id: passage.title for passage in graph.passages}
    return [
        (f"{name} {titles[name]!r}{' (gold)' if name in gold else ''}", part.atoms_of_document[name])
        for name in record["documents"][: miss.facts.k]
        if part.atoms_of_document.get(name)
    ]

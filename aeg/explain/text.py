"""An explanation as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from aeg.explain import wording
from aeg.explain.records import (
    AtomRecord,
    ChainRecord,
    CoverRecord,
    DocumentRecord,
    EffectiveRecord,
    Exchange,
    Explanation,
    GenerationRecord,
)

_WIDTH = 100


def as_text(found: Explanation) -> str:
    """Return an explanation as text: what the page shows, without the drawing."""
    lines = [found.question]
    lines += [f"  reference answer: {found.reference}"] if found.reference else []
    lines.append(f"  {found.origin}, {found.question_id}; {wording.method(found)}")
    lines.append(f"  graph: {found.num_atoms:,} atoms, {found.num_entities:,} entities")
    lines += [f"  {name} {value:.3f}" for name, value in found.metrics.items() if "@5" in name or "@" not in name]
    lines += [f"  note: {note}" for note in found.notes]
    for query in found.effective:
        lines += ["", *_query(found, query)]
    lines += ["", "Atoms" + (", chains that visit a node twice left out" if found.simple else "")]
    for atom in found.atoms:
        lines += _atom(found, atom)
    if not found.atoms:
        lines.append("  no atom has any score for this question")
    lines += _gold(found)
    if found.documents:
        lines += ["", "Documents", *(_document(found, record) for record in found.documents)]
    if found.generation is not None:
        lines += ["", *_generation(found, found.generation)]
    for exchange in found.exchanges:
        lines += ["", *_exchange(exchange)]
    return "\n".join(lines)


def chain_line(found: Explanation, chain: ChainRecord, width: int = 40) -> str:
    """Return a chain in one line: its nodes, and edges and factor of each step."""
    parts = [_node(found, chain.nodes[0], width)]
    for row, step in zip(chain.nodes[1:], chain.steps, strict=True):
        parts.append(f"-({wording.step(step)})-> {_node(found, row, width)}")
    return " ".join(parts)


def _node(found: Explanation, row: int, width: int) -> str:
    node = found.node(row)
    text = wording.shortened(node.name, width)
    return f'"{text}"' if node.kind == "atom" else f"[{text}]"


def _query(found: Explanation, query: EffectiveRecord) -> Iterator[str]:
    yield f"Sub-question: {query.text}" if query.sub_question else "Question"
    yield f"  mentions: {', '.join(query.mentions) or 'none'}"
    for link in query.links:
        name = found.node(link.node).name
        yield f"    {link.mention} -> [{name}], weight {wording.number(link.weight)}"
    if not query.links:
        yield "    no entity was linked"
    seeded = wording.counted(query.num_seeds, "node")
    yield f"  seeds: {seeded}; entities {wording.percent(query.entity_mass)} of the mass"
    for row, mass in query.seeds:
        yield f"    {wording.percent(mass):>7}  {_node(found, row, 80)}"
    if query.flags:
        yield f"  flags: {', '.join(query.flags)}"


def _atom(found: Explanation, atom: AtomRecord) -> Iterator[str]:
    yield f"{atom.rank:>3}. {found.node(atom.node).name}"
    query = found.effective[atom.effective]
    by = f", found by sub-question {atom.effective}" if query.sub_question else ""
    yield f"     {wording.scores(atom)}{by}"
    yield from (f"     from {wording.source(source)}" for source in atom.sources)
    if atom.seeds:
        shares = ", ".join(f"{_node(found, row, 40)} {wording.percent(share)}" for row, share in atom.seeds)
        yield f"     begins in {shares}"
    for chain in atom.chains:
        yield f"     {wording.percent(chain.share):>7}  {chain_line(found, chain)}"
        yield f"              mass {wording.number(chain.mass)}, seed {wording.number(chain.seed)}"
    if atom.walk_length or atom.chains:
        yield f"     {wording.account(atom)}"


def _gold(found: Explanation) -> Iterator[str]:
    if found.gold:
        yield from ("", "Gold documents", *(_document(found, record) for record in found.gold))
    if found.statements:
        yield from ("", "Gold statements")
    for statement in found.statements:
        yield f"  {statement.text}"
        yield from _cover(found, "coverage", statement.coverage)
        yield from _cover(found, "similarity", statement.similarity)


def _cover(found: Explanation, what: str, cover: CoverRecord | None) -> Iterator[str]:
    if cover is None:
        yield f"    {what}: not measured"
        return
    places = f"{wording.place(cover.rank)}, propagated {wording.place(cover.propagated_rank)}"
    yield f"    {what} {cover.value:.2f} by {_node(found, cover.node, 80)}"
    yield f"      {places}, mass {wording.number(cover.mass)}"


def _document(found: Explanation, record: DocumentRecord) -> str:
    mark = "*" if record.gold else " "
    rank = "  -" if record.rank is None else f"{record.rank:>3}"
    ours = "" if record.propagated_rank == record.rank else f", propagated {wording.place(record.propagated_rank)}"
    best = "" if record.best_atom is None else f", best atom at {record.best_atom[0]}"
    return (
        f"{rank} {mark}{wording.document(record)} ({record.doc_id}){ours}, mass {wording.number(record.mass)} "
        f"in {record.atoms} atoms{best}"
    )


def _generation(found: Explanation, record: GenerationRecord) -> Iterator[str]:
    kept = sum(candidate.kept for candidate in record.candidates)
    yield f"Sieve {record.sieve}: {kept} of {len(record.candidates)} kept" + (
        f" ({record.sieve_failure})" if record.sieve_failure else ""
    )
    for candidate in record.candidates:
        cosine = "" if candidate.similarity is None else f", similarity {candidate.similarity:.2f}"
        mark = "keep" if candidate.kept else "drop"
        yield f"  {mark}  {_node(found, candidate.node, _WIDTH)} (score {wording.number(candidate.score)}{cosine})"
    if record.units:
        yield "Citation units"
    for unit in record.units:
        span = f", characters {unit.start}-{unit.end}" if unit.start is not None else ""
        cited = ", cited" if unit.cited else ""
        yield f"  [{unit.number}] {unit.text} (document {unit.doc_id}{span}, {len(unit.atoms)} atoms{cited})"
    if record.answer is not None:
        yield f"Answer by {record.reader}: {record.answer}"
    if record.failure:
        yield f"No answer: {record.failure}"
    if record.reasoning:
        yield f"Reasoning: {record.reasoning}"


def _exchange(exchange: Exchange) -> Iterator[str]:
    cached = ", from the cache of replies" if exchange.cached else ""
    yield f"Prompt {exchange.task}, {exchange.model}{cached}"
    for role, text in exchange.messages:
        yield f"  {role}:"
        yield from (f"    {line}" for line in text.splitlines())
    yield "  reply:"
    yield from (f"    {line}" for line in (exchange.reply or exchange.failure).splitlines())

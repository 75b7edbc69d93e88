"""An explanation as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from aeg.explain import wording
from aeg.explain.drawing import layout, svg
from aeg.explain.records import (
    AtomRecord,
    ChainRecord,
    CoverRecord,
    DocumentRecord,
    EffectiveRecord,
    Exchange,
    Explanation,
    GenerationRecord,
    StatementRecord,
)

_OPEN = 3  # atoms whose chains are open from the start
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def as_page(found: Explanation) -> str:
    """Return an explanation as an HTML page that asks for nothing beside itself; all texts in it are escaped."""
    sections = [
        ("linked", "Linked and seeded", [_query(found, query) for query in found.effective]),
        ("drawing", "Resonance chains", _drawing(found)),
        ("atoms", "Ranked atoms", _atoms(found)),
        ("gold", "Gold evidence", _gold(found)),
        ("documents", "Ranked documents", _documents(found.documents)),
        ("generation", "Sieve and answer", _generation(found, found.generation)),
        ("prompts", "Prompts", [_exchange(exchange) for exchange in found.exchanges]),
    ]
    filled = [(name, title, "".join(parts)) for name, title, parts in sections]
    filled = [section for section in filled if section[2]]
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in filled)
    body = "".join(f'<section id="{name}"><h2>{title}</h2>{inner}</section>' for name, title, inner in filled)
    folder = files("aeg.explain")
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(found.question)}</title><style>{style}</style></head><body>"
        f"<header>{_header(found)}<nav>{links}</nav></header><main>{body}</main><script>{script}</script></body></html>\n"
    )


def _header(found: Explanation) -> str:
    reference = f"<p>Reference answer: <b>{escape(found.reference)}</b></p>" if found.reference else ""
    measures = ", ".join(f"{escape(name)} {value:.2f}" for name, value in found.metrics.items())
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in found.notes)
    return (
        f"<h1>{escape(found.question)}</h1>{reference}"
        f'<p class="meta">{escape(found.origin)}, {escape(found.question_id)}. '
        f"Propagation by {escape(wording.method(found))} over {found.num_atoms:,} atoms and "
        f"{found.num_entities:,} entities.</p>"
        + (f"<details><summary>Measures of this question</summary><p>{measures}</p></details>" if measures else "")
        + notes
    )


def _query(found: Explanation, query: EffectiveRecord) -> str:
    title = f"<h3>Sub-question: {escape(query.text)}</h3>" if query.sub_question else ""
    links = [
        (
            _cell("mention", escape(link.mention)),
            _cell("entity", _node(found, link.node)),
            _figure("weight", link.weight),
        )
        for link in query.links
    ]
    seeds = [
        (_cell("seed", _node(found, row)), f'<td class="n" data-h="mass">{wording.percent(mass)}</td>')
        for row, mass in query.seeds
    ]
    mentions = ", ".join(map(escape, query.mentions)) or "none"
    flags = f" Flags: {escape(', '.join(query.flags))}." if query.flags else ""
    seeded = wording.counted(query.num_seeds, "seed")
    linked = _table(("mention", "entity", "weight"), links) if links else "<p>No entity was linked.</p>"
    return (
        f'{title}<p class="small">Mentions: {mentions}. {seeded}; entities have '
        f"{wording.percent(query.entity_mass)} of the mass, atoms {wording.percent(query.atom_mass)}.{flags}</p>"
        f'<div class="columns"><div>{linked}</div><div>{_table(("seed", "mass"), seeds)}</div></div>'
    )


def _drawing(found: Explanation) -> Iterator[str]:
    drawn = layout(found)
    if not drawn.place:
        return
    left = f" {drawn.left_out} more chains had no room here; they stand below." if drawn.left_out else ""
    twice = " Walks that visit a node twice are not shown." if found.simple else ""
    yield (
        f'<figure><div class="scroll" tabindex="-1">{svg(found, drawn)}</div>'
        '<div id="told" aria-live="polite">Point at a node, tap it or reach it with the Tab key: its chains are lit '
        "and its text stands here. Enter holds it.</div>"
        '<figcaption><span class="key seed"></span>seed <span class="key entity"></span>entity '
        '<span class="key atom"></span>atom <span class="key ranked"></span>atom with its rank. Mass flows along the '
        f"arrows; a wider one carries more.{twice}{left} "
        '<span class="narrow">Swipe sideways to see all of it.</span></figcaption></figure>'
    )


def _atoms(found: Explanation) -> Iterator[str]:
    if not found.atoms:
        yield "<p>No atom has any score for this question.</p>"
        return
    most = max(atom.score for atom in found.atoms) or 1.0
    yield '<ol class="atoms">'
    for place, atom in enumerate(found.atoms):
        yield _atom(found, atom, atom.score / most, place < _OPEN)
    yield "</ol>"


def _atom(found: Explanation, atom: AtomRecord, share: float, opened: bool) -> str:
    query = found.effective[atom.effective]
    by = f" Found by the sub-question “{escape(query.text)}”." if query.sub_question else ""
    sources = "; ".join(escape(wording.source(source)) for source in atom.sources)
    begins = ", ".join(f"{_node(found, row)} {wording.percent(part)}" for row, part in atom.seeds)
    chains = "".join(_chain(found, chain, atom.node) for chain in atom.chains)
    account = (
        f'<p class="small">{escape(wording.account(atom)).capitalize()}.</p>' if atom.walk_length or chains else ""
    )
    begin = f'<p class="small">The score begins in {begins}.</p>' if begins else ""
    inner = (
        f"<details{' open' if opened else ''}><summary>"
        f"{wording.counted(len(atom.chains), 'chain')}, {wording.percent(atom.covered)} of the score</summary>"
        f"{chains}{account}{begin}</details>"
        if atom.chains or account
        else ""
    )
    return (
        f'<li><div class="rank">{atom.rank}</div><div><div>{escape(found.node(atom.node).name)}</div>'
        f'<div class="bar"><i style="width:{100 * max(share, 0):.1f}%"></i></div>'
        f'<p class="small">{escape(wording.scores(atom)).capitalize()}. From {sources}.{by}</p>{inner}</div></li>'
    )


def _chain(found: Explanation, chain: ChainRecord, atom: int) -> str:
    seed = "this atom, a seed" if chain.nodes[0] == atom else ""
    parts = [f'<span class="quote">{seed}</span>' if seed else _node(found, chain.nodes[0])]
    for row, step in zip(chain.nodes[1:], chain.steps, strict=True):
        end = '<span class="quote">this atom</span>' if row == atom else _node(found, row)
        parts.append(f' <span class="arrow">{escape(wording.step(step))} →</span> {end}')
    carried = f"{wording.percent(chain.share)}, mass {wording.number(chain.mass)}"
    return f'<div class="chain"><span class="share">{carried}</span>{"".join(parts)}</div>'


def _gold(found: Explanation) -> Iterator[str]:
    if found.gold:
        yield "<h3>Documents</h3>"
        yield from _documents(found.gold)
    if found.statements:
        yield "<h3>Statements</h3>"
        yield from (_statement(found, statement) for statement in found.statements)


def _statement(found: Explanation, statement: StatementRecord) -> str:
    rows = [
        _cover(found, name, cover)
        for name, cover in (("coverage", statement.coverage), ("similarity", statement.similarity))
        if cover is not None
    ]
    return f"<p>{escape(statement.text)}</p>" + _table(
        ("by", "value", "atom", "rank", "propagated rank", "mass"), rows, right=(1, 3, 4, 5)
    )


def _cover(found: Explanation, name: str, cover: CoverRecord) -> tuple[str, ...]:
    return (
        _cell("by", name),
        f'<td class="n" data-h="value">{cover.value:.2f}</td>',
        _cell("", _node(found, cover.node)),
        _place("rank", cover.rank),
        _place("propagated rank", cover.propagated_rank),
        _figure("mass", cover.mass),
    )


def _documents(records: Sequence[DocumentRecord]) -> Iterator[str]:
    if not records:
        return
    rows = [
        (
            _place("rank", record.rank),
            _cell("", f"{escape(wording.document(record))}{' <span class=yes>gold</span>' if record.gold else ''}"),
            _place("propagated rank", record.propagated_rank),
            _figure("mass", record.mass),
            f'<td class="n" data-h="atoms">{record.atoms}</td>',
            _place("best atom", None if record.best_atom is None else record.best_atom[0]),
        )
        for record in records
    ]
    head = ("rank", "document", "propagated rank", "mass", "atoms", "best atom at rank")
    yield _table(head, rows, right=(0, 2, 3, 4, 5))


def _generation(found: Explanation, record: GenerationRecord | None) -> Iterator[str]:
    if record is None:
        return
    if record.answer is not None:
        yield f"<h3>Answer by {escape(record.reader)}</h3><p><b>{escape(record.answer)}</b></p>"
    if record.failure:
        yield f'<p class="note">No answer: {escape(record.failure)}</p>'
    if record.reasoning:
        yield f"<details><summary>Reasoning</summary><p>{escape(record.reasoning)}</p></details>"
    if record.units:
        units = [
            (
                f'<td class="n">{unit.number}</td>',
                _cell("", f"{escape(unit.text)}{' <span class=yes>cited</span>' if unit.cited else ''}"),
                _cell("document", escape(_span(unit.doc_id, unit.start, unit.end))),
                f'<td class="n" data-h="atoms">{len(unit.atoms)}</td>',
            )
            for unit in record.units
        ]
        yield "<h3>Citation units</h3>" + _table(("", "text", "document", "atoms"), units, right=(0, 3))
    kept = sum(candidate.kept for candidate in record.candidates)
    failed = f" ({escape(record.sieve_failure)})" if record.sieve_failure else ""
    yield f"<h3>Sieve {escape(record.sieve)}: {kept} of {len(record.candidates)} kept{failed}</h3>"
    rows = [
        (
            _cell("", f"<span class={'yes>keep' if candidate.kept else 'no>drop'}</span>"),
            _cell("", escape(found.node(candidate.node).name)),
            _figure("score", candidate.score),
            f'<td class="n" data-h="similarity">{"" if (s := candidate.similarity) is None else f"{s:.2f}"}</td>',
        )
        for candidate in record.candidates
    ]
    yield _table(("", "candidate", "score", "similarity"), rows, right=(2, 3))


def _span(doc_id: str, start: int | None, end: int | None) -> str:
    return doc_id if start is None else f"{doc_id}, characters {start}-{end}"


def _exchange(exchange: Exchange) -> str:
    chat = "".join(f'<p class="small">{escape(role)}</p><pre>{escape(text)}</pre>' for role, text in exchange.messages)
    cached = ", from the cache of replies" if exchange.cached else ""
    reply = exchange.reply if exchange.reply is not None else exchange.failure
    return (
        f"<details><summary>{escape(exchange.task)}, {escape(exchange.model)}{cached}</summary>{chat}"
        f'<p class="small">reply</p><pre>{escape(reply)}</pre></details>'
    )


def _node(found: Explanation, row: int) -> str:
    node = found.node(row)
    kind = "quote" if node.kind == "atom" else "chip"
    return f'<span class="{kind}">{escape(node.name)}</span>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] | None = None) -> str:
    aligned = (len(head) - 1,) if right is None else right
    titles = "".join(f"<th{' class=n' if at in aligned else ''}>{title}</th>" for at, title in enumerate(head))
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return (
        f'<div class="scroll"><table class="stack"><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cell(head: str, inner: str) -> str:
    return f'<td data-h="{head}">{inner}</td>' if head else f"<td>{inner}</td>"


def _figure(head: str, value: float) -> str:
    return f'<td class="n" data-h="{head}">{wording.number(value)}</td>'


def _place(head: str, rank: int | None) -> str:
    return f'<td class="n" data-h="{head}">{"–" if rank is None else rank}</td>'

"""How numbers, names and chains are put into words, the same in text and on the page."""

from __future__ import annotations

from aeg.explain.records import AtomRecord, DocumentRecord, Explanation, SourceRecord, StepRecord

_SAME = 1e-5
_SOLVING = ("tol", "max_iter", "engine", "stop", "epsilon")  # parameters that only say how scores are computed


def percent(share: float) -> str:
    """Return a share in percent.

    Example:
        >>> percent(0.1234), percent(0.00004), percent(0.0)
        ('12.3 %', '<0.1 %', '0 %')
    """
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %" if share else "0 %"


def number(value: float) -> str:
    """Return a score or mass with three digits that count.

    Example:
        >>> number(0.0123456), number(0.0), number(1e-9)
        ('0.0123', '0', '1e-09')
    """
    return "0" if value == 0 else f"{value:.3g}"


def shortened(text: str, width: int) -> str:
    """Return a text of at most `width` characters, cut at a word where there is one.

    Example:
        >>> shortened("Ann owns the dog Bix.", 12)
        'Ann owns …'
    """
    text = " ".join(text.split())
    if len(text) <= width:
        return text
    cut = text[: width - 2]
    word = cut.rsplit(" ", 1)[0] if " " in cut[width // 2 :] else cut
    return f"{word} …"


def step(record: StepRecord) -> str:
    """Return a step's edges and factor.

    Example:
        >>> step(StepRecord(0.25, (("mentions", 1.0),)))
        'mentions, 0.25'
    """
    return f"{' and '.join(name for name, _ in record.edges) or 'edge'}, {number(record.factor)}"


def source(record: SourceRecord) -> str:
    """Return where an atom stands.

    Example:
        >>> source(SourceRecord("d1", "Ann", "d1#2", (3, 9)))
        'Ann (document d1, passage d1#2, characters 3-9)'
    """
    place = f"document {record.doc_id}" + (
        f", passage {record.passage_id}" if record.passage_id != record.doc_id else ""
    )
    place += f", characters {record.span[0]}-{record.span[1]}" if record.span else ""
    return f"{record.title} ({place})" if record.title else place


def scores(atom: AtomRecord) -> str:
    """Return an atom's score, and its propagated score where that is another one."""
    if rescored(atom):
        rank = f", rank {atom.propagated_rank}" if atom.propagated_rank else ""
        return f"score {number(atom.score)}; propagated {number(atom.propagated_score)}{rank}"
    return f"score {number(atom.score)}"


def rescored(atom: AtomRecord) -> bool:
    """Tell whether the ranking's score is not the propagated one."""
    return abs(atom.score - atom.propagated_score) > _SAME * max(abs(atom.propagated_score), 1e-30)


def account(atom: AtomRecord) -> str:
    """Return how much of an atom's score its chains carry, and how that is known."""
    cut = "; the search was cut off, heavier ones may exist" if atom.cut_off else ""
    rest = f" to within {percent(atom.tail / atom.walks)}" if atom.tail and atom.walks else ""
    shown = f"these chains carry {percent(atom.covered)} of the propagated score{cut}"
    return f"{shown}; walks of up to {atom.walk_length} steps account for all of it{rest}"


def place(rank: int | None) -> str:
    """Return a rank in words."""
    return "not ranked" if rank is None else f"rank {rank}"


def document(record: DocumentRecord) -> str:
    """Return a document's title, or its id where it has none."""
    return record.title or record.doc_id


def method(found: Explanation) -> str:
    """Return the propagation method with the parameters that its scores depend on."""
    told = {name: value for name, value in found.parameters.items() if name not in _SOLVING and value is not None}
    given = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in told.items())
    label = "" if found.label == found.method else f"{found.label}: "
    return f"{label}{found.method} ({given})" if given else f"{label}{found.method}"


def counted(count: int, what: str) -> str:
    """Return a number with its noun.

    Example:
        >>> counted(1, "node"), counted(1200, "node")
        ('1 node', '1,200 nodes')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"

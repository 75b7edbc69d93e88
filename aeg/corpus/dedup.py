"""Documents of the same content are one document: the first is kept, gold ids follow."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from aeg.core.keys import atom_text
from aeg.core.records import Corpus, Document, Query
from aeg.errors import DataError


def content_hash(title: str, text: str) -> str:
    r"""Return the SHA-256 (hex) of title and text, each NFC with white space collapsed.

    Example:
        >>> content_hash("Bix", "Ann  owns it.\n") == content_hash("Bix ", "Ann owns it.")
        True
        >>> content_hash("Bix", "Ann owns it.") == content_hash("", "Bix Ann owns it.")
        False
    """
    return hashlib.sha256(f"{atom_text(title)}\n{atom_text(text)}".encode()).hexdigest()


def unite(
    documents: Sequence[Document],
    queries: Sequence[Query] = (),
    *,
    source: Path | str,
    prechunked: bool = False,
    ignore_titles: bool = False,
    counts: Mapping[str, int] | None = None,
) -> Corpus:
    """Return a corpus in which each content stands once; of equal documents the first is kept.

    Gold ids of the queries are mapped to the kept documents. Documents without text are never merged.
    `counts["duplicate_documents"]` says how many were dropped.

    Args:
        documents: in the source's order.
        queries: with gold ids that name documents.
        source: named in errors.
        prechunked: each document is one passage already.
        ignore_titles: compare texts alone, for titles that are only file names.
        counts: what the loader skipped or repaired, by reason.

    Raises:
        DataError: if there is no document, an id comes twice, or a gold id names no document.

    Example:
        >>> twins = [Document("a", "Ann owns Bix."), Document("b", "Ann  owns Bix.")]
        >>> corpus = unite(twins, [Query("q", "Who owns Bix?", gold_doc_ids=("b",))], source="example")
        >>> corpus.duplicates, corpus.queries[0].gold_doc_ids
        ({'b': 'a'}, ('a',))
    """
    if not documents:
        raise DataError(f"{source}: got no documents, expected at least one; check the path and the file")
    _check_ids([document.id for document in documents], "document", source)
    _check_ids([query.id for query in queries], "question", source)
    first: dict[str, str] = {}
    kept: dict[str, str] = {}
    for document in documents:
        title = "" if ignore_titles else document.title
        key = content_hash(title, document.text) if document.text.strip() else f"empty {document.id}"
        kept[document.id] = first.setdefault(key, document.id)
    duplicates = {dropped: keeper for dropped, keeper in kept.items() if dropped != keeper}
    total: Counter[str] = Counter({reason: number for reason, number in (counts or {}).items() if number})
    if duplicates:
        total["duplicate_documents"] += len(duplicates)
    return Corpus(
        documents=tuple(document for document in documents if document.id not in duplicates),
        queries=tuple(_with_kept_gold(query, kept, source) for query in queries),
        prechunked=prechunked,
        duplicates=duplicates,
        counts=total,
    )


def _with_kept_gold(query: Query, kept: Mapping[str, str], source: Path | str) -> Query:
    for gold in query.gold_doc_ids:
        if gold not in kept:
            raise DataError(
                f"{source}: question {query.id!r} has gold document {gold!r}, which is not in the corpus; "
                "expected ids of its documents; correct the gold or add the document"
            )
    gold_ids = tuple(dict.fromkeys(kept[gold] for gold in query.gold_doc_ids))
    return query if gold_ids == query.gold_doc_ids else replace(query, gold_doc_ids=gold_ids)


def _check_ids(ids: Iterable[str], what: str, source: Path | str) -> None:
    for identifier, number in Counter(ids).items():
        if number > 1:
            raise DataError(
                f"{source}: {what} id {identifier!r} is given {number} times; "
                "expected distinct ids; rename or remove the others"
            )

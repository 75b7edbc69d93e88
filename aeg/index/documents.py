"""The documents of an index, and what adding, removing and updating makes of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aeg.core.atomic import replacing
from aeg.core.records import Corpus, Document
from aeg.corpus.dedup import content_hash
from aeg.errors import DataError, nearest

DOCUMENTS = "documents.parquet"
_SHOWN = 5


def own_corpus(path: Path) -> dict[str, Any]:
    """Return the corpus section for a folder of text or Markdown files, or a file of JSON lines.

    Raises:
        DataError: if there is neither.
    """
    if path.is_dir():
        return {"name": "text_folder", "path": str(path.resolve())}
    if path.is_file() and path.suffix == ".jsonl":
        return {"name": "jsonl", "documents": str(path.resolve())}
    raise DataError(f"{path}: expected a folder of .txt and .md files, or a .jsonl file with id and text a line")


def exact_hash(document: Document) -> str:
    """Return the SHA-256 of a document's title and text as they stand.

    Example:
        >>> exact_hash(Document("a", "Ann.")) == exact_hash(Document("b", "Ann."))
        True
        >>> exact_hash(Document("a", "Ann.")) == exact_hash(Document("a", "Ann. "))
        False
    """
    return hashlib.sha256(json.dumps([document.title, document.text]).encode()).hexdigest()


def save_documents(documents: Sequence[Document], folder: Path) -> None:
    """Write documents, ordered by id, with their hashes; the same documents give the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: [getattr(document, name) for document in documents] for name in ("id", "title", "text")}
    columns["hash"] = [exact_hash(document) for document in documents]
    with replacing(folder / DOCUMENTS) as temporary:
        pq.write_table(pa.table(columns, schema=pa.schema([(name, pa.string()) for name in columns])), temporary)


def load_documents(folder: Path) -> dict[str, Document]:
    """Return the documents of a generation, by id.

    Raises:
        DataError: if their file is missing or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(folder / DOCUMENTS, columns=["id", "text", "title"]).to_pydict()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{folder / DOCUMENTS}: not a readable table ({error}); build the index again") from None
    rows = zip(table["id"], table["text"], table["title"], strict=True)
    return {row[0]: Document(*row) for row in rows}


@dataclass(frozen=True)
class Changes:
    """What becomes of an index's documents.

    Attributes:
        documents: those that the index will have, by id, in the order of the ids.
        added, changed, removed: ids, in order.
        unchanged: documents that were given and are in the index as they are.
        duplicates: id of a document that was given to the id of the one with its content that the index has.
        gone: ids in the index that were not given, and stay.
    """

    documents: dict[str, Document]
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0
    duplicates: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether the index changes at all."""
        return bool(self.added or self.changed or self.removed)

    def lines(self) -> list[str]:
        """Return what there is to tell, a line each."""
        told = [
            f"documents: {len(self.documents):,} ({len(self.added):,} added, {len(self.changed):,} changed, "
            f"{len(self.removed):,} removed, {self.unchanged:,} unchanged)"
        ]
        pairs = [f"{new} of {old}" for new, old in self.duplicates.items()]
        told += [f"{len(pairs):,} duplicates, which add nothing: {_some(pairs)}"] if pairs else []
        if self.gone:
            told.append(f"{len(self.gone):,} documents are not in PATH any more and stay: {_some(self.gone)}")
            told.append("--prune removes them")
        return told


def whole(held: Mapping[str, Document], given: Corpus, ignore_titles: bool = False) -> Changes:
    """Return the changes that leave exactly the given documents."""
    return merged(held, given, ignore_titles, prune=True)


def added(held: Mapping[str, Document], given: Corpus, ignore_titles: bool = False) -> Changes:
    """Return the changes that add the given documents.

    Raises:
        DataError: if the index has another document under the id of one of them.
    """
    other = [d.id for d in given.documents if d.id in held and exact_hash(held[d.id]) != exact_hash(d)]
    if other:
        raise DataError(
            f"{len(other):,} of the documents are in the index with other content: {_some(other)}; "
            "use `aeg update` to replace them, or give them other ids"
        )
    found = merged(held, given, ignore_titles, prune=False)
    return Changes(found.documents, found.added, unchanged=found.unchanged, duplicates=found.duplicates)


def removed(held: Mapping[str, Document], ids: Sequence[str]) -> Changes:
    """Return the changes that remove documents.

    Raises:
        DataError: if the index has no document of one of the ids, or would be left without any.
    """
    unknown = [name for name in ids if name not in held]
    if unknown:
        raise DataError(f"the index has no document {unknown[0]!r}. {_nearest(unknown[0], held)}")
    rest = {name: document for name, document in held.items() if name not in set(ids)}
    _check_some(rest)
    return Changes(rest, removed=tuple(sorted(set(ids))))


def merged(held: Mapping[str, Document], given: Corpus, ignore_titles: bool, prune: bool) -> Changes:
    """Return the changes that add the given documents, and replace those of their ids that differ.

    A document whose content another one of the index has, which stays as it is, is a duplicate and adds nothing.

    Args:
        held: documents of the index.
        given: distinct documents.
        ignore_titles: two documents of the same text are the same, whatever their titles.
        prune: remove the documents that were not given.

    Raises:
        DataError: if no document would be left.
    """
    names = {document.id for document in given.documents}
    unchanged = {d.id for d in given.documents if d.id in held and exact_hash(held[d.id]) == exact_hash(d)}
    result = {name: held[name] for name in held if name in unchanged or (name not in names and not prune)}
    owner: dict[str, str] = {}
    for document in result.values():
        owner.setdefault(_content(document, ignore_titles), document.id)
    twins = dict(given.duplicates)
    fresh: list[Document] = []
    for document in given.documents:
        if document.id not in unchanged:
            twin = owner.get(_content(document, ignore_titles))
            if twin is None:
                fresh.append(document)
            else:
                twins[document.id] = twin
    result |= {document.id: document for document in fresh}
    _check_some(result)
    return Changes(
        dict(sorted(result.items())),
        added=tuple(sorted(d.id for d in fresh if d.id not in held)),
        changed=tuple(sorted(d.id for d in fresh if d.id in held)),
        removed=tuple(sorted(name for name in held if name not in result)),
        unchanged=len(unchanged),
        duplicates={new: twins.get(old, old) for new, old in sorted(twins.items())},
        gone=tuple(sorted(held.keys() - names - given.duplicates.keys())) if not prune else (),
    )


def _content(document: Document, ignore_titles: bool) -> str:
    if not document.text.strip():
        return f"empty {document.id}"
    return content_hash("" if ignore_titles else document.title, document.text)


def _check_some(documents: Mapping[str, Document]) -> None:
    if not documents:
        raise DataError("no document would be left in the index; delete its folder instead")


def _nearest(name: str, held: Iterable[str]) -> str:
    """A hint that names a few ids, of an index that may have very many."""
    import difflib

    ids = sorted(held)
    close = difflib.get_close_matches(name, ids, n=_SHOWN, cutoff=0.5) if len(ids) <= 10_000 else []
    close = close or [one for one in ids if name.casefold() in one.casefold()][:_SHOWN]
    return f"Nearest ids: {', '.join(close)}" if close else nearest(name, ids[:_SHOWN]) + ", ..."


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")

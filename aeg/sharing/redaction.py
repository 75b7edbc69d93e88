"""Leaving the texts out of an index: what remains is ids, spans, names of entities, vectors and edges."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from aeg.errors import DataError

_KEPT = frozenset({"id", "doc_id", "passage_id", "atom_id", "key", "name"})
"""Columns that stay: ids, and the keys and names of entities, which questions are linked by."""


_DROPPED = ("documents.parquet", "extraction.jsonl", "cut.safetensors")


def is_dropped(path: str) -> bool:
    """Tell whether a file of an index is left out with the texts: it is nothing but text, or of use to updates only.

    Example:
        >>> is_dropped("generations/0/extraction.jsonl"), is_dropped("generations/0/atoms.parquet")
        (True, False)
    """
    return PurePosixPath(path).name in _DROPPED or path.endswith(".jsonl")


def has_text(path: str) -> bool:
    """Tell whether a file of an index that is not left out may hold texts of passages or atoms.

    Example:
        >>> has_text("generations/0/atoms.parquet"), has_text("generations/0/graph.safetensors")
        (True, False)
    """
    return PurePosixPath(path).suffix == ".parquet"


def without_text(source: Path, target: Path) -> None:
    """Write a table anew with every text emptied, but for ids and the keys and names of entities.

    Raises:
        DataError: if the file is no table, or has a column that this does not know how to empty.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(source)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{source}: not a readable table ({error}); build the index again") from None
    for at, column in enumerate(table.schema):
        kind = column.type
        if column.name in _KEPT or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            continue
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise DataError(f"{source}: column {column.name!r} ({kind}) cannot be emptied; export with texts")
        empty = pc.if_else(pc.is_null(table.column(at)), pa.scalar(None, kind), pa.scalar("", kind))
        table = table.set_column(at, column, empty)
    pq.write_table(table.replace_schema_metadata(None), target)

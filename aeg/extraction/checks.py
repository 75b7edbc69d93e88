"""What only recorded extractions hold: triples, and lists written as strings of Python literals."""

from __future__ import annotations

import ast
from typing import Any

from aeg.core.files import Item, expect, expect_list, wrong
from aeg.errors import DataError

Triple = tuple[str, str, str]


def triples(item: Item, key: str, skip: bool) -> tuple[tuple[Triple, ...], int]:
    """Return the triples of a field, and how many malformed ones were left out (none unless `skip`).

    Raises:
        DataError: if the field is absent or no list, or a triple is malformed and `skip` is off.
    """
    kept: list[Triple] = []
    rows = expect(item.value(key, "a list of triples"), list, item.place(key), "a list of triples")
    for index, row in enumerate(rows):
        try:
            kept.append(_triple(row, f"{item.place(key)}[{index}]"))
        except DataError as error:
            if not skip:
                raise DataError(f"{error}, or leave such triples out with `malformed_triples: skip`") from None
    return tuple(kept), len(rows) - len(kept)


def _triple(row: Any, where: str) -> Triple:
    if not isinstance(row, list) or len(row) != 3:
        raise wrong(where, row, "[subject, relation, object], three strings")
    subject, relation, end = expect_list(row, str, where)
    return subject, relation, end


def literals(item: Item, *keys: str) -> Item:
    """Return the item with each of these fields read by `literal`.

    Raises:
        DataError: if one is absent, or a string that holds no literal.
    """
    return Item({**item.values, **{key: literal(item.value(key), item.place(key)) for key in keys}}, item.where)


def literal(value: Any, where: str) -> Any:
    """Return `value`, or what it denotes where it is a string holding a Python literal, as HippoRAG 1 writes lists.

    Nothing is evaluated: only literals of strings, numbers, lists, tuples (made lists) and dicts are read.

    Example:
        >>> literal("['Ann', ('Bix', 1)]", "docs[0].extracted_entities")
        ['Ann', ['Bix', 1]]
    """
    if not isinstance(value, str):
        return value
    try:
        return _lists(ast.literal_eval(value.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise wrong(where, value, "a list, or a string that holds one as a Python literal") from None


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(part) for key, part in value.items()}
    return [_lists(part) for part in value] if isinstance(value, list | tuple) else value

"""Checks of what a recorded extraction holds; every error names the place, what was got and what was expected."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, TypeVar

from aeg.errors import DataError, nearest

T = TypeVar("T")
Triple = tuple[str, str, str]


def shown(value: Any) -> str:
    """Return a value and its type, cut to a length that fits an error message.

    Example:
        >>> shown(["a", 1]), shown(None)
        ("['a', 1] (list)", 'None (NoneType)')
    """
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def wrong(where: str, value: Any, expected: str) -> DataError:
    """Return the error for a value that is not what was expected."""
    return DataError(f"{where}: got {shown(value)}, expected {expected}; correct the file")


def field_of(record: dict[str, Any], key: str, where: str) -> Any:
    """Return a required field of a record.

    Raises:
        DataError: if it is absent; the message lists the keys that are there.
    """
    if key not in record:
        raise DataError(f"{where}: no field {key!r}; expected it beside the others. {nearest(key, record)}")
    return record[key]


def string(value: Any, where: str, blank: bool = True) -> str:
    """Return `value` if it is a string (and, unless `blank`, holds more than white space)."""
    if not isinstance(value, str) or not (blank or value.strip()):
        raise wrong(where, value, "a string" if blank else "a string with text in it")
    return value


def list_of(value: Any, where: str, check: Callable[[Any, str], T]) -> list[T]:
    """Return the checked items of a list (or tuple); the place of each has its index."""
    if not isinstance(value, list | tuple):
        raise wrong(where, value, "a list")
    return [check(item, f"{where}[{index}]") for index, item in enumerate(value)]


def triple(value: Any, where: str) -> Triple:
    """Return (subject, relation, object) from a list of three strings."""
    if not isinstance(value, list | tuple) or len(value) != 3 or not all(isinstance(part, str) for part in value):
        raise wrong(where, value, "[subject, relation, object], three strings")
    return (value[0], value[1], value[2])


def triples(value: Any, where: str, skip: bool) -> tuple[list[Triple], int]:
    """Return the triples of a list, and how many malformed items were left out (none unless `skip`).

    Raises:
        DataError: if `value` is no list, or an item is malformed and `skip` is off.
    """
    kept: list[Triple] = []
    items = list_of(value, where, lambda item, _: item)
    for index, item in enumerate(items):
        try:
            kept.append(triple(item, f"{where}[{index}]"))
        except DataError as error:
            if not skip:
                raise DataError(f"{error}, or leave such triples out with `malformed_triples: skip`") from None
    return kept, len(items) - len(kept)


def literal(value: Any, where: str) -> Any:
    """Return `value`, or what it denotes where it is a string holding a Python literal, as HippoRAG 1 writes lists.

    Nothing is evaluated: only literals of strings, numbers, lists, tuples and dicts are read.

    Example:
        >>> literal("['Ann', 'Bix']", "docs[0].extracted_entities")
        ['Ann', 'Bix']
    """
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise wrong(where, value, "a list, or a string that holds one as a Python literal") from None

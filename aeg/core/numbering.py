"""Numbered lists of texts in prompts, and the numbers that a model gives back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_NUMBER = re.compile(r"-?\d+")


def numbered(texts: Iterable[str], first: int = 0) -> str:
    r"""Return the texts one a line, each with its number in brackets; white space is collapsed.

    A text cannot pass for two: its line breaks are gone.

    Example:
        >>> print(numbered(["Ann owns Bix.", "Bix\n[7] barks."], first=1))
        [1] Ann owns Bix.
        [2] Bix [7] barks.
    """
    return "\n".join(f"[{number}] {' '.join(text.split())}" for number, text in enumerate(texts, first))


def as_number(value: Any) -> Any:
    """Return the number that a model wrote as text (`"[3]"`, `"id 3"`), anything else as it is.

    True and False become their names, so that they do not pass for 1 and 0.

    Example:
        >>> [as_number(value) for value in ("[3]", 4, "1 and 2", True)]
        [3, 4, '1 and 2', 'True']
    """
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and len(found := _NUMBER.findall(value)) == 1:
        return int(found[0])
    return value

"""Citation markers in an answer: found, checked against the units there are, and taken out of the text."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBERS = r"\d{1,3}(?:\s*[-–,;]\s*\d{1,3})*"  # four digits are a year
_MARK = rf"(?:\[\s*{_NUMBERS}\s*\]|【\s*{_NUMBERS}\s*】)"
_MARKS = re.compile(rf"\s*\(\s*{_MARK}(?:\s*[,;]?\s*{_MARK})*\s*\)|\s*{_MARK}(?:\s*[,;]?\s*{_MARK})*")
_LONGEST = 50  # units in a marker
_RANGE = re.compile(r"(\d{1,3})(?:\s*[-–]\s*(\d{1,3}))?")


def without_markers(text: str) -> tuple[str, list[int]]:
    """Return the text without its citation markers, and the numbers that they cite, in order.

    A marker is `[1]`, `[1, 3]`, `[1-3]`, `[1][3]`, `([1])` or the same in `【】`, numbers of up to three digits.
    What is cited is not checked here.

    Example:
        >>> without_markers("Ann owns Bix [1][3], who was born in [2019] ([2, 4-6]).")
        ('Ann owns Bix, who was born in [2019].', [1, 3, 2, 4, 5, 6])
    """
    cited: list[int] = []
    for match in _MARKS.finditer(text):
        for first, last in _RANGE.findall(match.group()):
            cited.extend(_between(int(first), int(last or first)))
    return _MARKS.sub("", text).strip(), cited


def checked(cited: Iterable[int], units: int) -> tuple[tuple[int, ...], int]:
    """Return the distinct numbers from 1 to `units`, ascending, and how many distinct others there were.

    Example:
        >>> checked([3, 1, 3, 9, 0], units=4)
        ((1, 3), 2)
    """
    distinct = set(cited)
    valid = sorted(number for number in distinct if 1 <= number <= units)
    return tuple(valid), len(distinct) - len(valid)


def _between(first: int, last: int) -> Iterable[int]:
    """The numbers of a range; its ends only where it runs backwards or is no list of units."""
    return range(first, last + 1) if 0 <= last - first < _LONGEST else (first, last)

"""Fields with ranges, and the base class that checks them when an instance is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from aeg.errors import ConfigError, nearest

_RANGE = "aeg.range"


@dataclass(frozen=True)
class Range:
    """The allowed values of a field: bounds (open or closed) or a list of choices."""

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    choices: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the range in words, e.g. `a number in (0, 1]`.

        Example:
            >>> Range(gt=0, le=1).describe()
            'a number in (0, 1]'
        """
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        low = f"({self.gt:g}" if self.gt is not None else f"[{self.ge:g}" if self.ge is not None else "(-inf"
        high = f"{self.lt:g})" if self.lt is not None else f"{self.le:g}]" if self.le is not None else "inf)"
        return f"a number in {low}, {high}"

    def admits(self, value: Any) -> bool:
        """Tell whether `value` lies in the range; None always does, and a range without bounds takes anything."""
        if value is None or self == Range():
            return True
        if self.choices:
            return value in self.choices
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            return False
        checks = (
            self.gt is None or value > self.gt,
            self.ge is None or value >= self.ge,
            self.lt is None or value < self.lt,
            self.le is None or value <= self.le,
        )
        return all(checks)


def param(
    default: Any,
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """Return a dataclass field with a default and a range that `Checked` enforces.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Walk(Checked):
        ...     restart: float = param(0.3, gt=0, lt=1)
        >>> Walk(restart=1.5)
        Traceback (most recent call last):
        ...
        aeg.errors.ConfigError: restart: got 1.5, expected a number in (0, 1)
    """
    meta = {_RANGE: Range(gt=gt, ge=ge, lt=lt, le=le, choices=tuple(choices))}
    if isinstance(default, list | dict):
        kind, content = type(default), default
        return field(default_factory=lambda: kind(content), metadata=meta)
    return field(default=default, metadata=meta)


@dataclass(frozen=True)
class Checked:
    """Base of every config and method: a frozen dataclass whose ranged fields are checked on creation."""

    def __post_init__(self) -> None:
        for spec in fields(self):
            allowed: Range | None = spec.metadata.get(_RANGE)
            value = getattr(self, spec.name)
            if allowed is None or allowed.admits(value):
                continue
            hint = f". {nearest(value, allowed.choices)}" if allowed.choices and isinstance(value, str) else ""
            raise ConfigError(f"{spec.name}: got {value!r}, expected {allowed.describe()}{hint}")

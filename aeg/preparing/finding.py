"""What a look at a machine found: in order, worth knowing, or missing, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARNING, MISSING = "ok", "warning", "missing"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        check: what: `encoder`, `device`, `data`, ...
        status: `ok`, `warning` (a run goes on without), or `missing` (it would fail).
        message: what was found.
        remedy: what to do; empty where it is in order, or the message says it.
    """

    check: str
    status: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{self.status:<8} {self.check}: {self.message}"
        return f"{line}; {self.remedy}" if self.remedy else line


def told(check: str, error: Exception, status: str = MISSING) -> Finding:
    """Return an error as a finding; its message says what to do."""
    return Finding(check, status, " ".join(str(error).split()))

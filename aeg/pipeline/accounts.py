"""What each module of a run took: wall time, calls, tokens and cost, paid by it or by the runs that it builds on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from aeg.backends.llm.ledger import Ledger, LedgerRow

CONSTRUCTION = "Atom-Entity Graph Construction"
DECOMPOSITION = "Atomic Question Decomposition"
RETRIEVAL = "Entity-Resonance Graph Retrieval"
SIEVE = "Atomic Sieve"
ANSWERS = "Grounded Answer Generation"
EVALUATION = "Evaluation"
MODULES = (CONSTRUCTION, DECOMPOSITION, RETRIEVAL, SIEVE, ANSWERS, EVALUATION)
INDEX_SIDE = (CONSTRUCTION,)
QUERY_SIDE = (DECOMPOSITION, RETRIEVAL, SIEVE, ANSWERS)

ESTIMATED = "estimated"  # count of replies that an estimate made up
_UNFINISHED = ("quarantined", "partial", "failed", "fallback", ESTIMATED)
_SUMS = (
    *("calls", "cache_hits", "prompt_tokens", "completion_tokens", "cached_prompt_tokens"),
    *("cached_completion_tokens", "failures", "seconds", "latency"),
)


@dataclass(frozen=True)
class ModuleUsage:
    """What one module took.

    Attributes:
        module: its name in the paper's Table 7.
        reused: False for this run; True for the earlier runs that made the artifacts which this run found.
        seconds: wall time.
        calls, cache_hits, failures: of language models; hits were answered from the cache of replies.
        prompt_tokens, completion_tokens: paid for; those of cached replies are the `cached_` ones.
        latency: sum of the calls' own seconds, which overlap.
        cost: US dollars at the config's prices; None where a model that was paid has no price.
        tasks: the same by prompt and model.
    """

    module: str
    reused: bool
    seconds: float
    calls: int
    cache_hits: int
    failures: int
    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int
    cached_completion_tokens: int
    latency: float
    cost: float | None
    tasks: tuple[LedgerRow, ...]

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens that were paid for."""
        return self.prompt_tokens + self.completion_tokens


class Accounts:
    """Books wall time and the ledger's entries to the module that is at work.

    Modules nest: what an inner one takes is not the outer one's.

    Example:
        >>> accounts = Accounts(Ledger())
        >>> with accounts.module(RETRIEVAL):
        ...     with accounts.module(DECOMPOSITION):
        ...         accounts.ledger.count("decomposition", "decomposed")
        >>> [(usage.module, usage.tasks[0].counts) for usage in accounts.table() if usage.tasks]
        [('Atomic Question Decomposition', {'decomposed': 1})]
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._books = {module: Ledger(ledger.prices) for module in MODULES}
        self._seconds: Counter[tuple[str, bool]] = Counter()
        self._stack: list[str] = []
        self._known: set[str] = set()
        self._since, self._rows = time.perf_counter(), ledger.snapshot()

    @contextmanager
    def module(self, name: str) -> Iterator[None]:
        """Book what the block takes to a module."""
        self._charge()
        self._stack.append(name)
        try:
            yield
        finally:
            self._charge()
            self._stack.pop()

    @property
    def at(self) -> str:
        """The module that is at work; construction where none is."""
        return self._stack[-1] if self._stack else CONSTRUCTION

    def watch(self) -> Watch:
        """Return what tells, later, what was booked since now."""
        return Watch(self.ledger, self.ledger.snapshot())

    def made(self, artifact: str) -> None:
        """Note the fingerprint of an artifact that this run made itself: finding it later is no reuse."""
        self._known.add(artifact)

    def reuse(self, module: str, artifact: str, usage: Mapping[str, Any], seconds: float = 0.0) -> None:
        """Book, once, what earlier runs took for an artifact that this run found."""
        if artifact in self._known:
            return
        self._known.add(artifact)
        self._books[module].merge(usage, reused=True)
        self._seconds[module, True] += seconds  # type: ignore[assignment]

    def table(self) -> list[ModuleUsage]:
        """Return a row for each module, then one for each module with reused artifacts."""
        self._charge()
        rows = [self._usage(module, False) for module in MODULES]
        reused = [self._usage(module, True) for module in MODULES]
        return rows + [row for row in reused if row.tasks or row.seconds]

    def _usage(self, module: str, reused: bool) -> ModuleUsage:
        tasks = tuple(row for row in self._books[module].table() if row.reused == reused)
        costs = [row.cost for row in tasks]
        sums = {name: sum(getattr(row, name) for row in tasks) for name in _SUMS if name != "seconds"}
        return ModuleUsage(
            module,
            reused,
            seconds=self._seconds[module, reused],
            cost=None if None in costs else sum(cost for cost in costs if cost is not None),
            tasks=tasks,
            **sums,
        )

    def _charge(self) -> None:
        now, rows = time.perf_counter(), self.ledger.snapshot()
        if self._stack:
            module = self._stack[-1]
            self._seconds[module, False] += now - self._since  # type: ignore[assignment]
            self._books[module].merge(difference(rows, self._rows), reused=False)
        self._since, self._rows = now, rows


@dataclass(frozen=True)
class Watch:
    """What a ledger has booked since a moment."""

    ledger: Ledger
    before: Mapping[str, Any]

    def usage(self) -> dict[str, Any]:
        """Return it as plain values, which `Accounts.reuse` takes."""
        return difference(self.ledger.snapshot(), self.before)

    def unusable(self) -> int:
        """Return how often a model gave no (whole) usable reply: what these replies were for is not finished."""
        return max(self._count(name) for name in _UNFINISHED)

    def estimated(self) -> int:
        """Return how many replies an estimate made up."""
        return self._count(ESTIMATED)

    def _count(self, name: str) -> int:
        return sum(row["counts"].get(name, 0) for row in self.usage()["rows"])


def difference(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a ledger's snapshot has more than an earlier one.

    Example:
        >>> ledger = Ledger()
        >>> ledger.count("ner", "reasked")
        >>> first = ledger.snapshot()
        >>> ledger.count("ner", "reasked", 2)
        >>> difference(ledger.snapshot(), first)["rows"][0]["counts"]
        {'reasked': 2}
    """
    known = {(row["task"], row["model"]): row for row in before["rows"]}
    untold = {row["task"]: row for row in before["rows"] if not row["model"]}  # counts of a task before its first call
    rows = []
    for row in after["rows"]:
        old = known.get((row["task"], row["model"])) or untold.pop(row["task"], None) or asdict(LedgerRow(row["task"]))
        more = {name: row[name] - old[name] for name in _SUMS}
        counts = {name: n - old["counts"].get(name, 0) for name, n in row["counts"].items()}
        counts = {name: n for name, n in counts.items() if n}
        if any(more.values()) or counts:
            rows.append({"task": row["task"], "model": row["model"], **more, "counts": counts})
    return {"rows": rows}


def added(usages: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return several usages added up."""
    whole = Ledger()
    for usage in usages:
        whole.merge(usage, reused=False)
    return whole.snapshot()

"""What language models were asked and what it cost: calls, tokens, seconds and dollars by task."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from aeg.backends.llm.base import Failure, Reply, Request
from aeg.errors import BudgetError, ConfigError, nearest

_BYTES_A_TOKEN = 3  # of UTF-8; English has more, Chinese about as many: the estimate errs upwards
_TOKENS_A_MESSAGE = 8  # role and separators
_MILLION = 1e6


@dataclass(frozen=True)
class Price:
    """What a model costs, in US dollars per million tokens."""

    prompt: float
    completion: float


class Prices:
    """Prices by model.

    Example:
        >>> prices = Prices({"small": {"prompt": 0.15, "completion": 0.6}})
        >>> prices.cost("small", 2_000_000, 500_000), prices.cost("other", 1, 1)
        (0.6, None)
    """

    def __init__(self, table: Mapping[str, Mapping[str, float]] | None = None) -> None:
        """Take the `llm.prices` section of a config.

        Raises:
            ConfigError: if a model's entry is not `{prompt: USD, completion: USD}` with numbers of at least 0.
        """
        self._prices = {model: _price(model, entry) for model, entry in (table or {}).items()}

    def __contains__(self, model: object) -> bool:
        return model in self._prices

    def cost(self, model: str, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Return the cost in US dollars; None where the model has no price."""
        price = self._prices.get(model)
        if price is None:
            return None
        return (price.prompt * prompt_tokens + price.completion * completion_tokens) / _MILLION

    def require(self, model: str) -> None:
        """Check that a model has a price.

        Raises:
            ConfigError: if it has none; a budget cannot be kept then.
        """
        if model not in self._prices:
            raise ConfigError(
                f"llm.max_cost_usd is set, but model {model!r} has no price; add it to llm.prices "
                f"(0 for a model of your own). {nearest(model, self._prices)}"
            )


def _price(model: str, entry: Any) -> Price:
    names = [spec.name for spec in fields(Price)]
    if not isinstance(entry, Mapping) or sorted(map(str, entry)) != sorted(names):
        raise ConfigError(f"llm.prices.{model}: got {entry!r}, expected {{prompt: USD, completion: USD}}")
    for name in names:
        value = entry[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise ConfigError(f"llm.prices.{model}.{name}: got {value!r}, expected a number of at least 0")
    return Price(float(entry["prompt"]), float(entry["completion"]))


@dataclass(frozen=True)
class LedgerRow:
    """What one task's calls came to.

    Attributes:
        task: name of the prompt, or of the module.
        model: the model that was asked; empty where the row holds only times and counts.
        calls: requests sent and paid; `cache_hits` were answered without one.
        prompt_tokens, completion_tokens: paid; those of cached replies are the `cached_` ones.
        failures: calls without a reply (they are among `calls`).
        seconds: wall time of the task (see `Ledger.timed`).
        latency: sum of the single calls' seconds, which overlap.
        cost: US dollars paid; None where the model has no price (shown as "-").
        counts: what the stages counted, e.g. `quarantined`, `repaired`, `reasked`.
        reused: True where an earlier run paid, and this one used its artifact.
    """

    task: str
    model: str = ""
    calls: int = 0
    cache_hits: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_prompt_tokens: int = 0
    cached_completion_tokens: int = 0
    failures: int = 0
    seconds: float = 0.0
    latency: float = 0.0
    cost: float | None = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    reused: bool = False


_SUMS = (
    *("calls", "cache_hits", "prompt_tokens", "completion_tokens", "cached_prompt_tokens"),
    *("cached_completion_tokens", "failures", "seconds", "latency"),
)


@dataclass
class _Entry:
    """The running sums of one (task, model, reused)."""

    sums: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)


class Ledger:
    """Calls, tokens, time and cost by task, and the budget that they must keep to.

    Example:
        >>> ledger = Ledger(Prices({"m": {"prompt": 1, "completion": 2}}))
        >>> ledger.add("ner", Reply("[]", prompt_tokens=10, completion_tokens=5, seconds=0.1), model="m")
        >>> ledger.add("ner", Reply("[]", prompt_tokens=10, completion_tokens=5, seconds=0.1), cached=True, model="m")
        >>> [(row.task, row.calls, row.cache_hits, row.prompt_tokens, row.cost) for row in ledger.table()]
        [('ner', 1, 1, 10, 2e-05)]
    """

    def __init__(self, prices: Prices | None = None, max_cost_usd: float | None = None) -> None:
        """Open an empty ledger.

        Args:
            prices: what models cost.
            max_cost_usd: what this run may spend; None: anything. Each run of a program has the whole of it anew
                (what the cache holds is free), and parallel programs have one each.
        """
        self.prices = prices or Prices()
        self.max_cost_usd = max_cost_usd
        self._entries: dict[tuple[str, str, bool], _Entry] = {}
        self._timing: set[str] = set()

    def add(self, task: str, outcome: Reply | Failure, cached: bool = False, model: str = "") -> None:
        """Book one outcome; `cached` ones are counted apart and cost nothing."""
        sums = self._entry(task, model).sums
        paid = "cached_" if cached else ""
        sums["cache_hits" if cached else "calls"] += 1
        sums[f"{paid}prompt_tokens"] += outcome.prompt_tokens
        sums[f"{paid}completion_tokens"] += outcome.completion_tokens
        if isinstance(outcome, Failure):
            sums["failures"] += 1
        elif not cached:
            sums["latency"] += outcome.seconds  # type: ignore[assignment]

    def count(self, task: str, name: str, n: int = 1) -> None:
        """Add `n` to a count of the stage, e.g. `quarantined` or `invented_ids`."""
        self._entry(task, "").counts[name] += n

    @contextmanager
    def timed(self, task: str) -> Iterator[None]:
        """Add the block's wall time to a task; inside a block for the same task it adds nothing."""
        if task in self._timing:
            yield
            return
        self._timing.add(task)
        start = time.perf_counter()
        try:
            yield
        finally:
            self._timing.discard(task)
            self._entry(task, "").sums["seconds"] += time.perf_counter() - start  # type: ignore[assignment]

    def spent(self) -> float:
        """Return the US dollars that this run has paid, as far as its models have prices."""
        costs = (self._cost(model, entry) for (_, model, reused), entry in self._entries.items() if not reused)
        return sum(cost for cost in costs if cost is not None)

    def worst_case(self, model: str, request: Request) -> float:
        """Return what a request costs at most, in US dollars.

        The prompt is taken as a token for every three bytes (UTF-8), the completion as `max_tokens`.

        Raises:
            ConfigError: if the model has no price.
        """
        self.prices.require(model)
        cost = self.prices.cost(model, prompt_tokens(request), request.max_tokens)
        assert cost is not None
        return cost

    def refuse(self, left: int, reserved: float = 0.0) -> BudgetError:
        """Return the error for `left` requests that the budget does not allow."""
        held = f" and {reserved:.4f} is reserved for requests under way" if reserved else ""
        return BudgetError(
            f"max_cost_usd: {self.spent():.4f} of {self.max_cost_usd} US dollars were spent{held}; the next of {left} "
            "requests could exceed it. Replies so far are cached: run the same command again to go on (each run "
            "has the budget anew), or raise llm.max_cost_usd"
        )

    def table(self) -> list[LedgerRow]:
        """Return a row for each task and model in the order of their first call; reused ones come last.

        Times and counts, which belong to a task and not to a model, are in the task's first row.
        """
        tasks = dict.fromkeys((reused, task) for task, _, reused in self._entries)
        return [row for reused, task in sorted(tasks, key=lambda pair: pair[0]) for row in self._rows(task, reused)]

    def snapshot(self) -> dict[str, Any]:
        """Return what this run booked as plain values (JSON), for an artifact's manifest."""
        return {"rows": [asdict(row) for row in self.table() if not row.reused]}

    def merge(self, snapshot: Mapping[str, Any], reused: bool = True) -> None:
        """Add the rows of another ledger's `snapshot`.

        Args:
            snapshot: what `snapshot` returned.
            reused: True for what an earlier run paid (a row of its own, no part of what is spent now); False for
                another process of this run.
        """
        for row in snapshot["rows"]:
            entry, own = (self._entry(row["task"], model, reused) for model in (row["model"], ""))
            entry.sums.update({name: row[name] for name in _SUMS if name != "seconds"})
            own.sums["seconds"] += row["seconds"]
            own.counts.update(row["counts"])

    def estimate(
        self, task: str, model: str, calls: int, prompt_tokens: int, completion_tokens: int, cache_hits: int = 0
    ) -> LedgerRow:
        """Return the row of calls that have not been made, for `--estimate`; nothing is booked.

        Args:
            task: name of the prompt or module.
            model: the model to ask.
            calls: how many.
            prompt_tokens: of all calls together.
            completion_tokens: likewise.
            cache_hits: how many more need no call.
        """
        cost = self.prices.cost(model, prompt_tokens, completion_tokens)
        return LedgerRow(task, model, calls, cache_hits, prompt_tokens, completion_tokens, cost=cost)

    def _entry(self, task: str, model: str, reused: bool = False) -> _Entry:
        return self._entries.setdefault((task, model, reused), _Entry())

    def _rows(self, task: str, reused: bool) -> Iterator[LedgerRow]:
        """The rows of a task; its times and counts, which are booked without a model, are in the first."""
        entries = {m: e for (t, m, r), e in self._entries.items() if (t, r) == (task, reused)}
        own = entries.get("", _Entry())
        asked = [model for model, entry in entries.items() if entry.sums["calls"] or entry.sums["cache_hits"]]
        for number, model in enumerate(asked or [""]):
            sums: dict[str, Any] = {name: entries.get(model, own).sums[name] for name in _SUMS} | {"seconds": 0.0}
            counts = {}
            if number == 0:
                sums["seconds"], counts = own.sums["seconds"], dict(sorted(own.counts.items()))
            cost = self._cost(model, entries.get(model, own))
            yield LedgerRow(task, model, **sums, cost=cost, counts=counts, reused=reused)

    def _cost(self, model: str, entry: _Entry) -> float | None:
        if not entry.sums["prompt_tokens"] and not entry.sums["completion_tokens"]:
            return 0.0
        return self.prices.cost(model, entry.sums["prompt_tokens"], entry.sums["completion_tokens"])


def prompt_tokens(request: Request) -> int:
    """Return an upper estimate of a request's prompt tokens: a token for every three bytes, schema included.

    Example:
        >>> from aeg.backends.llm.base import Message
        >>> prompt_tokens(Request("ner", "p1", (Message("user", "x" * 300),)))
        108
    """
    size = len(request.schema.encode()) + sum(len(turn.content.encode()) for turn in request.messages)
    return -(-size // _BYTES_A_TOKEN) + _TOKENS_A_MESSAGE * len(request.messages)

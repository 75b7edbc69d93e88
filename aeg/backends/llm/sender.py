"""Sending requests to a backend, as many at a time as the budget surely allows."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import accumulate

from aeg.backends.llm.base import Backend, Failure, Reply, Request, Session
from aeg.backends.llm.ledger import Ledger
from aeg.errors import PendingBatch

_ROUNDING = 1e-12  # US dollars


class Sender:
    """A backend, opened at the first request, and the budget.

    Before requests go out, the worst case of all of them, of what was spent and of what waits for an offline job
    must fit into the budget. As calls cost less than their worst case, what did not fit is tried again when they
    have arrived.

    Attributes:
        pending: what the backend said of requests that wait for an offline job; the caller raises it in the end.
    """

    def __init__(self, backend: Backend, ledger: Ledger) -> None:
        """Prepare to send.

        Raises:
            ConfigError: if there is a budget and the model has no price.
        """
        self.backend = backend
        self.ledger = ledger
        self.pending: list[PendingBatch] = []
        self._session: Session | None = None
        self._reserved = 0.0
        self._limited = ledger.max_cost_usd is not None and backend.spends
        if self._limited:
            ledger.prices.require(backend.model)

    def send(self, requests: Sequence[Request]) -> Generator[tuple[int, Reply | Failure]]:
        """Yield (position, outcome) as `Session.send` does; the caller books each before it takes the next.

        Raises:
            BudgetError: once what fits the budget has arrived, if more is left and nothing waits for a job.
            AegError: if the backend cannot be used.
        """
        costs = [self.ledger.worst_case(self.backend.model, r) if self._limited else 0.0 for r in requests]
        start = 0
        while start < len(requests):
            stop = start + self._allowed(costs[start:])
            if stop == start:
                error = self.ledger.refuse(len(requests) - start, self._reserved)
                if not self.pending:
                    raise error
                self.pending.append(PendingBatch(f"{len(requests) - start} more requests are held back. {error}"))
                return
            for place, outcome in self._wave(requests[start:stop], costs[start:stop]):
                yield start + place, outcome
            start = stop

    def raise_pending(self) -> None:
        """Raise what was gathered in `pending`, if anything was.

        Raises:
            PendingBatch: naming all files of requests.
        """
        if self.pending:
            texts = dict.fromkeys(map(str, self.pending))
            self.pending.clear()
            self._reserved = 0.0
            raise PendingBatch(" ".join(texts))

    def close(self) -> None:
        """Close the backend; a later request opens it again."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _wave(self, requests: Sequence[Request], costs: list[float]) -> Iterator[tuple[int, Reply | Failure]]:
        if self._session is None:
            self._session = self.backend.open()
        missing = dict(enumerate(costs))
        outcomes: Iterator[tuple[int, Reply | Failure]] = iter(())
        try:
            outcomes = self._session.send(requests)
            for place, outcome in outcomes:
                missing.pop(place, None)
                yield place, outcome
        except PendingBatch as error:
            self.pending.append(error)
            self._reserved += sum(missing.values())
        finally:
            close = getattr(outcomes, "close", None)  # a generator's: cancels what is under way
            if close is not None:
                close()

    def _allowed(self, costs: list[float]) -> int:
        """How many of the next requests go out."""
        if not self._limited or self.ledger.max_cost_usd is None:
            return len(costs)
        room = self.ledger.max_cost_usd - self.ledger.spent() - self._reserved + _ROUNDING
        return sum(total <= room for total in accumulate(costs))

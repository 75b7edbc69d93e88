"""The rate limit of an endpoint: requests and tokens a minute, kept by token buckets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

Clock = Callable[[], float]


class Bucket:
    """A token bucket: fills at a steady rate up to one second's worth (or 1), and can be overdrawn by corrections.

    In any window of t seconds no more than `rate * t + capacity` goes out, and one amount that is larger than the
    capacity. An amount larger than the capacity waits for a full bucket and leaves a debt.

    Args:
        per_minute: what may go out in a minute.
        clock: seconds that never run backwards.

    Example:
        >>> now = 0.0
        >>> bucket = Bucket(60, clock=lambda: now)
        >>> bucket.wait(1), bucket.take(1), bucket.wait(1)
        (0.0, None, 1.0)
    """

    def __init__(self, per_minute: float, clock: Clock = time.monotonic) -> None:
        self.rate = per_minute / 60
        self.capacity = max(1.0, self.rate)
        self._clock = clock
        self._level = self.capacity
        self._at = clock()

    def wait(self, amount: float) -> float:
        """Return the seconds until `amount` can be taken, if nothing else is taken before."""
        self._fill()
        missing = min(amount, self.capacity) - self._level
        return missing / self.rate if missing > 1e-9 * self.capacity else 0.0

    def take(self, amount: float) -> None:
        """Take an amount out."""
        self._fill()
        self._level -= amount

    def give(self, amount: float) -> None:
        """Put an amount back; a negative one is taken out."""
        self._fill()
        self._level = min(self.capacity, self._level + amount)

    def _fill(self) -> None:
        now = self._clock()
        self._level = min(self.capacity, self._level + (now - self._at) * self.rate)
        self._at = now


class Limiter:
    """Lets requests through, first come first served, as fast as the limits allow. Belongs to one event loop.

    Args:
        requests_per_minute: None for no limit.
        tokens_per_minute: None for no limit; tokens of prompt and reply together.

    Example:
        >>> limiter = Limiter(None, 60_000)
        >>> asyncio.run(limiter.acquire(500))
        >>> limiter.correct(estimated=500, actual=120)
    """

    def __init__(self, requests_per_minute: float | None = None, tokens_per_minute: float | None = None) -> None:
        self._requests = Bucket(requests_per_minute) if requests_per_minute else None
        self._tokens = Bucket(tokens_per_minute) if tokens_per_minute else None
        self._turn = asyncio.Lock()
        self._given_back = asyncio.Event()

    async def acquire(self, tokens: float) -> None:
        """Wait until one request of so many tokens (an estimate) may go out."""
        if self._requests is None and self._tokens is None:
            return
        async with self._turn:
            while (pause := self._wait(tokens)) > 0:
                self._given_back.clear()
                try:
                    async with asyncio.timeout(pause):
                        await self._given_back.wait()
                except TimeoutError:
                    continue
            if self._requests is not None:
                self._requests.take(1)
            if self._tokens is not None:
                self._tokens.take(tokens)

    def correct(self, estimated: float, actual: float) -> None:
        """Replace a request's estimate by what it took; what was too much is there for others at once."""
        if self._tokens is not None:
            self._tokens.give(estimated - actual)
            self._given_back.set()

    def _wait(self, tokens: float) -> float:
        requests = self._requests.wait(1) if self._requests is not None else 0.0
        return max(requests, self._tokens.wait(tokens) if self._tokens is not None else 0.0)

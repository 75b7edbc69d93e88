"""The language models of an experiment, opened when they are first asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aeg.backends.llm.asker import Asker
from aeg.backends.llm.base import Backend
from aeg.backends.llm.ledger import Ledger, Prices
from aeg.config.llm import LLMConfig
from aeg.errors import PendingBatch


class Askers:
    """One asker for each role, the same one for roles with the same model; one ledger and one cache for all.

    Args:
        models: the backends by role.
        config: prompts, prices, budget.
        folder: of the replies' cache and of quarantine; None keeps nothing on disk.
        root: the folder from which relative paths of prompts start.
        kind: what is made; `aeg.pipeline.estimating.Estimator` asks nothing.
    """

    def __init__(
        self,
        models: Mapping[str, Backend],
        config: LLMConfig,
        folder: Path | None,
        root: Path | None,
        kind: type[Asker] = Asker,
    ) -> None:
        self.ledger = Ledger(Prices(config.prices), config.max_cost_usd)
        self._models, self._config, self._folder, self._root, self._kind = models, config, folder, root, kind
        self._open: list[Asker] = []

    def role(self, name: str) -> Asker:
        """Return the asker of a role that has a model."""
        backend = self._models[name]
        for asker in self._open:
            if asker.backend == backend:
                return asker
        config = self._config
        asker = self._kind(backend, self._folder, self.ledger, config.reasks, config.prompts, name, self._root)
        self._open.append(asker)
        return asker

    def of(self, method: Any) -> Asker | None:
        """Return the asker of a method's role; None for a method that asks no model."""
        return self.role(method.role) if method.role else None

    def to(self, method: Any) -> dict[str, Asker]:
        """Return the argument `llm` for a method's call; none for a method that asks no model."""
        asker = self.of(method)
        return {} if asker is None else {"llm": asker}

    def identity(self, method: Any) -> dict[str, Any] | None:
        """Return what of a method's model and prompts decides its results; None where it asks no model."""
        asker = self.of(method)
        return None if asker is None else asker.identity(*method.prompts)

    def close(self) -> None:
        """Close what was opened."""
        for asker in self._open:
            asker.close()


class Pending:
    """Gathers what waits for offline jobs, so that one run writes all the requests that it can.

    Example:
        >>> pending = Pending()
        >>> for part in ("a", "b"):
        ...     with pending.gathered():
        ...         raise PendingBatch(f"{part} waits.")
        >>> pending.raise_any()
        Traceback (most recent call last):
        ...
        aeg.errors.PendingBatch: a waits. b waits.
    """

    def __init__(self) -> None:
        self._messages: list[str] = []

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Run a block; if it waits for an offline job, note that and go on after it."""
        try:
            yield
        except PendingBatch as error:
            self._messages.append(str(error))

    def raise_any(self) -> None:
        """Raise what was gathered, if anything was.

        Raises:
            PendingBatch: with all the messages.
        """
        if self._messages:
            raise PendingBatch(" ".join(dict.fromkeys(self._messages)))

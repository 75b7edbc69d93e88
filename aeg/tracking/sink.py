"""The interface of trackers: what one needs to show a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aeg.tracking.content import Content
from aeg.tracking.journal import Identity


class Sink(ABC):
    """A tracker that one run is shown in."""

    @abstractmethod
    def open(self, identity: Identity, config: Mapping[str, Any], folder: Path) -> int:
        """Begin the run of that identity, or go on with it where it is there.

        Args:
            identity: what it is known by.
            config: plain values, without secrets.
            folder: where files of the tracker's own may lie.

        Returns:
            The first step that is not there yet.

        Raises:
            AegError: if the tracker cannot be reached or refuses; the message has the cause.
        """

    @abstractmethod
    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Show the values of a step; steps ascend."""

    @abstractmethod
    def show(self, step: int, content: Content) -> None:
        """Show tables, plots and files of a run that is finished."""

    @abstractmethod
    def close(self, status: str) -> str:
        """End with the run's status, wait until all is sent, and return where it is shown.

        Raises:
            AegError: if not all could be sent.
        """

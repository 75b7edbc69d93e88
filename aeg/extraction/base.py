"""The protocol of extractors, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aeg.core.records import Extraction, Passage
from aeg.core.sources import Sourced
from aeg.registry import Registry

if TYPE_CHECKING:
    from aeg.backends.llm import Asker


@dataclass(frozen=True)
class Extractor(Sourced, ABC):
    """Turns passages into entities, triples and atoms (paper, section 3.1)."""

    @abstractmethod
    def extract(
        self, passages: Sequence[Passage], root: Path | None = None, workers: int = 0, llm: Asker | None = None
    ) -> Iterator[Extraction]:
        """Yield one extraction a passage, in the passages' order, each as soon as it is there.

        Args:
            passages: what to extract from; always the corpus's passages in order (or the rest of them, when an
                interrupted extraction is resumed).
            root: the folder that relative paths in the parameters start from.
            workers: processes to share the work; 0 or 1 works in this process.
            llm: the model of the method's `role`; ignored by methods that need none.

        Raises:
            ConfigError: if the method needs a model and `llm` is None.
            DataError: if a recorded extraction is missing or malformed; the message names file and line.
        """


EXTRACTORS: Registry[Extractor] = Registry("extraction")

"""The protocol of extractors, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aeg.config.ranges import Checked
from aeg.core.records import Extraction, Passage
from aeg.registry import Registry


@dataclass(frozen=True)
class Extractor(Checked, ABC):
    """Turns passages into entities, triples and atoms (paper, section 3.1)."""

    @abstractmethod
    def extract(self, passages: Sequence[Passage], root: Path | None = None, workers: int = 0) -> Iterator[Extraction]:
        """Yield one extraction a passage, in the passages' order, each as soon as it is there.

        Args:
            passages: what to extract from; always the corpus's passages in order (or the rest of them, when an
                interrupted extraction is resumed).
            root: the folder that relative paths in the parameters start from.
            workers: processes to share the work; 0 or 1 works in this process.

        Raises:
            DataError: if a recorded extraction is missing or malformed; the message names file and line.
        """

    def source_files(self, root: Path | None) -> list[Path]:
        """Return the files whose content the extraction depends on (they enter the artifact's fingerprint)."""
        return []

    def counts(self, passages: Sequence[Passage], root: Path | None = None) -> Counter[str]:
        """Return what was repaired, missing or unused, by reason, for the manifest."""
        return Counter()


EXTRACTORS: Registry[Extractor] = Registry("extraction")

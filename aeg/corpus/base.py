"""The protocol of corpus loaders, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from aeg.config.ranges import Checked
from aeg.core.records import Corpus
from aeg.errors import DataError
from aeg.registry import Registry


@dataclass(frozen=True)
class CorpusLoader(Checked, ABC):
    """Reads one data set from files.

    A relative `path` in a loader's parameters is relative to the config's `data_root`.
    """

    @abstractmethod
    def load(self, root: Path | None) -> Corpus:
        """Return the corpus.

        Args:
            root: the folder that relative paths start from (`data_root`), None where none is configured.

        Raises:
            DataError: if a file is missing, malformed, not UTF-8, or holds no questions where it should.
        """

    def parts(self, root: Path | None) -> list[tuple[str, CorpusLoader]]:
        """Return (label, loader) of each corpus: more than one where a benchmark has one corpus a book.

        Results are computed for each part and averaged without weights over parts.
        """
        return [("", self)]


CORPORA: Registry[CorpusLoader] = Registry("corpus")


def check_questions(found: int, path: Path) -> None:
    """Check that a file of questions holds at least one.

    Raises:
        DataError: if `found` is 0.
    """
    if not found:
        raise DataError(f"{path}: got no questions, expected at least one; get the file again or name another")

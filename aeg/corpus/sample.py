"""The small corpus that ships inside the package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from aeg.core.records import Corpus
from aeg.corpus.base import CORPORA, CorpusLoader
from aeg.corpus.jsonl import load_lines
from aeg.errors import DataError


@CORPORA.register("sample")
@dataclass(frozen=True)
class Sample(CorpusLoader):
    """Loads the documents and questions in `aeg/corpus/sample_data`; needs no data folder.

    Each document is one passage, as the recorded extraction that ships with it has one entry a document.

    Example:
        >>> CORPORA.make("sample")
        Sample()
    """

    def load(self, root: Path | None = None) -> Corpus:
        """Return the corpus; `root` is not used."""
        with as_file(files("aeg.corpus") / "sample_data") as folder:
            if not (folder / "documents.jsonl").is_file():
                raise DataError(f"{folder}: no documents.jsonl; expected the package's sample; reinstall the package")
            return load_lines(folder / "documents.jsonl", folder / "questions.jsonl", prechunked=True)

"""A folder of text and Markdown files, one document a file."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from aeg.config.ranges import param
from aeg.core.files import REMEDY, expect, read_text, resolve, unreadable
from aeg.core.records import Corpus, Document
from aeg.corpus.base import CORPORA, CorpusLoader
from aeg.corpus.dedup import unite
from aeg.corpus.jsonl import read_questions
from aeg.errors import DataError

SUFFIXES = (".txt", ".md")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r" {0,3}(```|~~~)")


@CORPORA.register("text_folder")
@dataclass(frozen=True)
class TextFolder(CorpusLoader):
    """Loads every .txt and .md file below a folder, sorted by path.

    A document's id is its path in the folder ("notes/a.md"), its title the first heading of a Markdown file;
    files of the same text are duplicates whatever their names. Files without text are kept. Other files, and
    hidden ones, are left out and counted as `skipped_files`.

    Attributes:
        path: the folder, relative to `data_root`.
        questions: a file of questions in JSON lines as for `jsonl`, None for none.
        title: what a file without a heading is called: nothing (`heading`), or its name without suffix (`name`),
            for folders whose files are named after their subjects.

    Example:
        >>> CORPORA.make("text_folder", path="notes")
        TextFolder(path='notes', questions=None, title='heading')
    """

    path: str
    questions: str | None = None
    title: str = param("heading", choices=("heading", "name"))

    def load(self, root: Path | None) -> Corpus:
        """Return the corpus; see `CorpusLoader.load`."""
        folder = resolve(root, self.path)
        if not folder.is_dir():
            got = "a file" if folder.exists() else "no such folder"
            raise DataError(f"{folder}: {got}; expected a folder of .txt and .md files; {REMEDY}")
        counts: Counter[str] = Counter()
        documents = []
        for name, path in _files(folder):
            if path.suffix.lower() not in SUFFIXES or any(part.startswith(".") for part in name.split("/")):
                counts["skipped_files"] += 1
                continue
            text = read_text(path, "a text file")
            documents.append(Document(name, text, _heading(path, text) or (path.stem if self.title == "name" else "")))
        if not documents:
            raise DataError(f"{folder}: got no .txt or .md file, expected at least one; check the path")
        queries = []
        if self.questions is not None:
            known = {document.id for document in documents}
            queries = read_questions(resolve(root, self.questions), known, counts)
        return unite(documents, queries, source=folder, ignore_titles=True, counts=counts)


def _files(folder: Path) -> list[tuple[str, Path]]:
    """Return (path in the folder, path) of every file below `folder`, sorted."""

    def stop(error: OSError) -> None:
        raise unreadable(Path(error.filename), error, "a folder of text files") from None

    found = []
    for parent, _, names in os.walk(folder, onerror=stop):
        for name in names:
            path = Path(parent, name)
            found.append((expect(path.relative_to(folder).as_posix(), str, f"{folder}, file name"), path))
    return sorted(found)


def _heading(path: Path, text: str) -> str:
    if path.suffix.lower() == ".md":
        fenced = False
        for line in text.splitlines():
            if _FENCE.match(line):
                fenced = not fenced
            heading = None if fenced else _HEADING.fullmatch(line)
            if heading and heading.group(1):
                return heading.group(1)
    return ""

"""GraphRAG-Bench (Medical, Novel) as the data folder lays it out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from aeg.config.ranges import param
from aeg.core.files import (
    REMEDY,
    Item,
    check_unique,
    expect,
    read_items,
    read_json,
    resolve,
)
from aeg.core.records import Corpus, Document, Query
from aeg.corpus.base import CORPORA, CorpusLoader, check_questions
from aeg.corpus.dedup import unite
from aeg.errors import DataError

_GLOB = frozenset("*?[")


@CORPORA.register("graphrag_bench")
@dataclass(frozen=True)
class GraphRAGBench(CorpusLoader):
    """Loads GraphRAG-Bench: chunks.json or document.json, and questions.json with evidence statements.

    With `source: chunks` each row n of chunks.json is one document and one passage, with id
    `{folder}-{n:05d}`; a row keeps its number where a duplicate before it was dropped. With
    `source: document` the whole text is one document, for the chunker to split.

    Attributes:
        path: a folder, or a pattern such as "novel/novel-*" with one corpus a folder (see `parts`).
        source: `chunks` or `document`.

    Example:
        >>> CORPORA.make("graphrag_bench", path="novel/novel-*")
        GraphRAGBench(path='novel/novel-*', source='chunks')
    """

    path: str = "medical"
    source: str = param("chunks", choices=("chunks", "document"))

    def load(self, root: Path | None) -> Corpus:
        """Return the corpus; see `CorpusLoader.load`."""
        folders = self._folders(root)
        if len(folders) > 1:
            names = ", ".join(folder.name for folder in folders[:3])
            raise DataError(
                f"path {self.path!r} matches {len(folders)} folders ({names}, ...), expected one to load; "
                "each is its own corpus: use parts(), or name one of them"
            )
        folder = folders[0]
        documents = _documents(folder, self.source)
        path = folder / "questions.json"
        items = read_items(path, "GraphRAG-Bench's questions")
        check_questions(len(items), path)
        check_unique(((item.identifier("id"), item.where) for item in items), "question")
        queries = [_query(item, row) for row, item in enumerate(items)]
        counts = {"questions_without_evidence": sum(not query.evidence for query in queries)}
        return unite(documents, queries, source=folder, prechunked=self.source == "chunks", counts=counts)

    def parts(self, root: Path | None) -> list[tuple[str, CorpusLoader]]:
        """Return (folder name, loader) of each folder that a pattern matches, or itself for a plain path.

        Raises:
            DataError: if a pattern matches no folder.
        """
        if not self._is_pattern(root):
            return [("", self)]
        base = root or Path()
        folders = self._folders(root)
        paths = [(folder.relative_to(base) if folder.is_relative_to(base) else folder).as_posix() for folder in folders]
        names = Counter(folder.name for folder in folders)
        return [
            (folder.name if names[folder.name] == 1 else path, replace(self, path=path))
            for folder, path in zip(folders, paths, strict=True)
        ]

    def _is_pattern(self, root: Path | None) -> bool:
        return bool(_GLOB & set(self.path)) and not resolve(root, self.path).exists()

    def _folders(self, root: Path | None) -> list[Path]:
        target = resolve(root, self.path)
        if not self._is_pattern(root):
            return [target]
        base = Path(target.anchor) if Path(self.path).expanduser().is_absolute() else root or Path()
        pattern = target.relative_to(base).as_posix()
        folders = sorted(folder for folder in base.glob(pattern) if folder.is_dir())
        if not folders:
            raise DataError(f"{target}: no folder matches; expected folders of GraphRAG-Bench; {REMEDY}")
        return folders


def _documents(folder: Path, source: str) -> list[Document]:
    name = folder.name or folder.resolve().name
    path = folder / f"{source}.json"
    if source == "document":
        return [Document(name, read_json(path, str, "the corpus as one JSON string (or use source: chunks)"))]
    rows = read_json(path, list, "GraphRAG-Bench's chunks, a list of strings")
    return [Document(f"{name}-{row:05d}", expect(text, str, f"{path}, item {row}")) for row, text in enumerate(rows)]


def _query(item: Item, position: int) -> Query:
    return Query(
        id=item.identifier("id"),
        question=item.string("question", blank=False),
        answer=item.string("answer", default=""),
        type=item.string("question_type", default=""),
        evidence=item.strings("evidence", optional=True),
        position=position,
    )

"""A corpus in JSON lines: one document a line and, in a second file, one question a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from aeg.core.files import Item, check_unique, read_lines, resolve
from aeg.core.records import Corpus, Document, Query
from aeg.corpus.base import CORPORA, CorpusLoader, check_questions
from aeg.corpus.dedup import unite
from aeg.errors import DataError

DOCUMENT_FIELDS = ("id", "text", "title")
QUESTION_FIELDS = ("id", "question", "answer", "aliases", "type", "gold_doc_ids", "evidence")


@CORPORA.register("jsonl")
@dataclass(frozen=True)
class JsonLines(CorpusLoader):
    """Loads documents (`id`, `text`, optional `title`) and questions from JSON lines.

    A question has `id`, `question` and optionally `answer`, `aliases`, `type`, `gold_doc_ids`, `evidence`.
    Ids are strings or integers. Other fields are ignored and counted as `ignored_field:NAME`.

    Attributes:
        documents: the file of documents, relative to `data_root`.
        questions: the file of questions, None for a corpus without any.
        prechunked: each document is one passage, however long it is.

    Example:
        >>> CORPORA.make("jsonl", documents="papers.jsonl")
        JsonLines(documents='papers.jsonl', questions=None, prechunked=False)
    """

    documents: str = "documents.jsonl"
    questions: str | None = None
    prechunked: bool = False

    def load(self, root: Path | None) -> Corpus:
        """Return the corpus; see `CorpusLoader.load`."""
        questions = None if self.questions is None else resolve(root, self.questions)
        return load_lines(resolve(root, self.documents), questions, self.prechunked)


def load_lines(documents: Path, questions: Path | None, prechunked: bool = False) -> Corpus:
    """Return the corpus of a file of documents and, where given, one of questions.

    Raises:
        DataError: if a file is missing or malformed, an id comes twice (both lines are named), or a gold id
            names no document.
    """
    counts: Counter[str] = Counter()
    items = list(read_lines(documents, "documents in JSON lines (id, text, optional title)"))
    check_unique(((item.identifier("id"), item.where) for item in items), "document")
    found = [_document(item, counts) for item in items]
    queries = [] if questions is None else read_questions(questions, {document.id for document in found}, counts)
    return unite(found, queries, source=documents, prechunked=prechunked, counts=counts)


def read_questions(path: Path, known: Collection[str], counts: Counter[str]) -> list[Query]:
    """Return the questions of a JSON lines file.

    Args:
        path: the file.
        known: ids of all documents, which gold ids must be among.
        counts: ignored fields are added to it.

    Raises:
        DataError: if the file is missing, malformed or empty, an id comes twice or a gold id is unknown.
    """
    items = list(read_lines(path, "questions in JSON lines (id, question, ...)"))
    check_questions(len(items), path)
    check_unique(((item.identifier("id"), item.where) for item in items), "question")
    return [_query(item, row, known, counts) for row, item in enumerate(items)]


def _document(item: Item, counts: Counter[str]) -> Document:
    counts.update(item.ignored(DOCUMENT_FIELDS))
    return Document(item.identifier("id"), item.string("text"), item.string("title", default=""))


def _query(item: Item, position: int, known: Collection[str], counts: Counter[str]) -> Query:
    counts.update(item.ignored(QUESTION_FIELDS))
    gold = item.identifiers("gold_doc_ids", optional=True)
    for identifier in gold:
        if identifier not in known:
            raise DataError(
                f"{item.place('gold_doc_ids')}: got {identifier!r}, which names no document; "
                "expected ids of the documents; correct the id or add the document"
            )
    return Query(
        id=item.identifier("id"),
        question=item.string("question", blank=False),
        answer=item.string("answer", default=""),
        aliases=item.strings("aliases", optional=True),
        type=item.string("type", default=""),
        gold_doc_ids=gold,
        evidence=item.strings("evidence", optional=True),
        position=position,
    )

"""Data sets in BEIR's layout: corpus.jsonl, queries.jsonl and qrels/{split}.tsv."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from aeg.core.files import check_unique, read_lines, read_text, resolve
from aeg.core.records import Corpus, Document, Query
from aeg.corpus.base import CORPORA, CorpusLoader, check_questions
from aeg.corpus.dedup import unite
from aeg.errors import DataError

HEADER = ["query-id", "corpus-id", "score"]


@CORPORA.register("beir")
@dataclass(frozen=True)
class Beir(CorpusLoader):
    """Loads a BEIR data set: the queries of one split that have a positive judgement, all documents.

    Judgements are made binary (score above 0). Queries without one are left out and counted as
    `queries_without_qrels`, judgements of 0 or below as `qrels_not_positive`.

    Attributes:
        path: the folder, relative to `data_root`.
        split: the name of the judgements' file in qrels/.

    Example:
        >>> CORPORA.make("beir", path="scifact")
        Beir(path='scifact', split='test')
    """

    path: str
    split: str = "test"

    def load(self, root: Path | None) -> Corpus:
        """Return the corpus; see `CorpusLoader.load`."""
        folder = resolve(root, self.path)
        rows = list(read_lines(folder / "corpus.jsonl", "BEIR's documents (_id, title, text)"))
        check_unique(((row.identifier("_id"), row.where) for row in rows), "document")
        documents = [
            Document(row.identifier("_id"), row.string("text"), row.string("title", default="")) for row in rows
        ]
        path = folder / "queries.jsonl"
        questions = list(read_lines(path, "BEIR's queries (_id, text)"))
        check_unique(((row.identifier("_id"), row.where) for row in questions), "question")
        check_questions(len(questions), path)
        counts: Counter[str] = Counter()
        qrels = self._qrels(folder, counts)
        gold = _checked(qrels, {document.id for document in documents}, {row.identifier("_id") for row in questions})
        queries = [
            Query(
                row.identifier("_id"),
                row.string("text", blank=False),
                gold_doc_ids=tuple(gold[row.identifier("_id")]),
                position=position,
            )
            for position, row in enumerate(questions)
            if row.identifier("_id") in gold
        ]
        counts["queries_without_qrels"] = len(questions) - len(queries)
        check_questions(len(queries), folder / "qrels" / f"{self.split}.tsv")
        return unite(documents, queries, source=folder, counts=counts)

    def _qrels(self, folder: Path, counts: Counter[str]) -> list[tuple[str, str, str]]:
        """Return (query id, document id, place) of each positive judgement."""
        path = folder / "qrels" / f"{self.split}.tsv"
        if not path.exists() and path.parent.is_dir():
            splits = ", ".join(sorted(other.stem for other in path.parent.glob("*.tsv"))) or "none"
            raise DataError(f"{path}: no such split; found: {splits}; set `split` to one of them")
        text = read_text(path, "BEIR's judgements (query-id, corpus-id, score)")
        lines = [line.rstrip("\r") for line in text.split("\n")]
        if lines[0].split("\t") != HEADER:
            raise DataError(
                f"{path}, line 1: got {lines[0][:60]!a}, expected the header {', '.join(HEADER)}, with tabs; add it"
            )
        found = []
        for number, line in enumerate(lines[1:], start=2):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            query, document, score = _fields(line, where)
            if score > 0:
                found.append((query, document, where))
            else:
                counts["qrels_not_positive"] += 1
        return found


def _fields(line: str, where: str) -> tuple[str, str, int]:
    try:
        query, document, score = line.split("\t")
        return query, document, int(score)
    except ValueError:
        raise DataError(
            f"{where}: got {line[:60]!a}, expected query id, document id and an integer score, with tabs; "
            "correct the line"
        ) from None


def _checked(qrels: list[tuple[str, str, str]], documents: set[str], queries: set[str]) -> dict[str, dict[str, None]]:
    gold: dict[str, dict[str, None]] = {}
    for query, document, where in qrels:
        for identifier, known, file in (
            (query, queries, "queries.jsonl"),
            (document, documents, "corpus.jsonl"),
        ):
            if identifier not in known:
                raise DataError(
                    f"{where}: got id {identifier!r}, which is not in {file}; expected ids of that file; "
                    "get the files of one release"
                )
        gold.setdefault(query, {})[document] = None
    return gold

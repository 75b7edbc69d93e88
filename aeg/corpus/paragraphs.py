"""What the multi-hop question sets share: their layouts, and gold paragraphs resolved to document ids."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from aeg.core.files import REMEDY, Item, check_unique, expect, read_items
from aeg.core.records import Corpus, Document, Query
from aeg.corpus.base import check_questions
from aeg.corpus.dedup import content_hash, unite
from aeg.errors import DataError

Layout = Literal["folder", "subset", "published"]
NO_GOLD = "questions_without_gold"


@dataclass(frozen=True)
class Sample:
    """One question with the paragraphs that came with it.

    Attributes:
        query: the question, its gold ids not yet known.
        where: its place in the file.
        paragraphs: (title, text) of each paragraph of its context.
        gold: indices of the supporting ones in `paragraphs`.
    """

    query: Query
    where: str
    paragraphs: tuple[tuple[str, str], ...]
    gold: tuple[int, ...]


def find_layout(base: Path, stem: str, pattern: str) -> tuple[Layout, Path]:
    """Return which layout stands at `base`, and the folder or file to read.

    `folder` is the data folder's layout (corpus.json, questions.json), `subset` the one of HippoRAG's papers
    (`{stem}_corpus.json`, `{stem}.json`), `published` a file in the data set's own format: `base` itself, or
    the one file in it that matches `pattern`.

    Raises:
        DataError: if there is none of them, or more than one published file.
    """
    if base.is_file():
        return "published", base
    if any((base / name).exists() for name in ("corpus.json", "questions.json")):
        return "folder", base
    if (base / f"{stem}_corpus.json").exists():
        return "subset", base
    found = sorted(base.glob(pattern)) if base.is_dir() else []
    if len(found) == 1:
        return "published", found[0]
    expected = f"corpus.json and questions.json, or {stem}_corpus.json and {stem}.json, or one file {pattern}"
    if found:
        names = ", ".join(path.name for path in found)
        raise DataError(f"{base}: got {len(found)} files ({names}), expected {expected}; name one file in `path`")
    got = "none of its files" if base.is_dir() else "no such folder or file"
    raise DataError(f"{base}: {got}; expected {expected}; {REMEDY}")


def read_corpus(path: Path, name: str) -> list[Document]:
    """Return the documents of a JSON list of `{title, text}`, with ids `{name}-{row:05d}`."""
    items = read_items(path, "a list of passages (title, text)")
    return [Document(f"{name}-{row:05d}", item.string("text"), item.string("title")) for row, item in enumerate(items)]


def load_folder(folder: Path, name: str, gold: Literal["gold", "gold_titles"]) -> Corpus:
    """Return the corpus of the data folder's layout.

    Args:
        folder: holds corpus.json (title, text) and questions.json (id, question, answer, question_type,
            optional answer_aliases, and the gold).
        name: prefix of the document ids.
        gold: how a question names its gold: `gold`, rows of corpus.json; `gold_titles`, titles that are
            resolved to ids here, once.

    Raises:
        DataError: if a file is missing or malformed, or a gold row or title is unknown or ambiguous.
    """
    documents = read_corpus(folder / "corpus.json", name)
    path = folder / "questions.json"
    items = read_items(path, "a list of questions")
    check_questions(len(items), path)
    check_unique(((item.identifier("id"), item.where) for item in items), "question")
    titles = _by_title(documents)
    counts: Counter[str] = Counter()
    queries = []
    for position, item in enumerate(items):
        if gold == "gold":
            ids = [_row_id(row, documents, item.place(gold)) for row in item.integers(gold)]
        else:
            ids = [_title_id(title, titles, item.place(gold)) for title in item.strings(gold)]
        counts[NO_GOLD] += not ids
        queries.append(
            Query(
                id=item.identifier("id"),
                question=item.string("question", blank=False),
                answer=item.string("answer", default=""),
                aliases=item.strings("answer_aliases", optional=True),
                type=item.string("question_type", default=""),
                gold_doc_ids=tuple(dict.fromkeys(ids)),
                position=position,
            )
        )
    return unite(documents, queries, source=folder, prechunked=True, counts=counts)


def load_contexts(samples: Sequence[Sample], name: str, path: Path, counts: Mapping[str, int]) -> Corpus:
    """Return the union of the samples' contexts, each paragraph once.

    A document's id is `{name}-` and 16 hexadecimal digits of its content hash, and documents are ordered by
    it: in the published files the paragraphs of one question stand together, and neighbourhood would give
    away the gold. Gold is resolved within each question's own context.

    Raises:
        DataError: if there is no question, or a question id comes twice.
    """
    check_questions(len(samples), path)
    check_unique(((sample.query.id, sample.where) for sample in samples), "question")
    pool: dict[str, Document] = {}
    queries = []
    total = Counter(counts)
    for sample in samples:
        ids = []
        for title, text in sample.paragraphs:
            identifier = f"{name}-{content_hash(title, text)[:16]}"
            total["repeated_paragraphs"] += identifier in pool
            pool.setdefault(identifier, Document(identifier, text, title))
            ids.append(identifier)
        total[NO_GOLD] += not sample.gold
        gold = tuple(dict.fromkeys(ids[index] for index in sample.gold))
        queries.append(replace(sample.query, gold_doc_ids=gold))
    documents = [pool[identifier] for identifier in sorted(pool)]
    return unite(documents, queries, source=path, prechunked=True, counts=total)


def load_subset(samples: Sequence[Sample], name: str, corpus: Path, counts: Mapping[str, int]) -> Corpus:
    """Return the corpus of HippoRAG's layout: a corpus file beside questions with their own contexts.

    Each gold paragraph is found in the corpus by its content; where white space or wording differs, by its
    title if only one document has it (counted as `gold_by_title`).

    Raises:
        DataError: if a gold paragraph is in the corpus neither by content nor by an unambiguous title.
    """
    check_questions(len(samples), corpus)
    check_unique(((sample.query.id, sample.where) for sample in samples), "question")
    documents = read_corpus(corpus, name)
    contents: dict[str, str] = {}
    for document in documents:
        contents.setdefault(content_hash(document.title, document.text), document.id)
    titles = _by_title(documents)
    queries = []
    total = Counter(counts)
    for sample in samples:
        ids = []
        for index in sample.gold:
            title, text = sample.paragraphs[index]
            found = contents.get(content_hash(title, text))
            total["gold_by_title"] += found is None
            ids.append(found or _title_id(title, titles, sample.where))
        total[NO_GOLD] += not ids
        queries.append(replace(sample.query, gold_doc_ids=tuple(dict.fromkeys(ids))))
    return unite(documents, queries, source=corpus, prechunked=True, counts=total)


def read_supporting_facts(path: Path, joiner: str) -> list[Sample]:
    """Return the samples of a file in HotpotQA's published format, which 2WikiMultiHopQA shares.

    Fields: `_id`, `question`, `context` ([title, [sentences]] pairs), and where known `answer`, `type`,
    `supporting_facts` ([title, sentence index] pairs).

    Args:
        path: a JSON list.
        joiner: what stands between the sentences of a paragraph.

    Raises:
        DataError: if the file is malformed, or a supporting title is not in the question's own context or
            names two different paragraphs there.
    """
    items = read_items(path, "a list of questions with their contexts")
    return [_supported(item, position, joiner) for position, item in enumerate(items)]


def _supported(item: Item, position: int, joiner: str) -> Sample:
    paragraphs = []
    for title, sentences in item.pairs("context", list):
        where = f"{item.place('context')}, paragraph {title!r}"
        paragraphs.append((title, joiner.join(expect(sentence, str, where) for sentence in sentences)))
    facts = dict.fromkeys(title for title, _ in item.pairs("supporting_facts", int, optional=True))
    query = Query(
        id=item.identifier("_id"),
        question=item.string("question", blank=False),
        answer=item.string("answer", default=""),
        aliases=item.strings("answer_aliases", optional=True),
        type=item.string("type", default=""),
        position=position,
    )
    gold = tuple(_index(title, paragraphs, item.place("supporting_facts")) for title in facts)
    return Sample(query, item.where, tuple(paragraphs), gold)


def _index(title: str, paragraphs: Sequence[tuple[str, str]], where: str) -> int:
    matches = [index for index, paragraph in enumerate(paragraphs) if paragraph[0] == title]
    if not matches:
        raise DataError(
            f"{where}: got title {title!r}, which is not in the question's context; "
            "expected one of its titles; "
            "use a file whose contexts hold the gold, e.g. HotpotQA's distractor setting"
        )
    if len({paragraphs[index] for index in matches}) > 1:
        raise DataError(
            f"{where}: got title {title!r}, which {len(matches)} different paragraphs of the context have; "
            "expected one; rename or remove one of them"
        )
    return matches[0]


def _by_title(documents: Iterable[Document]) -> dict[str, list[Document]]:
    titles: dict[str, list[Document]] = defaultdict(list)
    for document in documents:
        titles[document.title].append(document)
    return titles


def _title_id(title: str, titles: Mapping[str, Sequence[Document]], where: str) -> str:
    found = titles.get(title, ())
    if not found:
        raise DataError(
            f"{where}: got gold title {title!r}, which no document of the corpus has; "
            "expected a title of the corpus; get both files from the same source"
        )
    if len({content_hash(document.title, document.text) for document in found}) > 1:
        ids = ", ".join(document.id for document in found)
        raise DataError(
            f"{where}: got gold title {title!r}, which names {len(found)} different documents ({ids}); "
            "expected one; rename the others or give the gold by row"
        )
    return found[0].id


def _row_id(row: int, documents: Sequence[Document], where: str) -> str:
    if not 0 <= row < len(documents):
        raise DataError(
            f"{where}: got row {row}, expected 0 to {len(documents) - 1} (rows of corpus.json); "
            "get both files from the same source"
        )
    return documents[row].id

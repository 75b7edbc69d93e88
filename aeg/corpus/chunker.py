"""Splitting documents into passages of a fixed number of tokens that overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from aeg.core.records import Corpus, Document, Passage
from aeg.errors import ConfigError, DataError

Spans = Sequence[tuple[int, int]]
TokenSpans = Callable[[list[str]], Sequence[Spans]]

BATCH_TEXTS = 64
BATCH_CHARACTERS = 1_000_000


def chunk(corpus: Corpus, token_spans: TokenSpans, max_tokens: int = 256, overlap: int = 32) -> list[Passage]:
    r"""Return the passages of a corpus, in the order of its documents.

    A document of at most `max_tokens` tokens (or of a prechunked corpus) is one passage, text and id
    unchanged. A longer one is cut into windows of `max_tokens` tokens, each starting `max_tokens - overlap`
    tokens after the one before, the last ending at the last token; their ids are `{document id}#{index}`. A
    passage's text is exactly `document.text[start:end]`.

    Args:
        corpus: the documents.
        token_spans: gives for each text the half-open character spans of its tokens, in order, without
            special tokens; called with bounded batches.
        max_tokens: tokens a passage, at least 1.
        overlap: tokens that neighbouring passages share, 0 <= overlap < max_tokens.

    Raises:
        ConfigError: if `max_tokens` or `overlap` is out of range.
        DataError: if two passages would have the same id.

    Source: section 4.1 (256 tokens, 32 overlapping).

    Example:
        >>> import re
        >>> words = lambda texts: [[m.span() for m in re.finditer(r"\w+", text)] for text in texts]
        >>> corpus = Corpus((Document("d", "Ann owns Bix and Cey"),))
        >>> [(p.id, p.text) for p in chunk(corpus, words, max_tokens=3, overlap=1)]
        [('d#0', 'Ann owns Bix'), ('d#1', 'Bix and Cey')]
    """
    if max_tokens < 1:
        raise ConfigError(f"max_tokens: got {max_tokens}, expected at least 1; the paper uses 256")
    if not 0 <= overlap < max_tokens:
        raise ConfigError(
            f"overlap: got {overlap}, expected 0 <= overlap < max_tokens ({max_tokens}); "
            "lower overlap or raise max_tokens"
        )
    if corpus.prechunked:
        return [_whole(document) for document in corpus.documents]
    passages: list[Passage] = []
    for batch in _batches(corpus.documents):
        spans = token_spans([document.text for document in batch])
        for document, tokens in zip(batch, spans, strict=True):
            passages.extend(_windows(document, tokens, max_tokens, overlap))
    check_ids(passages)
    return passages


def _whole(document: Document) -> Passage:
    return Passage(document.id, document.id, document.text, document.title, 0, len(document.text))


def _windows(document: Document, tokens: Spans, max_tokens: int, overlap: int) -> Iterator[Passage]:
    if len(tokens) <= max_tokens:
        yield _whole(document)
        return
    starts = range(0, len(tokens) - overlap, max_tokens - overlap)
    for index, first in enumerate(starts):
        last = min(first + max_tokens, len(tokens)) - 1
        start, end = tokens[first][0], tokens[last][1]
        yield Passage(f"{document.id}#{index}", document.id, document.text[start:end], document.title, start, end)


def _batches(documents: Sequence[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        if batch and (len(batch) == BATCH_TEXTS or size + len(document.text) > BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += len(document.text)
    if batch:
        yield batch


def check_ids(passages: Sequence[Passage]) -> None:
    """Check that no two documents have passages of one id.

    Raises:
        DataError: if they have.
    """
    owner: dict[str, str] = {}
    for passage in passages:
        if owner.setdefault(passage.id, passage.doc_id) != passage.doc_id:
            raise DataError(
                f"passage id {passage.id!r} comes from documents {owner[passage.id]!r} and "
                f"{passage.doc_id!r}; expected distinct ids; "
                "rename the document whose id ends in '#' and a number"
            )

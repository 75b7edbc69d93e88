"""Entity mentions of effective queries: as recorded, or found by a spaCy pipeline."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aeg.backends.nlp import NUMERIC_LABELS, load_pipeline, pipeline_version
from aeg.config.ranges import param
from aeg.core.files import BUILTIN
from aeg.core.keys import atom_text, canonical_key
from aeg.core.lexicon import FUNCTION_WORDS, word_spans
from aeg.core.matching import KeyedText, distinct
from aeg.core.records import EffectiveQuery, Query
from aeg.query.analysis import locate, read_analyses
from aeg.query.base import MENTIONS, MentionExtractor

if TYPE_CHECKING:
    from aeg.backends.llm import Asker

_EDGE_TAGS = frozenset({"DET", "PRON", "PUNCT", "SPACE", "PART", "CCONJ", "ADP", "AUX"})
_QUOTED = re.compile(
    r"[\"“„«「『]([^\"“”„«»「」『』]*)[\"”“»」』]"
    r"|(?<!\w)[‘']((?:[^‘’'\s]|(?<=\w)['’](?=\w))(?:[^‘’']|(?<=\w)['’](?=\w))*)[’'](?!\w)"
)


@MENTIONS.register("question")
@dataclass(frozen=True)
class QuestionMentions(MentionExtractor):
    """Takes the text of each effective query as its one mention; needs no pipeline and no model.

    Example:
        >>> QuestionMentions().mentions([EffectiveQuery(0, "Who leads Tarn Lab?")], [Query("1", "Who leads Tarn Lab?")])
        [('Who leads Tarn Lab?',)]
    """

    def mentions(
        self,
        effective: Sequence[EffectiveQuery],
        queries: Sequence[Query],
        root: Path | None = None,
        llm: Asker | None = None,
    ) -> list[tuple[str, ...]]:
        """Return the text of each effective query."""
        return [(item.text,) for item in effective]


@MENTIONS.register("recorded")
@dataclass(frozen=True)
class RecordedMentions(MentionExtractor):
    """Takes a question's entities from a file, as a language model gave them.

    A sub-question has those of its question's entities whose canonical key stands in it on word boundaries.

    Attributes:
        path: JSON lines with `id`, `complexity`, `entities`, `sub_questions`, relative to `data_root`, or
            `builtin:sample`.
        missing: a question without a line is an `error`, or has `none` (no mentions).
    """

    path: str = BUILTIN
    missing: str = param("error", choices=("error", "none"))

    def mentions(
        self,
        effective: Sequence[EffectiveQuery],
        queries: Sequence[Query],
        root: Path | None = None,
        llm: Asker | None = None,
    ) -> list[tuple[str, ...]]:
        """Return the mentions of each effective query, distinct by canonical key, in the file's order.

        Raises:
            DataError: if the file is missing or malformed, or (with `missing: error`) lacks a question.
        """
        analyses = read_analyses(locate(root, self.path)).of(queries, self.missing)
        found = []
        for item in effective:
            names = distinct(analyses[item.query].entities)
            if item.text != queries[item.query].question:
                text = KeyedText(item.text)
                names = tuple(name for name in names if text.mentions(name))
            found.append(names)
        return found

    def counts(self, queries: Sequence[Query], root: Path | None = None) -> Counter[str]:
        """Return `missing_questions`, `unknown_ids` and ignored fields of the file, for the manifest."""
        return read_analyses(locate(root, self.path)).coverage(queries)

    def source_files(self, root: Path | None) -> list[Path]:
        """Return the file of analyses."""
        return [locate(root, self.path)]


@MENTIONS.register("syntactic")
@dataclass(frozen=True)
class SyntacticMentions(MentionExtractor):
    """Finds named entities, noun chunks and quoted strings with a spaCy pipeline; no language model.

    Attributes:
        pipeline: a package that ships a spaCy pipeline; `auto` takes the English one that is installed.
        named_entities: whether named entities are mentions.
        chunks: `proper`: of each noun chunk the stretch from its first to its last proper noun; `all`: whole
            chunks without determiners; `whole`: chunks as they stand, pronouns left out; `none`.
        numbers: whether dates, amounts and other numbers are mentions.
        batch_size: texts a pipeline call.
    """

    pipeline: str = "auto"
    named_entities: bool = True
    chunks: str = param("proper", choices=("proper", "all", "whole", "none"))
    numbers: bool = False
    batch_size: int = param(128, ge=1)

    def mentions(
        self,
        effective: Sequence[EffectiveQuery],
        queries: Sequence[Query],
        root: Path | None = None,
        llm: Asker | None = None,
    ) -> list[tuple[str, ...]]:
        """Return the mentions of each effective query, distinct by canonical key, by their place in the text.

        Raises:
            DependencyError: if spaCy or the pipeline is not installed.
        """
        texts = sorted({item.text for item in effective})
        if not texts:
            return []
        nlp = load_pipeline(self.pipeline)
        docs = nlp.pipe(texts, batch_size=self.batch_size)
        found = {text: self._of(doc) for text, doc in zip(texts, docs, strict=True)}
        return [found[item.text] for item in effective]

    def models(self) -> list[str]:
        """Return the pipeline and its version."""
        return [pipeline_version(self.pipeline)]

    def _of(self, doc: Any) -> tuple[str, ...]:
        entities = doc.ents if self.named_entities else ()
        spans = [(ent.start, ent.end) for ent in entities if self.numbers or ent.label_ not in NUMERIC_LABELS]
        if self.chunks in ("proper", "all"):
            spans += [_chunk(doc, chunk.start, chunk.end, self.chunks == "proper") for chunk in doc.noun_chunks]
        places = [
            (doc[start].idx, doc[start:end].text)
            for start, end in (_trimmed(doc, start, end) for start, end in spans)
            if start < end and _names(doc[start:end], self.numbers)
        ]
        if self.chunks == "whole":
            places += [(chunk.start_char, chunk.text) for chunk in doc.noun_chunks if chunk.root.pos_ != "PRON"]
        places += quoted(doc.text)
        return distinct(atom_text(name) for _, name in sorted(places, key=lambda place: (place[0], -len(place[1]))))


def quoted(text: str) -> list[tuple[int, str]]:
    """Return (start, content) of the quoted strings of `text` that hold a word; apostrophes are no quotes.

    Example:
        >>> quoted("Who sang “Ann's Song” or 'It's Late' in Ann's house?")
        [(10, "Ann's Song"), (26, "It's Late")]
    """
    found = []
    for match in _QUOTED.finditer(text):
        group = match.lastindex or 0
        if word_spans(match[group]):
            found.append((match.start(group), match[group]))
    return found


def _chunk(doc: Any, start: int, end: int, proper: bool) -> tuple[int, int]:
    if not proper:
        return start, end
    found = [index for index in range(start, end) if doc[index].pos_ == "PROPN"]
    return (found[0], found[-1] + 1) if found else (start, start)


def _trimmed(doc: Any, start: int, end: int) -> tuple[int, int]:
    while start < end and (doc[start].pos_ in _EDGE_TAGS or doc[start].lower_ == "the"):
        start += 1
    while end > start and doc[end - 1].pos_ in _EDGE_TAGS:
        end -= 1
    return start, end


def _names(span: Any, numbers: bool) -> bool:
    key = canonical_key(span.text)
    if not key or key in FUNCTION_WORDS:
        return False
    return numbers or not all(token.like_num or token.pos_ == "NUM" or not token.text.isalnum() for token in span)

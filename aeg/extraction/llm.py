"""Extraction by a language model: two calls a passage (paper, section 3.1 and Appendix E)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from aeg.backends.llm.asker import Answer, Ask, Asker
from aeg.config.ranges import param
from aeg.core.matching import distinct
from aeg.core.records import Extraction, Passage
from aeg.errors import ConfigError
from aeg.extraction.base import EXTRACTORS, Extractor
from aeg.extraction.pieces import Part, Piece, merged
from aeg.extraction.replies import EntitiesReply, KnowledgeReply, check_entities, check_knowledge

NER, KNOWLEDGE = "ner", "triples_atoms"


@EXTRACTORS.register("llm")
@dataclass(frozen=True)
class LlmExtractor(Extractor):
    """Asks a language model for a passage's entities, then, with these, for its triples and atoms.

    All passages' first calls go out together, then all second calls, so that a batch backend needs two batches.
    A passage that is longer than the model's context is cut between two sentences near its middle, as often as it
    takes, and each part gets its own two calls. Statuses: `ok`; `empty` for a blank passage, which costs no call;
    `no_entities`; `quarantined` where the model gave no whole reply on the passage or on a part of it (what there is
    stays). What was
    mapped, dropped or split stands in `Extraction.counts`; see `aeg.extraction.pieces.merged`.

    Attributes:
        entities_max_tokens: completion tokens of the first call at most.
        max_tokens: completion tokens of the second call at most.

    Source: section 3.1; Appendix E, figures 7 and 8.

    Example:
        >>> EXTRACTORS.make("llm").prompts
        ('ner', 'triples_atoms')
    """

    role: ClassVar[str] = "extractor"
    prompts: ClassVar[tuple[str, ...]] = (NER, KNOWLEDGE)

    entities_max_tokens: int = param(1024, ge=1)
    max_tokens: int = param(2048, ge=1)

    def extract(
        self, passages: Sequence[Passage], root: Path | None = None, workers: int = 0, llm: Asker | None = None
    ) -> Iterator[Extraction]:
        """Return an iterator over one extraction a passage, in order, each as soon as all before it are there.

        Args:
            passages: the passages, or the rest of them.
            root: not used.
            workers: not used; the backend has its own concurrency.
            llm: the model to ask.

        Raises:
            ConfigError: if `llm` is None.
            AegError: what concerns all requests (no key, a batch that is pending, the budget spent).
        """
        if llm is None:
            raise ConfigError("extraction 'llm' needs a model: set llm.extractor")
        return _Run(self, passages, llm).extractions()


class _Run:
    """One extraction under way: what was said of each passage so far, and what is still to be asked."""

    def __init__(self, method: LlmExtractor, passages: Sequence[Passage], llm: Asker) -> None:
        self.method = method
        self.passages = passages
        self.llm = llm
        self.parts: defaultdict[int, list[Part]] = defaultdict(list)
        self.waiting = [Piece(row, 0, len(p.text)) for row, p in enumerate(passages) if p.text.strip()]
        self.open = Counter(piece.row for piece in self.waiting)  # pieces of each passage without a part
        self.next = 0  # row of the first passage that was not yielded

    def extractions(self) -> Iterator[Extraction]:
        """Yield the extractions; each round asks about pieces that came out of splitting in the one before."""
        yield from self._ready()
        while self.waiting:
            named = self._entities()
            asks = [self._knowledge_ask(part) for part in named]
            with self.llm.ledger.timed(KNOWLEDGE), closing(self.llm.stream(asks)) as answers:
                for at, answer in answers:
                    if answer.value is None:
                        self._failed(named[at].piece, asks[at], answer)
                    else:
                        partial = named[at].partial or answer.partial
                        self._settle(replace(named[at], knowledge=answer.value, partial=partial))
                    yield from self._ready()
            yield from self._ready()

    def _entities(self) -> list[Part]:
        """Ask for the entities of all waiting pieces, and of their halves where they are too long."""
        named: list[Part] = []
        while self.waiting:
            pieces, self.waiting = self.waiting, []
            asks = [self._entities_ask(piece) for piece in pieces]
            for piece, ask, answer in zip(pieces, asks, self.llm.ask(asks), strict=True):
                if answer.value is None:
                    self._failed(piece, ask, answer)
                else:
                    found = answer.value
                    named.append(Part(piece, tuple(found.entities), None, found.malformed, answer.partial))
        return sorted(named, key=lambda part: (part.piece.row, part.piece.start))

    def _failed(self, piece: Piece, ask: Ask, answer: Answer) -> None:
        """Split a piece that is too long; keep any other without what it holds."""
        if answer.failure is not None and answer.failure.kind == "context_length":
            halves = piece.halves(self.passages[piece.row].text)
            if halves is not None:
                self.open[piece.row] += 1
                self.waiting.extend(halves)
                return
            self.llm.quarantine(ask, answer.failure)
        self._settle(Part(piece))

    def _settle(self, part: Part) -> None:
        self.parts[part.piece.row].append(part)
        self.open[part.piece.row] -= 1

    def _ready(self) -> Iterator[Extraction]:
        """Yield what is complete, up to the first passage that is not."""
        while self.next < len(self.passages) and not self.open[self.next]:
            passage, parts = self.passages[self.next], self.parts.pop(self.next, None)
            self.next += 1
            yield merged(passage, parts) if parts else Extraction(passage.id, status="empty")

    def _entities_ask(self, piece: Piece) -> Ask:
        values, subject = self._values(piece)
        prompt = self.llm.prompt(NER)
        return Ask(prompt, values, subject, EntitiesReply, check_entities, self.method.entities_max_tokens)

    def _knowledge_ask(self, part: Part) -> Ask:
        values, subject = self._values(part.piece)
        values["entities"] = json.dumps(distinct(part.names), ensure_ascii=False)
        prompt = self.llm.prompt(KNOWLEDGE)
        return Ask(prompt, values, subject, KnowledgeReply, check_knowledge, self.method.max_tokens)

    def _values(self, piece: Piece) -> tuple[dict[str, str], str]:
        passage = self.passages[piece.row]
        whole = (piece.start, piece.end) == (0, len(passage.text))
        subject = passage.id if whole else f"{passage.id}[{piece.start}:{piece.end}]"
        return {"title": passage.title, "passage": passage.text[piece.start : piece.end].strip()}, subject

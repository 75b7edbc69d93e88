"""The stages from a corpus to a graph, each cached by a fingerprint of what goes in."""

from __future__ import annotations

import dataclasses
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from aeg import graph as graph_stage
from aeg.artifacts import Artifact, Store, code_hash, file_hash, fingerprint, write_text
from aeg.backends.device import choose_device
from aeg.backends.llm.asker import Asker
from aeg.config.load import data_root
from aeg.config.schema import ExperimentConfig
from aeg.core.progress import progress
from aeg.core.records import Corpus, EffectiveQuery, ExtractedAtom, Extraction, Passage, Query
from aeg.corpus import chunk
from aeg.corpus.base import CorpusLoader
from aeg.errors import DataError
from aeg.evaluation import AccuracyMeasure
from aeg.extraction import described, statistics
from aeg.graph import AtomEntityGraph
from aeg.pipeline.accounts import CONSTRUCTION, DECOMPOSITION, Accounts, Watch, added
from aeg.pipeline.asking import Askers
from aeg.pipeline.keeping import identity, json_line, keep, read_lines
from aeg.pipeline.memory import check_stored
from aeg.pipeline.methods import Methods, resolve

Report = Callable[[str], None]
Advanced = Callable[[int, int], None]


def _silent(_: str) -> None:
    """Report nothing."""


def _unwatched(_: int, __: int) -> None:
    """Count nothing."""


@dataclass(eq=False)
class Pipeline:
    """The stages of one experiment, run in the order in which their results are asked for.

    Attributes:
        config: the experiment.
        report: called with a line a stage, for progress.
        read_only: nothing is cached on disk (an index that is only queried).
        asker: what asks the language models; `aeg.pipeline.estimating.Estimator` only says what it would ask.
        counts: what stages skipped, repaired or failed, by stage, for the manifest.
        advanced: called with the questions that all methods have ranked, and how many there are, block by block.
    """

    config: ExperimentConfig
    report: Report = _silent
    read_only: bool = False
    asker: type[Asker] = Asker
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    advanced: Advanced = _unwatched

    @cached_property
    def methods(self) -> Methods:
        """The config's methods; asking for them checks the config."""
        return resolve(self.config)

    @cached_property
    def root(self) -> Path | None:
        """The folder of the data."""
        return data_root(self.config)

    @cached_property
    def store(self) -> Store:
        """The artifacts."""
        return Store(Path(self.config.artifacts_dir).expanduser())

    @cached_property
    def device(self) -> torch.device:
        """The device everything runs on."""
        device, why = choose_device(self.config.device)
        self.report(f"device: {device} ({why})")
        return device

    @cached_property
    def encoder(self) -> Any:
        """The retriever's encoder, loaded on first use."""
        return self.methods.encoder.load(self.device, None if self.read_only else self.store.root)

    @cached_property
    def judge(self) -> Any:
        """The fixed encoder of evidence similarity; the retriever's own where the two are the same."""
        if self.methods.judge == self.methods.encoder:
            return self.encoder
        return self.methods.judge.load(self.device, self.store.root)

    @cached_property
    def askers(self) -> Askers:
        """The language models; nothing is sent before something is asked."""
        folder = None if self.read_only else self.store.root / "llm"
        return Askers(self.methods.models, self.config.llm, folder, self.root, self.asker)

    @cached_property
    def accounts(self) -> Accounts:
        """What each module took so far."""
        return Accounts(self.askers.ledger)

    def prompts(self) -> dict[str, str]:
        """Return the hash of each prompt that methods of this experiment use, for the manifest."""
        methods = self.methods
        chosen = (methods.extraction, methods.decomposition, methods.mentions, methods.sieve, methods.answer)
        asked = [self.askers.identity(method) for method in chosen if method.role in methods.models]
        if "judge" in methods.models:
            asked.append(self.askers.role("judge").identity(*AccuracyMeasure.prompts))
        return {name: digest for told in asked if told for name, digest in told["prompts"].items()}

    def claimed(self, artifact: Artifact) -> AbstractContextManager[None]:
        """Return a block in which nobody else makes the artifact; an estimate makes none, and waits for nobody."""
        return artifact.claimed(self.report) if self.asker is Asker else nullcontext()

    def finished(self, stage: str, watch: Watch) -> bool:
        """Tell whether every reply that a stage needed was usable; what was not is reported."""
        lost = watch.unusable()
        if lost and self.asker is Asker:
            self.report(
                f"{stage}: {lost:,} replies of the language model were no use; the next run asks for them again"
            )
        return not lost

    def close(self) -> None:
        """Close the language models, if any was asked."""
        if "askers" in self.__dict__:
            self.askers.close()

    @property
    def workers(self) -> int:
        """Processes for extraction."""
        return self.config.workers or len(os.sched_getaffinity(0))

    def corpus(self, loader: CorpusLoader) -> Corpus:
        """Load a corpus and draw its sample of questions, ordered by id."""
        found = loader.load(self.root)
        chosen = half(found.queries, self.config.questions)
        queries = sample(chosen, self.config.num_questions, self.config.sample_seed)
        self.counts["corpus"] = dict(found.counts)
        self.report(f"corpus: {len(found.documents):,} documents, {len(queries):,} questions")
        return dataclasses.replace(found, queries=queries)

    def passages(self, corpus: Corpus) -> list[Passage]:
        """Cut the documents into passages, ordered by document id and start."""
        size = self.config.chunk
        cut = chunk(corpus, self.encoder.token_spans, size.max_tokens, size.overlap)
        self.report(f"passages: {len(cut):,}")
        return sorted(cut, key=lambda passage: (passage.doc_id, passage.start))

    def extraction(self, passages: Sequence[Passage]) -> tuple[list[Extraction], str]:
        """Extract from all passages, journalled, and return the extractions and a fingerprint of their content."""
        return self._extracted(passages, self._extraction_artifact(passages_fingerprint(passages)))

    def _extracted(self, passages: Sequence[Passage], artifact: Artifact) -> tuple[list[Extraction], str]:
        with self.claimed(artifact):
            file = artifact.path / (EXTRACTION if artifact.complete or self.asker is Asker else _ESTIMATED)
            if artifact.complete:
                facts = artifact.facts()
                self.accounts.reuse(CONSTRUCTION, artifact.fingerprint, facts["usage"], facts["seconds"])
            else:
                _extract(self, artifact, passages, file)
        found = [_as_extraction(record) for record in read_lines(file)]
        self.counts["extraction"] = {**statistics(found), **self.methods.extraction.counts(passages, self.root)}
        self.report(f"extraction: {described(found)}")
        return found, file_hash(file)

    def graph(self, passages: Sequence[Passage]) -> tuple[AtomEntityGraph, str]:
        """Build or load the graph over the passages, and return it with the artifact's fingerprint."""
        with self.accounts.module(CONSTRUCTION):
            return self._graph(passages)

    def _graph(self, passages: Sequence[Passage]) -> tuple[AtomEntityGraph, str]:
        name = passages_fingerprint(passages)
        extractions, content = self._extracted(passages, self._extraction_artifact(name))
        started = time.perf_counter()
        artifact = self._graph_artifact(name, content)
        with self.claimed(artifact):
            if artifact.complete:
                check_stored(artifact.path)
                built = graph_stage.load(artifact.path)
                self.accounts.reuse(CONSTRUCTION, artifact.fingerprint, {"rows": []}, artifact.facts()["seconds"])
            else:
                built = graph_stage.build(passages, extractions, self.config.graph, self.encoder, self.device)
                graph_stage.save(built, artifact.path)
                self.accounts.made(artifact.fingerprint)
                artifact.finish(counts=dict(built.counts), seconds=time.perf_counter() - started)
        self.counts["graph"] = dict(built.counts)
        self.report(f"graph: {len(built.atoms):,} atoms, {len(built.entities):,} entities")
        return built, artifact.fingerprint

    def built(self, passages: Sequence[Passage]) -> bool:
        """Tell whether extraction and graph are there already."""
        name = passages_fingerprint(passages)
        extraction = self._extraction_artifact(name)
        return extraction.complete and self._graph_artifact(name, file_hash(extraction.path / EXTRACTION)).complete

    def _extraction_artifact(self, passages: str) -> Artifact:
        method = self.methods.extraction
        return self.store.artifact(
            "extraction",
            passages=passages,
            **identity(self, method),
            code=code_hash(method),
        )

    def _graph_artifact(self, passages: str, content: str) -> Artifact:
        return self.store.artifact(
            "graph",
            passages=passages,
            extraction=content,
            encoder=self.encoder.fingerprint,
            config=dataclasses.asdict(self.config.graph),
            code=code_hash(graph_stage.graph, graph_stage.storage),
        )

    def effective(self, queries: Sequence[Query]) -> list[EffectiveQuery]:
        """Decompose the questions and find the mentions of each effective query (cached)."""
        with self.accounts.module(DECOMPOSITION):
            kept = keep(
                self,
                "queries",
                [self.methods.decomposition, *([self.methods.mentions] if self.methods.linking.needs_mentions else [])],
                lambda: self._effective(queries),
                queries=fingerprint([(query.id, query.question) for query in queries]),
            )
        self.counts["queries"] = dict(kept.counts)
        return [EffectiveQuery(r["query"], r["text"], tuple(r["mentions"])) for r in kept.records]

    def _effective(self, queries: Sequence[Query]) -> tuple[list[dict[str, Any]], dict[str, int]]:
        decomposition, mentions, watch = self.methods.decomposition, self.methods.mentions, self.accounts.watch()
        found = decomposition.decompose(queries, self.root, **self.askers.to(decomposition))
        counts = {f"decomposition.{name}": n for name, n in decomposition.counts(queries, self.root).items()}
        if self.methods.linking.needs_mentions:
            names = mentions.mentions(found, queries, self.root, **self.askers.to(mentions))
            found = [dataclasses.replace(e, mentions=m) for e, m in zip(found, names, strict=True)]
            counts |= {f"mentions.{name}": n for name, n in mentions.counts(queries, self.root).items()}
        for row in watch.usage()["rows"]:
            counts |= {f"{row['task']}.{name}": n for name, n in row["counts"].items()}
        return [dataclasses.asdict(item) for item in found], counts


EXTRACTION = "extraction.jsonl"
_ESTIMATED = "estimated.jsonl"


def half(queries: Sequence[Query], which: str) -> tuple[Query, ...]:
    """Return all questions, or those at even or odd places of their file (of this list where there is no file).

    Args:
        queries: the questions of one corpus, in the loader's order.
        which: `all`, `even` or `odd`.

    Example:
        >>> [q.id for q in half([Query("c", "?"), Query("a", "?"), Query("b", "?")], "even")]
        ['c', 'b']
    """
    if which == "all":
        return tuple(queries)
    places = (at if query.position is None else query.position for at, query in enumerate(queries))
    return tuple(query for query, place in zip(queries, places, strict=True) if place % 2 == (which == "odd"))


def sample(queries: Sequence[Query], size: int | None, seed: int) -> tuple[Query, ...]:
    """Return the questions ordered by id: all, or a random sample that `seed` alone decides.

    Raises:
        DataError: if more questions are asked for than there are.

    Example:
        >>> [q.id for q in sample([Query("b", "?"), Query("a", "?")], None, 0)]
        ['a', 'b']
    """
    ordered = sorted(queries, key=lambda query: query.id)
    if size is None:
        return tuple(ordered)
    if size > len(ordered):
        raise DataError(f"num_questions: got {size}, the corpus has {len(ordered)} of them; lower it or set it to null")
    chosen = sorted(random.Random(seed).sample(range(len(ordered)), size))
    return tuple(ordered[at] for at in chosen)


def passages_fingerprint(passages: Sequence[Passage]) -> str:
    """Return a fingerprint of the passages' content."""
    return fingerprint([dataclasses.astuple(passage) for passage in passages])


def _extract(pipeline: Pipeline, artifact: Artifact, passages: Sequence[Passage], file: Path) -> None:
    """Extract what no journal holds yet and write all in order; then finish, unless a model gave no usable reply."""
    method, started, watch = pipeline.methods.extraction, time.perf_counter(), pipeline.accounts.watch()
    journals = list(artifact.journals())
    known = {record["key"]: record["extraction"] for records in journals for record in records}
    earlier = added([records[-1]["usage"] for records in journals if records and "usage" in records[-1]])
    pipeline.accounts.reuse(CONSTRUCTION, artifact.fingerprint, earlier)
    content = {passage.id: passages_fingerprint([passage]) for passage in passages}
    rest = [passage for passage in passages if content[passage.id] not in known]
    if rest:
        with artifact.journal().open("a", encoding="utf-8") as journal:
            found = method.extract(rest, pipeline.root, pipeline.workers, **pipeline.askers.to(method))
            for passage, extraction in zip(rest, progress(found, len(rest), "extraction"), strict=True):
                record = {"key": content[passage.id], "extraction": dataclasses.asdict(extraction)}
                known[record["key"]] = record["extraction"]
                if extraction.status != "quarantined" and not watch.estimated():
                    journal.write(json_line(record | ({"usage": watch.usage()} if method.role else {})))
                    journal.flush()
    records = [known[content[passage.id]] for passage in passages]
    write_text(file, "".join(json_line(record) for record in records))
    if pipeline.finished("extraction", watch):
        usage = added([earlier, watch.usage()])
        artifact.finish(usage=usage, seconds=time.perf_counter() - started)
        artifact.drop_journals()


def _as_extraction(record: dict[str, Any]) -> Extraction:
    atoms = tuple(ExtractedAtom(**{**atom, "entities": tuple(atom["entities"])}) for atom in record["atoms"])
    triples = tuple((s, r, o) for s, r, o in record["triples"])
    return Extraction(**{**record, "entities": tuple(record["entities"]), "triples": triples, "atoms": atoms})

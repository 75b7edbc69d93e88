"""The stages from a corpus to a graph, each cached by a fingerprint of what goes in."""

from __future__ import annotations

import dataclasses
import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from aeg import graph as graph_stage
from aeg.artifacts import Artifact, Store, code_hash, file_hash, fingerprint, write_text
from aeg.backends.device import resolve_device
from aeg.config.load import data_root
from aeg.config.schema import ExperimentConfig
from aeg.core.progress import progress
from aeg.core.records import Corpus, EffectiveQuery, ExtractedAtom, Extraction, Passage, Query
from aeg.corpus import chunk
from aeg.corpus.base import CorpusLoader
from aeg.errors import DataError
from aeg.extraction.base import Extractor
from aeg.graph import AtomEntityGraph
from aeg.pipeline.methods import Methods, resolve

Report = Callable[[str], None]


def _silent(_: str) -> None:
    """Report nothing."""


@dataclass(eq=False)
class Pipeline:
    """The stages of one experiment, run in the order in which their results are asked for.

    Attributes:
        config: the experiment.
        report: called with a line a stage, for progress.
        read_only: nothing is cached on disk (an index that is only queried).
        counts: what stages skipped, repaired or failed, by stage, for the manifest.
    """

    config: ExperimentConfig
    report: Report = _silent
    read_only: bool = False
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

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
        device = resolve_device(self.config.device)
        self.report(f"device: {device} ({'as configured' if self.config.device != 'auto' else 'chosen by auto'})")
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

    @property
    def workers(self) -> int:
        """Processes for extraction."""
        return self.config.workers or len(os.sched_getaffinity(0))

    def corpus(self, loader: CorpusLoader) -> Corpus:
        """Load a corpus and draw its sample of questions, ordered by id."""
        found = loader.load(self.root)
        queries = sample(found.queries, self.config.num_questions, self.config.sample_seed)
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
        """Extract from all passages, journalled, and return the extractions and the artifact's fingerprint."""
        method = self.methods.extraction
        artifact = self.store.artifact(
            "extraction",
            passages=passages_fingerprint(passages),
            method=spec(method),
            files=[file_hash(path) for path in method.source_files(self.root)],
            models=method.models(),
            code=code_hash(method),
        )
        if not artifact.complete:
            _extract(artifact, method, passages, self.root, self.workers)
        found = [_as_extraction(json.loads(line)) for line in _lines(artifact.path / EXTRACTION)]
        self.counts["extraction"] = artifact.facts()["counts"]
        self.report(
            f"extraction: {sum(len(f.atoms) for f in found):,} atoms, {sum(len(f.triples) for f in found):,} triples"
        )
        return found, artifact.fingerprint

    def graph(self, passages: Sequence[Passage]) -> tuple[AtomEntityGraph, str]:
        """Build or load the graph over the passages, and return it with the artifact's fingerprint."""
        extractions, extraction = self.extraction(passages)
        artifact = self.store.artifact(
            "graph",
            extraction=extraction,
            encoder=self.encoder.fingerprint,
            config=dataclasses.asdict(self.config.graph),
            code=code_hash(graph_stage.graph, graph_stage.storage),
        )
        if artifact.complete:
            built = graph_stage.load(artifact.path)
        else:
            built = graph_stage.build(passages, extractions, self.config.graph, self.encoder, self.device)
            graph_stage.save(built, artifact.path)
            artifact.finish(counts=dict(built.counts))
        self.counts["graph"] = dict(built.counts)
        self.report(f"graph: {len(built.atoms):,} atoms, {len(built.entities):,} entities")
        return built, artifact.fingerprint

    def effective(self, queries: Sequence[Query]) -> list[EffectiveQuery]:
        """Decompose the questions and find the mentions of each effective query (cached)."""
        decomposition, mentions = self.methods.decomposition, self.methods.mentions
        asked: list[Any] = [decomposition, *([mentions] if self.methods.linking.needs_mentions else [])]
        if self.read_only:
            return self._effective(queries)[0]
        artifact = self.store.artifact(
            "queries",
            queries=fingerprint([(query.id, query.question) for query in queries]),
            methods=[spec(method) for method in asked],
            files=[file_hash(path) for method in asked for path in method.source_files(self.root)],
            models=[model for method in asked for model in method.models()],
            code=code_hash(*asked),
        )
        file = artifact.path / "effective.jsonl"
        if not artifact.complete:
            found, counts = self._effective(queries)
            write_text(file, "".join(_json_line(dataclasses.asdict(item)) for item in found))
            artifact.finish(counts=counts)
        self.counts["queries"] = artifact.facts()["counts"]
        records = [json.loads(line) for line in _lines(file)]
        return [EffectiveQuery(r["query"], r["text"], tuple(r["mentions"])) for r in records]

    def _effective(self, queries: Sequence[Query]) -> tuple[list[EffectiveQuery], dict[str, int]]:
        decomposition, mentions = self.methods.decomposition, self.methods.mentions
        found = decomposition.decompose(queries, self.root)
        counts = {f"decomposition.{name}": n for name, n in decomposition.counts(queries, self.root).items()}
        if self.methods.linking.needs_mentions:
            names = mentions.mentions(found, queries, self.root)
            found = [dataclasses.replace(e, mentions=m) for e, m in zip(found, names, strict=True)]
            counts |= {f"mentions.{name}": n for name, n in mentions.counts(queries, self.root).items()}
        return found, counts


EXTRACTION = "extraction.jsonl"


def spec(method: Any) -> dict[str, Any]:
    """Return a method as plain values: its class and its parameters, paths left out (files are hashed)."""
    params = {f.name: getattr(method, f.name) for f in dataclasses.fields(method) if f.name != "path"}
    return {"class": type(method).__qualname__, **params}


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
        raise DataError(f"num_questions: got {size}, the corpus has {len(ordered)}; lower it or set it to null")
    chosen = sorted(random.Random(seed).sample(range(len(ordered)), size))
    return tuple(ordered[at] for at in chosen)


def passages_fingerprint(passages: Sequence[Passage]) -> str:
    """Return a fingerprint of the passages' content."""
    return fingerprint([dataclasses.astuple(passage) for passage in passages])


def _extract(
    artifact: Artifact, method: Extractor, passages: Sequence[Passage], root: Path | None, workers: int
) -> None:
    """Extract what no journal holds yet, write all in order, then drop the journals."""
    known = {record["key"]: record["extraction"] for record in artifact.journalled()}
    content = {passage.id: passages_fingerprint([passage]) for passage in passages}
    rest = [passage for passage in passages if content[passage.id] not in known]
    if rest:
        with artifact.journal().open("a", encoding="utf-8") as journal:
            found = method.extract(rest, root, workers)
            for passage, extraction in zip(rest, progress(found, len(rest), "extraction"), strict=True):
                record = dataclasses.asdict(extraction)
                known[content[passage.id]] = record
                journal.write(_json_line({"key": content[passage.id], "extraction": record}))
                journal.flush()
    records = [known[content[passage.id]] for passage in passages]
    write_text(artifact.path / EXTRACTION, "".join(_json_line(record) for record in records))
    artifact.finish(counts=dict(method.counts(passages, root)))
    artifact.drop_journals()


def _as_extraction(record: dict[str, Any]) -> Extraction:
    atoms = tuple(ExtractedAtom(**{**atom, "entities": tuple(atom["entities"])}) for atom in record["atoms"])
    triples = tuple((s, r, o) for s, r, o in record["triples"])
    return Extraction(record["passage_id"], tuple(record["entities"]), triples, atoms, record["status"])


def _json_line(record: Any) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]

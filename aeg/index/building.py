"""Making a generation of an index: the graph of a set of documents, with what the generation before tells of it."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aeg import graph as graph_stage
from aeg.artifacts import code_hash, fingerprint, read_json
from aeg.config.load import to_plain
from aeg.config.schema import ExperimentConfig
from aeg.core.records import Corpus, Document, Extraction, Passage
from aeg.corpus import chunk
from aeg.corpus.chunker import check_ids
from aeg.extraction.statistics import Tally, summary
from aeg.graph import AtomEntityGraph
from aeg.index.documents import exact_hash, load_documents, save_documents
from aeg.index.extracting import Extractions, extraction_inputs
from aeg.index.layout import FORMAT, GENERATIONS, MANIFEST, View, making, write_manifest
from aeg.pipeline.accounts import CONSTRUCTION
from aeg.pipeline.stages import Pipeline

_PLACES = ("artifacts_dir", "run_dir", "data_root", "corpus", "num_questions", "name", "workers", "tracking")
_WHOLE = "each document whole"


@dataclass(frozen=True)
class Before:
    """The generation before, as far as it is of use."""

    folder: Path
    documents: Mapping[str, Document]
    manifest: Mapping[str, Any]
    graph: AtomEntityGraph

    @classmethod
    def load(cls, view: View) -> Before:
        """Read the current generation.

        Raises:
            DataError: if a file is missing or damaged.
        """
        graph = graph_stage.load(view.path, cut=True)
        return cls(view.path, load_documents(view.path), read_json(view.path / MANIFEST), graph)


@dataclass
class Made:
    """A generation that was made.

    Attributes:
        name: of the generation.
        reused: whether it was there already.
        seconds: wall time by stage.
        counts: of extraction and graph.
    """

    name: str
    reused: bool = False
    seconds: Counter[str] = field(default_factory=Counter)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Book the block's wall time to a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - started  # type: ignore[assignment]


def generation_name(pipeline: Pipeline, documents: Mapping[str, Document], prechunked: bool) -> str:
    """Return the name of the generation of a set of documents: a fingerprint of all that decides what it holds."""
    hashes = [[name, exact_hash(document)] for name, document in documents.items()]
    return fingerprint({"format": FORMAT, **_inputs(pipeline, prechunked), "documents": hashes})[:32]


def made_before(folder: Path, name: str) -> Made | None:
    """Return a generation that is there; None where it is not, or a model gave no whole reply on some passage."""
    file = folder / GENERATIONS / name / MANIFEST
    counts = read_json(file)["counts"] if file.is_file() else None
    if counts is None or counts["extraction"].get("passages_quarantined"):
        return None
    return Made(name, reused=True, counts=counts)


def make(
    pipeline: Pipeline,
    folder: Path,
    name: str,
    documents: Mapping[str, Document],
    before: Before | None,
    prechunked: bool = False,
) -> Made:
    """Make the generation of a set of documents in `folder`; it is not the current one yet.

    What it holds depends on the documents and the config alone: not on the generation before, nor on the order in
    which documents came.

    Args:
        pipeline: whose artifacts are in `folder`.
        folder: of the index.
        name: of the generation.
        documents: by id, in the order of the ids.
        before: the generation before; its passages, extractions, vectors and synonym pairs are taken over where
            what they depend on is the same. None makes all of it anew.
        prechunked: each document is one passage, however long it is.

    Raises:
        DataError: if the documents hold no atom, or a file cannot be read or written.
    """
    inputs, made = _inputs(pipeline, prechunked), Made(name)
    if before is not None:
        _tell(pipeline, inputs, before.manifest["inputs"])
    with making(folder, made.name) as temporary, pipeline.accounts.module(CONSTRUCTION):
        with made.timed("passages"):
            passages = _passages(pipeline, documents, inputs, before)
            save_documents(list(documents.values()), temporary)
        with made.timed("extraction"):
            found = _extractions(pipeline, passages, inputs, before)
            found.save(temporary)
        built = _graph(pipeline, passages, found, inputs, before, made)
        with made.timed("saving"):
            graph_stage.save(built, temporary)
            write_manifest(temporary, {"format": FORMAT, "inputs": inputs, "counts": made.counts})
    return made


def plain_config(config: ExperimentConfig) -> dict[str, Any]:
    """Return the config as an index keeps it: without places, and without the corpus that it came from."""
    return {key: value for key, value in to_plain(config).items() if key not in _PLACES}


def _inputs(pipeline: Pipeline, prechunked: bool) -> dict[str, Any]:
    """Return what decides each stage's results beside the documents, as plain values and fingerprints."""
    config, encoder = pipeline.config, pipeline.encoder.fingerprint
    return {
        "passages": _WHOLE if prechunked else fingerprint([dataclasses.asdict(config.chunk), encoder]),
        "extraction": fingerprint(extraction_inputs(pipeline)),
        "vectors": encoder,
        "synonyms": fingerprint([encoder, dataclasses.asdict(config.graph), code_hash(graph_stage.graph)]),
        "graph": code_hash(graph_stage.graph, graph_stage.storage),
    }


def _tell(pipeline: Pipeline, now: Mapping[str, str], then: Mapping[str, str]) -> None:
    for stage in ("passages", "extraction", "vectors", "synonyms"):
        if now[stage] != then[stage]:
            pipeline.report(f"{stage}: config, code or model are not those the index was built with; all made again")


def _same(stage: str, inputs: Mapping[str, str], before: Before | None) -> bool:
    return before is not None and before.manifest["inputs"][stage] == inputs[stage]


def _passages(
    pipeline: Pipeline, documents: Mapping[str, Document], inputs: Mapping[str, str], before: Before | None
) -> list[Passage]:
    """Cut the documents that the generation before does not have; passages are ordered by document and start."""
    held: dict[str, list[Passage]] = {}
    if before is not None and _same("passages", inputs, before):
        same = {name for name, document in documents.items() if before.documents.get(name) == document}
        for passage in before.graph.passages:
            if passage.doc_id in same:
                held.setdefault(passage.doc_id, []).append(passage)
    rest = tuple(document for name, document in documents.items() if name not in held)
    size = pipeline.config.chunk
    corpus = Corpus(rest, prechunked=inputs["passages"] == _WHOLE)
    cut = chunk(corpus, pipeline.encoder.token_spans, size.max_tokens, size.overlap) if rest else []
    passages = [passage for kept in held.values() for passage in kept] + cut
    check_ids(passages)
    pipeline.report(f"passages: {len(passages):,}, {len(cut):,} of them new")
    return sorted(passages, key=lambda passage: (passage.doc_id, passage.start))


def _extractions(
    pipeline: Pipeline, passages: Sequence[Passage], inputs: Mapping[str, str], before: Before | None
) -> Extractions:
    found = Extractions(passages)
    if before is not None and _same("extraction", inputs, before):
        found.take_over(before.graph.passages, before.folder)
    artifact = pipeline.store.artifact("extraction", index=FORMAT, **extraction_inputs(pipeline))
    found.complete(pipeline, artifact)
    return found


def _graph(
    pipeline: Pipeline,
    passages: Sequence[Passage],
    found: Iterable[Extraction],
    inputs: Mapping[str, str],
    before: Before | None,
    made: Made,
) -> AtomEntityGraph:
    previous = before.graph if before is not None and _same("vectors", inputs, before) else None
    if previous is not None and not _same("synonyms", inputs, before):
        previous = dataclasses.replace(previous, cut=None)
    tally, encoder = Tally(), _Timed(pipeline.encoder, made)
    with made.timed("graph"):
        built = graph_stage.build(
            passages, tally.counting(found), pipeline.config.graph, encoder, pipeline.device, previous
        )
    made.seconds["graph"] -= made.seconds["vectors"]
    own = pipeline.methods.extraction.counts(passages, pipeline.root)
    made.counts = {"extraction": {**tally.counts, **own}, "graph": dict(built.counts)}
    pipeline.report(f"extraction: {summary(tally.counts)}")
    pipeline.report(f"graph: {len(built.atoms):,} atoms, {len(built.entities):,} entities")
    return built


@dataclass(frozen=True)
class _Timed:
    """An encoder whose time is booked to a stage of its own."""

    encoder: Any
    made: Made

    def encode(self, texts: Sequence[str]) -> Any:
        with self.made.timed("vectors"):
            return self.encoder.encode(texts)

"""Medical's real graph and its 1,031 questions, from the recorded extraction, built once through `aeg`."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from aeg.core.seeds import Seeds

if TYPE_CHECKING:
    from aeg.pipeline.retrieving import Retriever
    from aeg.pipeline.seeding import Seeding

ROOT = Path(__file__).resolve().parents[2]
_PAPER = (
    "query.mentions={name: syntactic}",
    "query.linking={name: embedding, top_k: 20, threshold: 0.3}",
    "query.seeds={balance: alpha, alpha: 0.1, atom_top_k: null}",
    "device=cpu",
)


@dataclass(frozen=True, eq=False)
class Medical:
    """The graph, the questions with their embeddings and links, and what turns these into seeds."""

    retriever: Retriever
    seeding: Seeding
    encoder: RecordedEncoder

    @property
    def num_atoms(self) -> int:
        """The number of atoms."""
        return len(self.retriever.graph.atoms)

    def seeds(self) -> Seeds:
        """Return the seeds of all questions, from embeddings: entity search, links, atom similarities (not cached)."""
        retriever, effective = self.retriever, self.seeding.effective
        links = retriever.pipeline.methods.linking.link(effective, retriever.graph.entities, self.encoder)
        fresh = dataclasses.replace(self.seeding, links=links, seeded={})
        return retriever.seeds(fresh, retriever.config.query.seeds)[0]


class RecordedEncoder:
    """Stands in for the encoder with the embeddings that it gave before, so that encoding is not timed."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder
        self.known: dict[tuple[str, ...], Tensor] = {}

    def encode(self, texts: list[str], kind: str = "passage") -> Tensor:
        """Return the embeddings of a list of texts, computed only the first time."""
        key = (kind, *texts)
        if key not in self.known:
            self.known[key] = self.encoder.encode(texts, kind=kind)
        return self.known[key]


def data_folder() -> Path | None:
    """Return the folder of the benchmark data (AEG_DATA, or ../shared/data), None where Medical is not in it."""
    folder = Path(os.environ.get("AEG_DATA", ROOT.parent / "shared" / "data"))
    return folder if (folder / "medical" / "extraction.jsonl").is_file() else None


def cache_folder() -> Path:
    """Return where built things are kept: AEG_BENCH_CACHE, or artifacts/bench in the source tree."""
    return Path(os.environ.get("AEG_BENCH_CACHE", ROOT / "artifacts" / "bench"))


def medical(questions: int | None = None) -> Medical:
    """Build Medical's graph, or load it from the cache, and embed and link its questions.

    The settings are the paper's: α 0.1, all atoms min-max scaled, the 20 nearest entities above 0.3.

    Args:
        questions: how many questions to take; all where None.

    Raises:
        DataError: if the data is not there.
    """
    from aeg.config.load import load_config
    from aeg.pipeline.retrieving import Retriever
    from aeg.pipeline.stages import Pipeline

    folder = data_folder()
    overrides = [*_PAPER, f"artifacts_dir={cache_folder()}"]
    if folder is not None:
        overrides.append(f"data_root={folder}")
    if questions is not None:
        overrides.append(f"num_questions={questions}")
    pipeline = Pipeline(load_config(ROOT / "configs" / "medical.yaml", overrides))
    corpus = pipeline.corpus(pipeline.methods.corpus)
    graph, name = pipeline.graph(pipeline.passages(corpus))
    retriever = Retriever(pipeline, graph, name)
    return Medical(retriever, retriever.seeding(corpus.queries), RecordedEncoder(pipeline.encoder))

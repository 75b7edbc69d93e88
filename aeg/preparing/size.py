"""How much memory and disk a run will take: by what is known of its corpus and its models before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from aeg.backends.memory import embedding_bytes, operator_bytes
from aeg.config.schema import ExperimentConfig
from aeg.core.records import Corpus
from aeg.propagation.fitting import BYTES

ATOMS, ENTITIES, EDGES = 8, 10, 40  # a passage: above what was seen on medical and encyclopaedic texts
_TOKEN = 4  # bytes of text a token
_BASE = 3 * 2**28  # what Python, torch and the libraries hold
_DIM = 384
_QUESTION = 4096  # bytes of results a question, method and ten ranked units


@dataclass(frozen=True)
class Estimate:
    """Bytes by estimate.

    Attributes:
        host: main memory beside what lies on the device.
        device: memory of the device; main memory where it is the CPU.
        disk: of artifacts and results.
    """

    host: int
    device: int
    disk: int

    def __or__(self, other: Estimate) -> Estimate:
        """The larger of each: runs of a sweep come one after the other."""
        return Estimate(max(self.host, other.host), max(self.device, other.device), max(self.disk, other.disk))


def corpus_size(corpus: Corpus, config: ExperimentConfig) -> tuple[int, int, int]:
    """Return a corpus's bytes of text, its passages by estimate, and its questions."""
    step = (config.chunk.max_tokens - config.chunk.overlap) * _TOKEN
    lengths = [len(document.text) for document in corpus.documents]
    passages = len(lengths) if corpus.prechunked else sum(1 + length // step for length in lengths)
    return sum(lengths), passages, len(corpus.queries)


def estimate(
    config: ExperimentConfig, text: int, passages: int, questions: int, weights: int = 0, dim: int = _DIM
) -> Estimate:
    """Return what a run takes.

    Args:
        config: the experiment.
        text: bytes of the corpus.
        passages: that it is cut into.
        questions: that are asked.
        weights: bytes of the models' weights, all on the device.
        dim: length of a vector.

    Example:
        >>> small = estimate(ExperimentConfig(), 10**6, 1_000, 100)
        >>> large = estimate(ExperimentConfig(), 10**9, 1_000_000, 100)
        >>> small.host < large.host, small.device < large.device, small.disk < large.disk
        (True, True, True)
    """
    asked = min(questions, config.num_questions or questions)
    atoms, entities, edges = (passages * each for each in (ATOMS, ENTITIES, EDGES))
    nodes = atoms + entities
    vectors = embedding_bytes(nodes + 2 * passages, dim)
    tile = BYTES * nodes  # of one question: more are taken at a time only where there is room
    methods = len(config.propagation) + len(config.evaluation.baselines)
    results = asked * methods * _QUESTION * max(1, config.retrieval.depth // 10)
    host = _BASE + 8 * text + vectors + operator_bytes(nodes, edges) + asked * methods * config.retrieval.depth * 64
    device = weights + operator_bytes(nodes, edges) + embedding_bytes(atoms, dim) + tile
    return Estimate(host, device, 2 * vectors + 6 * text + edges * 24 + results)

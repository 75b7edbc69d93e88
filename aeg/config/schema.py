"""The experiment config: everything that decides a run, as frozen typed dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aeg.config.accuracy import AccuracyConfig
from aeg.config.evidence import EvidenceConfig
from aeg.config.llm import LLMConfig
from aeg.config.ranges import Checked, param
from aeg.config.tracking import TrackingConfig
from aeg.errors import ConfigError


@dataclass(frozen=True)
class ChunkConfig(Checked):
    """How documents are cut into passages, in tokens of the encoder's tokenizer."""

    max_tokens: int = param(256, ge=8)
    overlap: int = param(32, ge=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.overlap >= self.max_tokens:
            raise ConfigError(f"overlap: got {self.overlap}, expected less than max_tokens ({self.max_tokens})")


@dataclass(frozen=True)
class GraphConfig(Checked):
    """The nodes and edges of the Atom-Entity Graph (paper, section 3.1).

    Attributes:
        units: what the graph ties to entities and retrieves: `atoms`, or whole `passages` ("w/o KA" in Table 2).
        synonym: draw synonym edges between entities.
        synonym_threshold: τ_s, the least cosine of a synonym edge.
        synonym_top_k: most neighbours that an entity looks for; what this cuts is counted.
    """

    units: str = param("atoms", choices=("atoms", "passages"))
    synonym: bool = True
    synonym_threshold: float = param(0.8, gt=0, le=1)
    synonym_top_k: int = param(100, ge=1)


@dataclass(frozen=True)
class OperatorConfig(Checked):
    """How the operator weighs the graph's edges: W = Σ_type f_type · W_type, then the options below.

    Attributes:
        mentions, relates, synonym: the factors f of the three edge types; 0 leaves a type out.
        entity_specificity: an edge at entity e is multiplied by s(e) = 1 / (1 + ln(1 + mentions of e)).
        beta: β of Assumption C.8, which bounds auxiliary weight by containment weight; null leaves it out.
    """

    mentions: float = param(1.0, ge=0)
    relates: float = param(1.0, ge=0)
    synonym: float = param(1.0, ge=0)
    entity_specificity: bool = False
    beta: float | None = param(None, gt=0)


@dataclass(frozen=True)
class SeedsConfig(Checked):
    """The personalisation π ∝ α · r_atom + r_ent (paper, eq. 5 and 6) and its variants.

    Attributes:
        balance: `share` scales the two parts to fixed shares; `trust` gives atoms `atom_share` · (1 − τ), which falls
            with the share τ of the question's content that its links name; `alpha` adds α · r_atom to r_ent.
        alpha: α of eq. 5.
        entity_weight: factor of r_ent with `balance: alpha` (1 in eq. 5).
        atom_share: share of the seed mass on atoms with `balance: share`; its most with `trust`.
        atom_top_k: atoms that are seeded, by similarity; null seeds all of them, as the published code does.
        lexical_share: share of the atoms' mass that goes to the `atom_top_k` best atoms by BM25.
        fallback_top_k: nearest atoms that seed a query without any linked entity.
    """

    balance: str = param("share", choices=("share", "trust", "alpha"))
    alpha: float = param(0.1, ge=0)
    entity_weight: float = param(1.0, gt=0)
    atom_share: float = param(0.3, ge=0, le=1)
    atom_top_k: int | None = param(10, ge=1)
    lexical_share: float = param(0.0, ge=0, le=1)
    fallback_top_k: int = param(30, ge=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lexical_share and self.atom_top_k is None:
            raise ConfigError("lexical_share: got one with atom_top_k null, expected a number of atoms to seed")


@dataclass(frozen=True)
class QueryConfig(Checked):
    """From a question to seeds; each part but `seeds` names a registered method and its parameters."""

    decomposition: dict[str, Any] = param({"name": "none"})
    mentions: dict[str, Any] = param({"name": "syntactic"})
    linking: dict[str, Any] = param({"name": "lexical"})
    seeds: SeedsConfig = field(default_factory=SeedsConfig)


@dataclass(frozen=True)
class MixConfig(Checked):
    """How propagated scores are mixed with what texts say by themselves (`aeg.retrieval.mixing`).

    Attributes:
        similarity, passage_similarity, bm25: weights of an atom's cosine, of its passage's and of its BM25 score.
        document_similarity, document_bm25: weights of a document's cosine and BM25 score.
        floor: the part of these weights that full trust in the question's links leaves.
    """

    similarity: float = param(8.0, ge=0)
    passage_similarity: float = param(4.0, ge=0)
    bm25: float = param(4.0, ge=0)
    document_similarity: float = param(4.0, ge=0)
    document_bm25: float = param(2.0, ge=0)
    floor: float = param(0.2, ge=0, le=1)


@dataclass(frozen=True)
class RetrievalConfig(Checked):
    """What is kept of the scores.

    Attributes:
        top_k: K of eq. 9, the candidate atoms that an effective query brings to the sieve.
        depth: ranked atoms kept of each effective query for evaluation and results; at least `top_k`.
        passage_score: a passage's score is the best (`max`) or the `sum` of its atoms' scores, or the score of the
            entity that its title names (`topic`; the best atom's where there is none).
        mix: mix in similarity and shared words; null ranks by the propagated scores alone.
        diversity: log-score that an atom loses for repeating one ranked before it; 0 leaves repetitions in.
        passage_top_k: ranked passages kept of each effective query.
        index: nearest-neighbour index over atoms (`flat`, `torch`: exact; `hnsw`, `ivf`: approximate).
        block: questions whose rankings are kept together while a run is under way; what an interruption loses.
    """

    top_k: int = param(25, ge=1)
    depth: int = param(100, ge=1)
    passage_score: str = param("max", choices=("max", "sum", "topic"))
    mix: MixConfig | None = None
    diversity: float = param(0.0, ge=0)
    passage_top_k: int = param(100, ge=1)
    index: dict[str, Any] = param({"name": "flat"})
    block: int = param(256, ge=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth < self.top_k:
            raise ConfigError(f"depth: got {self.depth}, expected at least top_k ({self.top_k})")


@dataclass(frozen=True)
class EvaluationConfig(Checked):
    """What is measured.

    Attributes:
        ks: cut-offs of recall and nDCG over passages.
        budgets: token budgets of the evidence measures.
        partial: a text that exceeds the budget is cut where the budget ends; false leaves it out whole.
        encoder: the fixed judge of evidence similarity; not swapped with the retriever's encoder.
        resamples: bootstrap resamples behind each interval.
        bootstrap_seed: seed of the resampling.
        baselines: `dense_atoms`, `dense_passages`, `bm25`, run beside the methods.
        runs: TREC run files of other systems, which enter the same tables under their tags.
        accuracy: how answers are scored where `llm.judge` names a judge.
    """

    ks: list[int] = field(default_factory=lambda: [2, 5, 10])
    budgets: list[int] = field(default_factory=lambda: [256, 512, 1024])
    partial: bool = True
    encoder: dict[str, Any] = param({"name": "hf", "model": "minilm"})
    resamples: int = param(10_000, ge=100)
    bootstrap_seed: int = 0
    baselines: list[str] = field(default_factory=lambda: ["dense_atoms", "dense_passages", "bm25"])
    runs: list[str] = field(default_factory=list)
    accuracy: AccuracyConfig = field(default_factory=AccuracyConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("ks", "budgets"):
            values = getattr(self, key)
            if not values or any(v < 1 for v in values) or sorted(set(values)) != list(values):
                raise ConfigError(f"{key}: got {list(values)}, expected ascending positive integers")


@dataclass(frozen=True)
class ExperimentConfig(Checked):
    """One experiment: a corpus, every stage's method, the propagation methods to compare, and the measures.

    Attributes:
        name: names the run folder.
        data_root: folder that relative data paths start from; null takes the environment variable `AEG_DATA`.
        run_dir: folder in which run folders are made.
        artifacts_dir: folder of cached stages and embeddings, shared by runs.
        device: `auto`, `cpu`, `cuda`, `cuda:N`.
        seeds: seeds of chance, an axis of the run for stochastic methods only.
        questions: which questions: `all`, or half of each file of questions, `even` or `odd` by place, from 0.
            Develop on `even`; `odd` is opened by `python -m experiments.holdout` only, which keeps a log.
        num_questions: size of a sample of these questions; null takes all of them.
        sample_seed: picks the sample.
        plugins: modules or files imported before anything is looked up.
        workers: processes for extraction; 0 takes one for each core.
        corpus, extraction, encoder: `{name: ..., parameter: ...}` of a registered method.
        propagation: a list of `{name: ..., parameter: ..., label: ..., seeds: {...}}`; `label` tells two settings
            of one method apart in tables, `seeds` overrides keys of `query.seeds` for that entry.
        llm: the language models, for the methods that ask one.
        sieve, answer: `{name: ..., parameter: ...}` of a registered method.
        answered: labels of the propagation entries and baselines whose rankings go through sieve and answer; null
            takes every propagation entry.
        tracking: where the run is shown beside its folder.
    """

    name: str = "run"
    data_root: str | None = None
    run_dir: str = "runs"
    artifacts_dir: str = "artifacts"
    device: str = "auto"
    seeds: list[int] = field(default_factory=lambda: [0])
    questions: str = param("all", choices=("all", "even", "odd"))
    num_questions: int | None = param(None, ge=1)
    sample_seed: int = 0
    plugins: list[str] = field(default_factory=list)
    workers: int = param(0, ge=0)
    corpus: dict[str, Any] = param({"name": "sample"})
    chunk: ChunkConfig = field(default_factory=ChunkConfig)
    extraction: dict[str, Any] = param({"name": "syntactic"})
    encoder: dict[str, Any] = param({"name": "hf", "model": "minilm"})
    graph: GraphConfig = field(default_factory=GraphConfig)
    operator: OperatorConfig = field(default_factory=OperatorConfig)
    query: QueryConfig = field(default_factory=QueryConfig)
    propagation: list[dict[str, Any]] = field(default_factory=lambda: [{"name": "ppr"}])
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    llm: LLMConfig = field(default_factory=LLMConfig)
    sieve: dict[str, Any] = param({"name": "none"})
    evidence: EvidenceConfig = field(default_factory=EvidenceConfig)
    answer: dict[str, Any] = param({"name": "none"})
    answered: list[str] | None = None
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)

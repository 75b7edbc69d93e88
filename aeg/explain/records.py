"""What an explanation holds: plain records, which the renderers turn into text, JSON and a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FORMAT = 1


@dataclass(frozen=True)
class Node:
    """A node that the explanation speaks of.

    Attributes:
        id: its row in the operator.
        kind: `atom` or `entity`.
        name: the atom's text or the entity's name.
        key: the atom's id or the entity's canonical key.
    """

    id: int
    kind: str
    name: str
    key: str


@dataclass(frozen=True)
class LinkRecord:
    """A mention and the entity that it was linked to; `node` names the entity, `weight` is r_ent."""

    mention: str
    node: int
    weight: float


@dataclass(frozen=True)
class EffectiveRecord:
    """An effective query: the question itself, or one of its sub-questions.

    Attributes:
        text: what was embedded and linked.
        sub_question: false for the question itself.
        mentions: that were found in it.
        links: what they were linked to, strongest first.
        entity_mass, atom_mass: the shares of the two parts of the seeds.
        seeds: (node, mass) of the heaviest seeds, π of eq. 6.
        num_seeds: how many nodes have any.
        flags: what went another way than usual, e.g. `fallback`.
    """

    text: str
    sub_question: bool
    mentions: tuple[str, ...]
    links: tuple[LinkRecord, ...]
    entity_mass: float
    atom_mass: float
    seeds: tuple[tuple[int, float], ...]
    num_seeds: int
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepRecord:
    """A step of a chain: M(u, v), and the (type, weight) of each edge between the two nodes, before any factor."""

    factor: float
    edges: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ChainRecord:
    """A resonance chain; `mass` in units of the score, `share` of the atom's score, `seed` is π of its first node."""

    nodes: tuple[int, ...]
    steps: tuple[StepRecord, ...]
    seed: float
    mass: float
    share: float


@dataclass(frozen=True)
class SourceRecord:
    """Where an atom stands: document, its title, passage, and the character span in the passage where known."""

    doc_id: str
    title: str
    passage_id: str
    span: tuple[int, int] | None


@dataclass(frozen=True)
class AtomRecord:
    """A ranked atom and where its score comes from.

    Attributes:
        rank, score: in the ranking that the sieve and the measures see.
        propagated_rank, propagated_score: by propagation alone, before any re-scoring; what chains account for.
        effective: which effective query gave that score.
        node: its row.
        sources: where it stands.
        entities: (node, share) of the entities through which the last step brings most mass.
        chains: the heaviest chains, those with less than a thousandth of the score left out, the first one never.
        covered: the share of the propagated score that these chains carry.
        walks: the mass of all walks of up to `walk_length` steps; with `tail`, a bound on all longer ones, it holds
            the propagated score.
        seeds: (node, share) of the seeds in which most of this mass begins.
        cut_off: whether the search for chains was cut off, so that heavier ones may exist.
    """

    rank: int
    score: float
    propagated_rank: int
    propagated_score: float
    effective: int
    node: int
    sources: tuple[SourceRecord, ...]
    entities: tuple[tuple[int, float], ...]
    chains: tuple[ChainRecord, ...] = ()
    covered: float = 0.0
    walks: float = 0.0
    tail: float = 0.0
    walk_length: int = 0
    seeds: tuple[tuple[int, float], ...] = ()
    cut_off: bool = False


@dataclass(frozen=True)
class DocumentRecord:
    """A document in the ranking, or a gold one wherever it is.

    Attributes:
        rank: in the ranking, None where it is not among those kept; `score` likewise.
        propagated_rank: by propagated scores among all documents; None where its score is 0.
        propagated_score: by the config's `passage_score`.
        mass: the propagated scores of its atoms together.
        atoms: how many atoms it has.
        best_atom: (rank, node) of its best ranked atom, None where none is ranked.
    """

    doc_id: str
    title: str
    gold: bool
    rank: int | None
    score: float | None
    propagated_rank: int | None
    propagated_score: float
    mass: float
    atoms: int
    best_atom: tuple[int, int] | None = None


@dataclass(frozen=True)
class CoverRecord:
    """An atom that covers a gold statement: the measure's value, and where the atom is in the rankings."""

    node: int
    value: float
    rank: int | None
    propagated_rank: int | None
    mass: float


@dataclass(frozen=True)
class StatementRecord:
    """A gold statement, and the atoms nearest to it.

    Attributes:
        text: the statement.
        coverage: the atom with the largest idf-weighted share of its content words (`evidence_coverage`).
        similarity: the atom with the largest cosine by the judge encoder (`evidence_similarity`).
        compared: how many atoms were looked at: the nearest by embedding, and all that are ranked.
    """

    text: str
    coverage: CoverRecord | None
    similarity: CoverRecord | None
    compared: int


@dataclass(frozen=True)
class CandidateRecord:
    """A candidate of the sieve and its verdict."""

    node: int
    score: float
    similarity: float | None
    kept: bool


@dataclass(frozen=True)
class UnitRecord:
    """A citation unit that the reader was shown (eq. 11), its number from 1, and whether the answer cites it."""

    number: int
    doc_id: str
    start: int | None
    end: int | None
    text: str
    atoms: tuple[int, ...]
    cited: bool


@dataclass(frozen=True)
class GenerationRecord:
    """What became of the ranking.

    Attributes:
        sieve, reader: the methods' names.
        candidates: with their verdicts, best first.
        sieve_failure: why candidates stayed that could not be judged; empty where all were.
        units: what the reader was shown.
        answer: what it said; None where there was none.
        failure: why there is none.
        reasoning: how the reader got there, where it says so.
        recorded: whether verdicts and answer are those that a run recorded.
    """

    sieve: str
    reader: str
    candidates: tuple[CandidateRecord, ...]
    sieve_failure: str
    units: tuple[UnitRecord, ...]
    answer: str | None
    failure: str
    reasoning: str
    recorded: bool


@dataclass(frozen=True)
class Exchange:
    """What a language model was asked and what it said.

    Attributes:
        task: the prompt's name.
        model: the model's name.
        messages: (role, text) of the chat.
        reply: the parsed reply as text; None where there was none.
        failure: why.
        cached: whether the reply was in the cache.
    """

    task: str
    model: str
    messages: tuple[tuple[str, str], ...]
    reply: str | None
    failure: str = ""
    cached: bool = False


@dataclass(frozen=True)
class Explanation:
    """Why a question found what it found.

    Attributes:
        origin: the index or run folder's name.
        question_id, question, reference: the question, and the answer that a benchmark gives.
        label, method, parameters: the propagation method.
        num_atoms, num_entities: of the graph.
        effective: the question and its sub-questions.
        nodes: everything that other records name by its row, ascending.
        atoms: the best atoms, with their chains.
        documents: the best documents.
        gold: the gold documents.
        statements: the gold statements.
        generation: sieve, units and answer; None where the config has neither, or nobody asked for them.
        exchanges: what language models were asked.
        metrics: the question's own measures, where a run recorded them.
        simple: whether chains that visit a node twice are left out.
        notes: what a reader must know: approximations, differences to the run, what could not be told.
    """

    origin: str
    question_id: str
    question: str
    reference: str
    label: str
    method: str
    parameters: dict[str, Any]
    num_atoms: int
    num_entities: int
    effective: tuple[EffectiveRecord, ...]
    nodes: tuple[Node, ...]
    atoms: tuple[AtomRecord, ...]
    documents: tuple[DocumentRecord, ...] = ()
    gold: tuple[DocumentRecord, ...] = ()
    statements: tuple[StatementRecord, ...] = ()
    generation: GenerationRecord | None = None
    exchanges: tuple[Exchange, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    simple: bool = True
    format: int = FORMAT

    def node(self, row: int) -> Node:
        """Return the node of a row."""
        return self._by_row()[row]

    def _by_row(self) -> dict[int, Node]:
        found: dict[int, Node] = self.__dict__.setdefault("_rows", {node.id: node for node in self.nodes})
        return found

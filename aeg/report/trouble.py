"""The section of failures and fall-backs: everything that a run counted as skipped, repaired, cut or failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aeg.report.blocks import NONE, Anchors, Block, Cell, Code, Folded, Heading, Section, Table, Text
from aeg.report.folder import Run
from aeg.report.graph import in_short

# Counts that say how much there was, not that anything went wrong.
_SIZES = {
    "extraction": {"atoms", "entities", "triples", "passages", "passages_ok", "calls", "pieces"},
    "graph": {"extracted_atoms", "extracted_triples", "passages_ok"},
    "seeds": {"effective_queries"},
    "queries": {"decomposition.decomposed", "decomposition.sub_questions"},
    "encoder": {"encoded", "from_cache", "duplicates"},
    "evidence": {"units", "united_atoms"},
    "sieve": {"questions", "candidates", "kept", "below_similarity", "redundant"},
    "answer": {"questions", "answered"},
    "operator": set(),
}
_WORDS = {
    "seeds.fallback": "effective queries without a linked entity; their nearest atoms were the seeds",
    "seeds.no_seeds": "effective queries without any seed",
    "seeds.bad_embedding": "effective queries whose embedding was not finite",
    "queries.decomposition.unknown_ids": "recorded decompositions of questions that are not asked here",
    "queries.decomposition.sub_questions_repeated": "sub-questions that repeat another of their question; asked once",
    "queries.mentions.unknown_ids": "recorded mentions of questions that are not asked here",
    "evaluation.questions_without_gold_documents": "questions without gold documents; no passage measure",
    "evaluation.questions_without_gold_statements": "questions without gold statements; no evidence measure",
    "evaluation.statements_skipped": "gold statements without a content word; not measured",
    "extraction.missing_passages": "passages that the recorded extraction lacks",
    "extraction.malformed_triples": "triples that are not three texts; left out",
    "extraction.atoms_without_entities": "atoms without an entity",
    "extraction.passages_without_atoms": "passages without an atom",
    "extraction.passages_quarantined": "passages whose replies of the model were no use",
    "extraction.passages_split": "passages that were cut for the model's window",
    "extraction.unused_entries": "recorded entries that fit no passage",
    "graph.synonym_edges_cut": "synonym edges cut by `synonym_top_k`",
    "graph.triples_self_loop": "triples whose two ends are one entity; dropped",
    "graph.triples_with_empty_end": "triples with an empty end; dropped",
    "graph.empty_entity_keys": "entity names without a key; rejected",
    "corpus.duplicate_documents": "documents that occur more than once; read once",
    "corpus.skipped_files": "files that were skipped",
    "operator.self_loops": "self-loops; dropped",
    "operator.zero_weights": "edges of weight zero; dropped",
    "encoder.truncated": "texts longer than the encoder's limit; their end is not embedded",
    "encoder.corrupt_shards": "damaged files of cached embeddings; made again",
    "encoder.batches_halved": "encoder batches that were halved for memory",
    "flag.fallback": "questions seeded by their nearest atoms, for want of a linked entity",
    "flag.not_converged": "questions whose propagation did not reach its tolerance",
    "flag.zero_seeds": "questions without seed mass; nothing was ranked",
    "flag.bad_seeds": "questions with seeds that are not finite; nothing was ranked",
    "flag.tile_halved": "questions in tiles that were halved for memory",
}
_MOST_ROWS = 12
_BUDGET = re.compile(r"budget_(\d+)_unfilled\.(.+)")


@dataclass(frozen=True)
class Trouble:
    """One counted thing that went wrong or was left out: where, what, how many, of how many."""

    where: str
    what: str
    count: int
    total: int | None = None


def failures(runs: Sequence[Run], anchors: Anchors) -> Section | None:
    """Return the section; None only where there is no run at all."""
    if not runs:
        return None
    blocks: list[Block] = []
    lost = [run for run in runs if not run.finished]
    if lost:
        rows = [
            [Cell(run.name), Cell(run.folder.name), Cell(run.state, mark="bad"), Cell(run.since or NONE)]
            for run in lost
        ]
        table = Table(["run", "folder", "state", "since"], rows, "Runs without results", words=4)
        blocks.append(table if len(rows) <= _MOST_ROWS else Folded(f"{len(rows)} runs without results", [table]))
    for run in lost:
        blocks += _said(run, anchors)
    finished = [run for run in runs if run.finished]
    merged: dict[Trouble, list[str]] = {}
    for run in finished:
        for trouble in troubles(run):
            merged.setdefault(trouble, []).append(run.name)
    if merged:
        rows = [_row(trouble, _names(names, len(finished))) for trouble, names in merged.items()]
        head = ["where", "what", "runs", "count", "share"]
        blocks.append(Table(head, rows, "Counted in the manifests of finished runs", words=3))
    elif finished:
        blocks.append(Text("The finished runs' manifests count nothing that was skipped, repaired, cut or failed."))
    return Section("Failures and fall-backs", anchors.new("failures"), blocks)


def troubles(run: Run) -> Iterator[Trouble]:
    """Yield everything that a finished run's manifest counts as not plain."""
    sample = run.config.get("num_questions")
    if sample:
        yield Trouble("questions", "a sample of the questions only (num_questions)", int(sample))
    half = run.config.get("questions")
    if half not in (None, "all"):
        yield Trouble("questions", f"the {half} half of the questions only", int(run.manifest.get("questions") or 0))
    if (run.manifest.get("git") or {}).get("dirty"):
        yield Trouble("code", "run with changes that were not committed", 1)
    yield from _counts("encoder", run.manifest.get("encoder_counts") or {}, "", {})
    for part, facts in run.parts.items():
        label = "" if part == "corpus" else f"{part}, "
        counts = facts.get("counts") or {}
        for stage, of in counts.items():
            yield from _counts(stage, of, label, {"fallback": (counts.get("seeds") or {}).get("effective_queries")})
        yield from _counts("operator", facts.get("operator") or {}, label, {})
        questions = int(facts.get("questions") or 0) or None
        told = {name for name, count in (counts.get("seeds") or {}).items() if count}
        yield from _flags(facts.get("flags") or {}, label, questions, told)
        yield from _answers(facts.get("answers") or {}, label, questions)
    yield from _calls(run)


def _counts(stage: str, counts: dict[str, object], label: str, totals: dict[str, int | None]) -> Iterator[Trouble]:
    for name, count in counts.items():
        if not isinstance(count, int) or not count or name in _SIZES.get(stage.split(":")[0], ()):
            continue
        unfilled = _BUDGET.match(name)
        what = _WORDS.get(f"{stage}.{name}", name.replace("_", " "))
        if unfilled:
            what = f"{unfilled[2]}: questions whose ranking ends before {int(unfilled[1]):,} tokens"
        yield Trouble(f"{label}{stage}", what, count, totals.get(name))


def _flags(flags: dict[str, dict[str, int]], label: str, questions: int | None, told: set[str]) -> Iterator[Trouble]:
    """The flags of rankings, methods with the same count together; without those that seeding has `told`."""
    together: dict[tuple[str, int], list[str]] = {}
    for method, of in flags.items():
        for flag, count in of.items():
            if count and flag not in told:
                together.setdefault((flag, count), []).append(method)
    for (flag, count), methods in together.items():
        what = _WORDS.get(f"flag.{flag}", f"questions flagged {flag.replace('_', ' ')}")
        yield Trouble(f"{label}{', '.join(methods)}", what, count, questions)


def _answers(answers: dict[str, dict[str, dict[str, int]]], label: str, questions: int | None) -> Iterator[Trouble]:
    for method, tallies in answers.items():
        for measure, of in tallies.items():
            for kind in ("failed", "skipped"):
                if of.get(kind):
                    yield Trouble(
                        f"{label}{method}", f"{measure.replace('_', ' ')}: questions {kind}", of[kind], questions
                    )


def _calls(run: Run) -> Iterator[Trouble]:
    for module in (run.manifest.get("usage") or {}).get("modules") or []:
        name = str(module.get("module"))
        if module.get("failures"):
            yield Trouble(name, "calls of the language model that failed", int(module["failures"]))
        for task in module.get("tasks") or []:
            for count in ("quarantined", "partial", "failed", "fallback"):
                number = int((task.get("counts") or {}).get(count) or 0)
                if number:
                    yield Trouble(name, f"{task.get('task', 'replies')}: replies {count}", number)


def _names(names: Sequence[str], finished: int) -> str:
    return f"all {finished} finished runs" if len(names) == finished > 3 else in_short(names)


def _row(trouble: Trouble, names: str) -> list[Cell]:
    share = trouble.count / trouble.total if trouble.total else None
    return [
        *(Cell(trouble.where), Cell(trouble.what), Cell(names)),
        Cell(f"{trouble.count:,}", number=trouble.count),
        Cell(NONE) if share is None else Cell(f"{100 * share:.1f} %", number=share),
    ]


def _said(run: Run, anchors: Anchors) -> list[Block]:
    """What a run without results left behind: its error, and the end of its log."""
    tail = run.log_tail()
    if not run.error and not tail:
        return []
    title = run.name if run.name == run.folder.name else f"{run.name} ({run.folder.name})"
    blocks: list[Block] = [Heading(title, anchors.new(f"trouble {run.name}"), run.state)]
    if run.error:
        blocks.append(Code(run.error, "What it said"))
    if tail:
        blocks.append(Code(tail, "Last lines of its log"))
    return blocks

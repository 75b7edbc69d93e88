"""What became of the ranking: the sieve's verdicts, the citation units, the answer."""

from __future__ import annotations

from typing import Any

from aeg.errors import AegError
from aeg.explain.records import CandidateRecord, GenerationRecord, UnitRecord
from aeg.explain.subject import Subject
from aeg.explain.view import View
from aeg.pipeline.generating import Generated, Generator


def generation(subject: Subject, view: View, notes: list[str]) -> GenerationRecord | None:
    """Return what became of the ranking: what a run recorded, else what sieve and reader make of it now.

    The stages are gone through in any case, so that the prompts are known; of a run no model is asked.

    Raises:
        AegError: if a model is needed and cannot be asked.
    """
    config = subject.retriever.config
    try:
        found = Generator(subject.retriever, view.seeding).one(view.ranking)
    except AegError as error:
        if subject.answers is None:
            raise
        notes.append(f"the prompts of sieve and reader cannot be told: {error}")
        found = None
    names = (config.sieve["name"], config.answer["name"])
    if subject.answers is None:
        return None if found is None else _fresh(found, *names)
    return _recorded(subject.answers, found, view, *names, notes=notes)


def _fresh(found: Generated, sieve: str, reader: str) -> GenerationRecord:
    kept, answer = set(found.sieved[0].kept), found.answers[0]
    candidates = [CandidateRecord(c.row, c.score, c.similarity, c.row in kept) for c in found.candidates[0]]
    units = [
        UnitRecord(number, unit.doc_id, unit.start, unit.end, unit.text, unit.atoms, number in answer.cited)
        for number, unit in enumerate(found.evidence[0].units, start=1)
    ]
    text = None if answer.failed or reader == "none" else answer.text
    sifted = found.sieved[0].failure
    return GenerationRecord(
        sieve, reader, tuple(candidates), sifted, tuple(units), text, answer.failure, answer.reasoning, False
    )


def _recorded(
    row: dict[str, Any], found: Generated | None, view: View, sieve: str, reader: str, notes: list[str]
) -> GenerationRecord:
    """The record of a run; scores and similarities of candidates are those of today."""
    rows = {atom_id: at for at, atom_id in enumerate(view.graph.atoms.ids)}
    today = {} if found is None else {c.atom_id: c for c in found.candidates[0]}
    kept, candidates = set(row["kept"]), []
    for atom_id in row["candidates"]:
        if atom_id in rows:
            now = today.get(atom_id)
            score, cosine = (0.0, None) if now is None else (now.score, now.similarity)
            candidates.append(CandidateRecord(rows[atom_id], score, cosine, atom_id in kept))
    if found is not None and {c.atom_id for c in found.candidates[0]} != set(row["candidates"]):
        notes.append("the candidates of the sieve are not those that the run recorded; prompts are of today's")
    units = [
        UnitRecord(
            *(number, unit["doc_id"], unit["start"], unit["end"], unit["text"]),
            tuple(rows[name] for name in unit["atoms"] if name in rows),
            number in row["cited"],
        )
        for number, unit in enumerate(row["units"], start=1)
    ]
    failure = "could not be judged" if "sieve_fallback" in row["flags"] else ""
    answer = None if reader == "none" else row["answer"]
    return GenerationRecord(
        sieve, reader, tuple(candidates), failure, tuple(units), answer, row["failure"], row["reasoning"], True
    )

"""From kept atoms to citation units, and evidence under a token budget (paper, eq. 11 and Figure 5)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from aeg.config.evidence import EvidenceConfig
from aeg.core.evidence import CitationUnit, Evidence
from aeg.core.records import Passage
from aeg.core.tables import AtomTable
from aeg.errors import DataError
from aeg.retrieval.baselines import searchable
from aeg.retrieval.placing import Places
from aeg.retrieval.units import Group, joined, source_text, united


class EvidenceBuilder:
    """Makes evidence of kept atoms, or of passages.

    Args:
        atoms: the graph's atoms.
        passages: the graph's passages.
        config: how units are made and how much is read.
        encoder: an object with `token_spans(texts)`, whose tokens are counted, and `encode(texts)`, which aligns
            atoms without a known span.

    Attributes:
        counts: added up over all calls: `units`, `united_atoms` (atoms in a unit of several), `units_full` (how
            often `unit_tokens` kept an atom out of a unit), `atoms_without_span`, `units_dropped` and
            `units_cut` by the budget.
    """

    def __init__(self, atoms: AtomTable, passages: Sequence[Passage], config: EvidenceConfig, encoder: Any) -> None:
        self.counts: Counter[str] = Counter()
        self._atoms, self._passages, self._config = atoms, passages, config
        self._tokens = _Tokens(encoder)
        self._places = Places(
            atoms, passages, encoder, config.align_threshold, config.align_sentences, aligning=config.align
        )
        self._of_document: dict[str, list[Passage]] = {}
        for passage in sorted(passages, key=lambda passage: passage.start):
            self._of_document.setdefault(passage.doc_id, []).append(passage)

    def of_atoms(self, kept: Sequence[Sequence[int]], scores: Sequence[Sequence[float]]) -> list[Evidence]:
        """Return the evidence of each question.

        Atoms of one document whose spans overlap become one unit; units are ordered by their best atom.

        Args:
            kept: of each question, rows of atoms, best first, none twice.
            scores: of each of them.

        Raises:
            DataError: if atoms and scores do not match one to one, or a row is no atom's.

        Source:
            Paper, section 3.4, eq. 11.
        """
        _check(kept, scores, len(self._atoms), "atom")
        self._tokens.count(self._atoms.texts[row] for rows in kept for row in rows)
        found = []
        for places, values in zip(self._places.of(kept), scores, strict=True):
            groups, full = united(places, self._config.merge, self._fits)
            score = {place.atom: value for place, value in zip(places, values, strict=True)}
            self.counts["units_full"] += full
            self.counts["united_atoms"] += sum(len(group.atoms) for group in groups if len(group.atoms) > 1)
            self.counts["atoms_without_span"] += sum(group.start is None for group in groups)
            found.append(self._evidence([self._unit(group, score) for group in groups]))
        return found

    def of_passages(self, rows: Sequence[Sequence[int]], scores: Sequence[Sequence[float]]) -> list[Evidence]:
        """Return the evidence of each question where passages were retrieved: each is a unit.

        Args:
            rows: of each question, rows of passages, best first.
            scores: of each of them.

        Raises:
            DataError: if passages and scores do not match one to one, or a row is no passage's.
        """
        _check(rows, scores, len(self._passages), "passage")
        return [
            self._evidence([self._passage(row, score) for row, score in zip(of_row, of_score, strict=True)])
            for of_row, of_score in zip(rows, scores, strict=True)
        ]

    def _passage(self, row: int, score: float) -> CitationUnit:
        passage = self._passages[row]
        text = searchable(passage)
        end = passage.start + len(passage.text)
        return CitationUnit(passage.doc_id, passage.start, end, text, (), score, self._tokens.of(text))

    def _unit(self, group: Group, score: dict[int, float]) -> CitationUnit:
        text = self._text(group)
        best = max(score[atom] for atom in group.atoms)
        return CitationUnit(group.doc_id, group.start, group.end, text, group.atoms, best, self._tokens.of(text))

    def _fits(self, group: Group) -> bool:
        return self._tokens.of(self._text(group)) <= self._config.unit_tokens

    def _text(self, group: Group) -> str:
        if self._config.text == "source" and group.start is not None and group.end is not None:
            return source_text(self._of_document[group.doc_id], group.start, group.end)
        return joined(self._atoms.texts[atom] for atom in group.atoms)

    def _evidence(self, units: Sequence[CitationUnit]) -> Evidence:
        found = self._budgeted(units)
        self.counts["units"] += len(found.units)
        self.counts["units_dropped"] += found.dropped
        self.counts["units_cut"] += found.cut
        return found

    def _budgeted(self, units: Sequence[CitationUnit]) -> Evidence:
        """The units that the budget has room for; where one does not fit, it and all after it are left out."""
        budget = self._config.max_tokens
        kept: list[CitationUnit] = []
        used = 0
        for at, unit in enumerate(units):
            left = unit.tokens if budget is None else budget - used
            if unit.tokens > left:
                if not left or not (self._config.partial or not kept):
                    return Evidence(tuple(kept), used, len(units) - at)
                text = self._tokens.head(unit.text, left)
                kept.append(dataclasses.replace(unit, text=text, tokens=left))
                return Evidence(tuple(kept), used + left, len(units) - at - 1, cut=True)
            kept.append(unit)
            used += unit.tokens
        return Evidence(tuple(kept), used)


class _Tokens:
    """Counts tokens, each distinct text once."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self._known: dict[str, int] = {}

    def count(self, texts: Iterable[str]) -> None:
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        if new:
            spans = self._encoder.token_spans(new)
            self._known.update((text, len(tokens)) for text, tokens in zip(new, spans, strict=True))

    def of(self, text: str) -> int:
        self.count([text])
        return self._known[text]

    def head(self, text: str, tokens: int) -> str:
        """The text up to the end of its first `tokens` tokens."""
        return text[: self._encoder.token_spans([text])[0][tokens - 1][1]]


def _check(rows: Sequence[Sequence[int]], scores: Sequence[Sequence[float]], count: int, what: str) -> None:
    if len(rows) != len(scores) or any(len(a) != len(b) for a, b in zip(rows, scores, strict=True)):
        raise DataError(f"evidence: {what}s and their scores do not match one to one")
    for of_row in rows:
        if of_row and not 0 <= min(of_row) <= max(of_row) < count:
            raise DataError(f"evidence: got {what} rows {min(of_row)} to {max(of_row)}, expected 0 to {count - 1}")

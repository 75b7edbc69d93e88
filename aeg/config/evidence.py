"""The config of evidence: how kept atoms become citation units, and how many of them are read."""

from __future__ import annotations

from dataclasses import dataclass

from aeg.config.ranges import Checked, param


@dataclass(frozen=True)
class EvidenceConfig(Checked):
    """From kept atoms to citation units, and a token budget over them (paper, section 3.4 and Figure 5).

    Attributes:
        text: a unit reads as its `atoms`, or as the `source` passage's text of its span.
        merge: atoms of one document with overlapping spans become one unit (eq. 11).
        unit_tokens: most tokens of a unit of several atoms; a longer atom is a unit by itself.
        align: an atom without a known span takes that of the sentences it aligns to; false leaves it without one.
        align_threshold: least cosine of an atom and the sentences it aligns to.
        align_sentences: most consecutive sentences that an atom aligns to.
        max_tokens: token budget of a question's evidence; null takes every unit.
        partial: the unit in which the budget ends is cut there; false leaves it out whole, unless it is the first.
    """

    text: str = param("atoms", choices=("atoms", "source"))
    merge: bool = True
    unit_tokens: int = param(256, ge=1)
    align: bool = True
    align_threshold: float = param(0.7, gt=0, le=1)
    align_sentences: int = param(3, ge=1)
    max_tokens: int | None = param(None, ge=1)
    partial: bool = False

"""What a diagnosis takes for found, near, common and faint."""

from __future__ import annotations

from dataclasses import dataclass

from aeg.config.ranges import Checked, param


@dataclass(frozen=True)
class Settings(Checked):
    """The thresholds of a diagnosis.

    Attributes:
        k: gold passages within the first k are found.
        budget: gold statements are found in the first so many tokens, where a benchmark has statements.
        covered: share of a statement's idf-weighted words that states it.
        named: share of an entity's idf-weighted words that names it.
        faint: share of the mass below which a walk has ended.
        near: cosine of near-duplicates.
        crowd: atoms of one passage that may stand above a statement's.
        common: share of the atoms that an entity may be mentioned in and still tie things together.
    """

    k: int = param(5, ge=1)
    budget: int = param(512, ge=1)
    covered: float = param(0.6, gt=0, le=1)
    named: float = param(0.5, gt=0, le=1)
    faint: float = param(0.01, gt=0, lt=1)
    near: float = param(0.95, gt=0, le=1)
    crowd: int = param(2, ge=1)
    common: float = param(0.005, gt=0, le=1)

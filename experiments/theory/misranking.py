"""Theorem C.11: how often a unit without evidence outranks one with it, against the size of units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from aeg.evaluation.bootstrap import bootstrap_difference, bootstrap_mean
from experiments.theory.finding import Finding, Findings, exact, judged
from experiments.theory.world import World

FloatArray = npt.NDArray[np.float64]
SIZES = (1, 2, 4, 8, 16, 32)
_TRIALS = 40_000
_GAP, _SIGMA = 1.0, 1.0  # Δμ and σ of the simulation

TITLE = "Theorem C.11 (a unit without evidence outranks one with it more often as units grow)"


def bound(relevant: float, size: npt.ArrayLike, gap: float, sigma: float) -> FloatArray:
    r"""Return the theorem's bound exp(−r²Δμ² / (4σ²M)) on the probability of misranking.

    Args:
        relevant: r, necessary atoms in the unit.
        size: M, atoms in a unit.
        gap: Δμ, the difference of the means of necessary and other atoms' scores.
        sigma: σ, of the sub-Gaussian noise.

    Source: Theorem C.11.

    Example:
        >>> bound(1, [1, 4], gap=2.0, sigma=1.0).round(3).tolist()
        [0.368, 0.779]
    """
    return np.exp(-(relevant**2) * gap**2 / (4 * sigma**2 * np.asarray(size, dtype=np.float64)))


def gaussian(relevant: float, size: npt.ArrayLike, gap: float, sigma: float) -> FloatArray:
    r"""Return the exact probability Φ(−rΔμ / (σ√(2M))) where the noise is Gaussian and independent.

    Example:
        >>> gaussian(1, [1, 4], gap=2.0, sigma=1.0).round(3).tolist()
        [0.079, 0.24]
    """
    z = relevant * gap / (sigma * np.sqrt(2 * np.asarray(size, dtype=np.float64)))
    return np.array([0.5 * math.erfc(value / math.sqrt(2)) for value in np.atleast_1d(z)])


def theorem_c11(worlds: Sequence[World], seed: int = 0) -> Findings:
    """Simulate the theorem's model, then measure units of growing size on real embeddings."""
    found = Findings(TITLE)
    _simulated(found, np.random.default_rng(seed))
    for world in worlds:
        if not any(query.evidence for query in world.queries):
            found.assumptions.append(f"{world.name}: left out, its questions have no gold statements (only documents)")
            continue
        _measured(found, world)
    return found


def simulate(
    relevant: int, size: int, rng: np.random.Generator, trials: int = _TRIALS, shared: float = 0.0
) -> npt.NDArray[np.bool_]:
    """Return whether each trial misranks: the mean score of U⁻ is at least that of U⁺.

    Args:
        relevant: r, of the M atoms of U⁺.
        size: M.
        rng: of the noise.
        trials: how many.
        shared: share of the noise's variance that the atoms of a unit have in common; 0 is the theorem's model.
    """
    means = []
    for hits in (relevant, 0):
        own = rng.normal(0, _SIGMA * math.sqrt(1 - shared), (trials, size)).mean(axis=1)
        common = rng.normal(0, _SIGMA * math.sqrt(shared), trials)
        means.append(own + common + hits / size * _GAP)
    return means[1] >= means[0]


def _simulated(found: Findings, rng: np.random.Generator) -> None:
    rows: list[list[float]] = []
    rates, over, off = [], 0, 0.0
    for size in SIZES:
        one = float(simulate(1, size, rng).mean())
        low = one - 1.96 * math.sqrt(one * (1 - one) / _TRIALS)
        limit, true = float(bound(1, size, _GAP, _SIGMA)), float(gaussian(1, size, _GAP, _SIGMA)[0])
        pure = simulate(size, size, rng).mean() if size > 1 else one
        tied = simulate(1, size, rng, shared=0.5).mean()
        rates.append(one)
        over += low > limit
        off = max(off, abs(one - true) / math.sqrt(true * (1 - true) / _TRIALS))
        rows.append([size, limit, true, one, float(pure), float(tied)])
    name = "simulated, Gaussian noise, r = 1"
    grows = all(b > a for a, b in pairwise(rates))
    found.findings += [
        exact(name, "no misranking rate exceeds the bound (sizes that do)", float(over), len(SIZES), over == 0),
        exact(name, "the rate is Φ(−rΔμ/(σ√2M)) (largest deviation in standard errors)", off, len(SIZES), off < 4),
        exact(name, "the rate rises with the size M (1 = yes)", float(grows), len(SIZES), grows),
    ]
    pures = [float(row[4]) for row in rows]
    fall = pures[0] > pures[-1]
    claim = "the theorem is about fixed r: at constant purity r = M the rate falls instead (rate at M = 32)"
    found.findings.append(exact("simulated, Gaussian noise, r = M", claim, pures[-1], _TRIALS, fall))
    heads = ["M", "bound", "exact", "simulated", "r = M", "half the noise shared in a unit"]
    found.tables.append((f"misranking, Δμ = {_GAP:g}, σ = {_SIGMA:g}, {_TRIALS:,} trials", heads, rows))


@dataclass(frozen=True, eq=False)
class _Units:
    """Units of one size: the atoms of each, its embedding, and how many texts the encoder cut."""

    members: list[list[int]]
    vectors: Tensor
    cut: int = 0


def _measured(found: Findings, world: World) -> None:
    vectors = world.graph.atoms.embeddings
    assert vectors is not None
    evidence = [sorted({atom for atom in atoms if atom >= 0}) for atoms in world.statements]
    asked = [at for at, atoms in enumerate(evidence) if atoms]
    queries = world.seeding.embeddings[[world.own[at] for at in asked]]
    similarity = (queries @ vectors.T).double().numpy()
    gold = [evidence[at] for at in asked]
    gap, sigma, spread = _model(similarity, gold)
    found.assumptions.append(
        f"{world.name}: A*(q) = the atom nearest to each gold statement (cosine ≥ 0.7): {len(asked)} questions, "
        f"{len(world.queries) - len(asked)} without any; s(q, a) = cosine; units = consecutive atoms of the corpus; "
        f"U⁻ = every unit without such an atom; Δμ = {gap:.3f}, σ = {sigma:.3f} within a question (Δμ/σ = "
        f"{gap / sigma:.2f}, over questions {spread}); real scores are neither independent within a unit nor of one "
        "distribution, so that the exact rate is no prediction here"
    )
    rows: list[list[Any]] = []
    by_mean, by_text = [], []
    for size in SIZES:
        units = _units(world, size)
        average = _averages(similarity, units.members)
        text = (queries @ units.vectors.T).double().numpy()
        of_mean, of_text, hits = _rates(average, text, units.members, gold)
        by_mean.append(of_mean)
        by_text.append(of_text)
        limit = float(np.mean(np.exp(-(hits**2) * gap**2 / (4 * sigma**2 * size))))
        means = [bootstrap_mean(values) for values in (of_mean, of_text)]
        shown = [f"{m.value:.3f} [{m.low:.3f}, {m.high:.3f}]" for m in means]
        rows.append([size, float(hits.mean()), limit, *shown, f"{units.cut / len(units.members):.0%}"])
    heads = ["M", "mean r", "bound", "misranked, mean of cosines", "misranked, embedded text", "texts cut"]
    found.tables.append((f"{world.name}: share of U⁻ that score at least as high as U⁺", heads, rows))
    for name, rates in (("mean of cosines", by_mean), ("embedded text", by_text)):
        found.findings += _trend(world.name, name, rates)
    within = sum(bootstrap_mean(rate).low > row[2] for rate, row in zip(by_mean, rows, strict=True))
    claim = "no rate (mean of cosines) exceeds the bound (sizes that do)"
    found.findings.append(exact(world.name, claim, float(within), len(SIZES), within == 0))


def _trend(world: str, name: str, rates: Sequence[FloatArray]) -> list[Finding]:
    """One finding for each doubling that the theorem orders, and one for the ends."""
    found = []
    for at, (one, other) in enumerate(pairwise(range(len(SIZES)))):
        step = bootstrap_difference(rates[other], rates[one])
        claim = f"{name}: misranking rises from M = {SIZES[one]} to {SIZES[at + 1]}"
        found.append(Finding(world, claim, step.value, step.low, step.high, step.n, judged(step)))
    whole = bootstrap_difference(rates[-1], rates[0])
    claim = f"{name}: misranking rises from atoms to units of {SIZES[-1]} atoms"
    return [*found, Finding(world, claim, whole.value, whole.low, whole.high, whole.n, judged(whole))]


def _model(similarity: FloatArray, gold: Sequence[Sequence[int]]) -> tuple[float, float, str]:
    """Δμ and σ of the atoms' scores within a question, averaged, and the middle half of Δμ/σ over questions."""
    gaps, variances = [], []
    for scores, atoms in zip(similarity, gold, strict=True):
        others = np.delete(scores, list(atoms))
        gaps.append(scores[list(atoms)].mean() - others.mean())
        variances.append(others.var())
    gap, sigma = float(np.mean(gaps)), math.sqrt(float(np.mean(variances)))
    low, high = np.percentile(np.array(gaps) / np.sqrt(variances), [25, 75])
    return gap, sigma, f"{low:.1f} to {high:.1f}"


def _units(world: World, size: int) -> _Units:
    """Consecutive atoms in the order of the corpus, `size` each, embedded as one text."""
    table = world.graph.atoms
    places = zip(
        table.occurrence_passage.tolist(),
        table.occurrence_span[:, 0].tolist(),
        table.occurrence_atom.tolist(),
        strict=True,
    )
    order = list(dict.fromkeys(atom for _, _, atom in sorted(places)))
    members = [order[at : at + size] for at in range(0, len(order) - size + 1, size)]
    if size == 1:
        assert table.embeddings is not None
        return _Units(members, table.embeddings[[one for (one,) in members]])
    texts, encoder = [" ".join(table.texts[atom] for atom in unit) for unit in members], world.pipeline.encoder
    cut = sum(len(spans) + 2 > encoder.max_length for spans in encoder.token_spans(texts))
    return _Units(members, encoder.encode(texts), cut)


def _averages(similarity: FloatArray, members: Sequence[Sequence[int]]) -> FloatArray:
    return np.asarray(similarity[:, np.array(members)].mean(axis=2))


def _rates(
    average: FloatArray, text: FloatArray, members: Sequence[Sequence[int]], gold: Sequence[Sequence[int]]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share of units without evidence that score at least as high as one with it, by question, and mean r.

    A question without a unit that holds evidence (the corpus's last atoms are left over) has NaN.
    """
    unit_of = {atom: at for at, unit in enumerate(members) for atom in unit}
    rates = np.full((2, len(gold)), np.nan)
    hits = np.zeros(len(gold))
    for row, atoms in enumerate(gold):
        found = [unit_of[atom] for atom in atoms if atom in unit_of]
        if not found:
            continue
        with_evidence = sorted(set(found))
        hits[row] = len(found) / len(with_evidence)
        without = np.ones(len(members), dtype=bool)
        without[with_evidence] = False
        for which, values in enumerate((average[row], text[row])):
            rates[which, row] = np.mean([(values[without] >= values[unit]).mean() for unit in with_evidence])
    return rates[0], rates[1], np.where(hits > 0, hits, np.nan)[~np.isnan(rates[0])]

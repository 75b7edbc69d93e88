"""A comparison as text for a terminal, and as comma-separated values."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Iterator, Sequence

from aeg.experiment.compare.changes import Change, Evidence
from aeg.experiment.compare.rows import MACRO, Comparison, Row, Versus
from aeg.experiment.compare.statistics import LEVEL
from aeg.experiment.table import aligned

_HEAD = (
    *("mean", "95 %", "n", "difference", "95 % paired", "p", "p (Holm)", "detectable", "win/tie/loss"),
    "",
)
_WIDTH = 110


def described(comparison: Comparison) -> str:
    """Return the tables, what stands under them, and the questions that changed most."""
    blocks = [_legend(comparison)]
    for metric in comparison.metrics:
        for dataset in comparison.datasets:
            if table := _table(comparison, metric, dataset):
                blocks.append("\n".join(table))
        blocks += ["\n".join(lines) for lines in _by_type(comparison, metric)]
    blocks += ["\n".join(_change(change, comparison.baseline)) for change in comparison.changes]
    blocks += [f"note: {note}" for note in comparison.notes]
    return "\n\n".join(blocks)


def as_csv(comparison: Comparison) -> str:
    """Return the rows as comma-separated values, fractions as they are; types of questions below the data sets."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ("value", "low", "high", "n", "excluded", "p", "corrected", "detectable", "wins", "ties", "losses")
    head = ["metric", "dataset", "type", "system", "baseline", "mean", "mean_low", "mean_high", "n"]
    writer.writerow([*head, *(f"difference_{name}" if name in names[:5] else name for name in names)])
    for row in comparison.rows:
        versus = [""] * len(names) if row.versus is None else [_plain(getattr(row.versus, name)) for name in names]
        means = [_plain(value) for value in (row.value, row.low, row.high, row.n)]
        writer.writerow([row.metric, row.dataset, "", row.system, comparison.baseline, *means, *versus])
    for of in comparison.types:
        means = ["", "", "", str(of.n), _plain(of.difference), "", "", str(of.n), "", "", "", ""]
        wins = [of.wins, of.ties, of.losses]
        writer.writerow([of.metric, of.dataset, of.type, of.system, comparison.baseline, *means, *wins])
    return out.getvalue()


def significance(versus: Versus | None) -> str:
    """Return `+` or `-` where the difference is significant after correction, else nothing."""
    if versus is None or not versus.corrected < LEVEL:
        return ""
    return "+" if versus.value > 0 else "-"


def _legend(c: Comparison) -> str:
    text = (
        f"baseline: {c.baseline}. Percent and points, * the best mean; differences are system - baseline, paired by "
        f"question, with the percentile bootstrap ({c.resamples:,} resamples). p: two-sided sign-flip randomisation "
        f"test ({c.flips:,} flips); p (Holm) is corrected for all {c.pairs} pairs shown, + and - mark p (Holm) < "
        f"{LEVEL:g}. detectable: the smallest true difference found with 80 % power at the 5 % level, uncorrected."
    )
    if c.averaged:
        text += f" {MACRO}: the unweighted mean over data sets, resampled within each."
    return textwrap.fill(text, _WIDTH)


def _table(c: Comparison, metric: str, dataset: str) -> list[str]:
    rows = [row for row in c.rows if (row.metric, row.dataset) == (metric, dataset)]
    if not rows:
        return []
    best = max(row.value for row in rows)
    body = [[_name(row, c.baseline), *_cells(row, best)] for row in rows]
    lines = aligned([[f"{metric}, {dataset}", *_HEAD], *body])
    return [lines[0].rstrip(), "-" * len(lines[0]), *(line.rstrip() for line in lines[1:])]


def _name(row: Row, baseline: str) -> str:
    return f"{row.system} (baseline)" if row.system == baseline else row.system


def _cells(row: Row, best: float) -> list[str]:
    mean = f"{100 * row.value:.1f}{'*' if row.value == best else ' '}"
    first = [mean, f"[{100 * row.low:.1f}, {100 * row.high:.1f}]", f"{row.n:,}"]
    if row.versus is None:
        return [*first, *["-"] * 6, ""]
    v = row.versus
    return [
        *first,
        f"{100 * v.value:+.1f}",
        f"[{100 * v.low:+.1f}, {100 * v.high:+.1f}]",
        p_value(v.p),
        p_value(v.corrected),
        f"{100 * v.detectable:.1f}",
        f"{v.wins}/{v.ties}/{v.losses}",
        significance(v),
    ]


def p_value(p: float) -> str:
    """Return a p value in few characters.

    Example:
        >>> p_value(0.0001), p_value(0.04321), p_value(1.0)
        ('<.001', '.043', '1')
    """
    if math.isnan(p):
        return "-"
    if p < 0.001:
        return "<.001"
    return "1" if p >= 0.9995 else f"{p:.3f}".removeprefix("0")


def _by_type(c: Comparison, metric: str) -> Iterator[list[str]]:
    for dataset in c.datasets:
        rows = [row for row in c.types if (row.metric, row.dataset) == (metric, dataset)]
        kinds = list(dict.fromkeys(row.type for row in rows))
        if len(kinds) < 2:
            continue
        cells = {(row.system, row.type): row for row in rows}
        largest = {kind: max(row.n for row in rows if row.type == kind) for kind in kinds}
        body = []
        for system in dict.fromkeys(row.system for row in rows):
            of = [cells.get((system, kind)) for kind in kinds]
            told = [f"{x.wins}/{x.ties}/{x.losses} ({100 * x.difference:+.1f})" if x else "-" for x in of]
            body.append([system, *told])
        head = [f"win/tie/loss (difference), {dataset}", *(f"{kind} (n={largest[kind]})" for kind in kinds)]
        yield [f"{metric} by question type", *aligned([head, *body])]


def _change(change: Change, baseline: str) -> list[str]:
    where = ", ".join(part for part in (change.dataset, change.part, change.question_id, change.type) if part)
    values = f"{100 * change.before.value:.1f} -> {100 * change.after.value:.1f}"
    lines = [f"changed most: {change.system} against {baseline} ({where}): {change.metric} {values}"]
    lines += _wrapped("  question: ", change.question) if change.question else []
    for name, side, sign in ((baseline, change.before, "-"), (change.system, change.after, "+")):
        lines += [f"  {name}:", *_evidence(side, sign)]
    return lines


def _evidence(side: Evidence, sign: str) -> Iterator[str]:
    for rank, unit in enumerate(side.units, start=1):
        yield from _wrapped(f"    {rank}. {' ' if unit.other else sign} ", unit.text or unit.id)
    if side.documents:
        names = ", ".join(f"{name}{' (gold)' if gold else ''}" for name, gold in side.documents)
        yield from _wrapped("    documents: ", names)
    if not side.units and not side.documents:
        yield "    (a run file has no evidence here)"


def _wrapped(head: str, text: str) -> Sequence[str]:
    short = textwrap.shorten(text, 400, placeholder=" ...")
    return textwrap.wrap(short, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head)) or [head.rstrip()]


def _plain(value: float) -> str:
    return "" if math.isnan(value) else repr(value)

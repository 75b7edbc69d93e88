"""What a run took, as the paper's Tables 4 and 7: time, calls, tokens and cost by module."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from aeg.experiment.table import aligned
from aeg.pipeline.accounts import EVALUATION, INDEX_SIDE, QUERY_SIDE, ModuleUsage

_HEAD = (
    *("module", "time s", "share", "calls", "cached", "failed", "prompt", "completion", "tokens", "share"),
    *("USD", "s/question"),
)
_INDEX, _QUERY, _TOTAL = "Index side", "Query side", "Total, evaluation apart"


def usage_record(table: Sequence[ModuleUsage], questions: int) -> dict[str, Any]:
    """Return the table as plain values: a list of modules with their tasks, and the two sides added up.

    Args:
        table: of `Accounts.table`.
        questions: how many were asked.
    """
    records = [{**dataclasses.asdict(row), "tokens": row.tokens} for row in table]
    sides: dict[str, Any] = {}
    for key, reused in (("now", False), ("reused", True)):
        rows = [row for row in table if row.reused == reused]
        sides[key] = {
            name: dataclasses.asdict(_sum(label, rows, modules)) | {"tasks": []}
            for name, label, modules in (
                ("index", _INDEX, INDEX_SIDE),
                ("query", _QUERY, QUERY_SIDE),
                ("evaluation", EVALUATION, (EVALUATION,)),
            )
        }
    return {"questions": questions, "modules": records, "sides": sides}


def usage_table(table: Sequence[ModuleUsage], questions: int, now: str = "This run") -> str:
    """Return the table as text: this run's, then that of the earlier runs whose artifacts it found.

    Args:
        table: of `Accounts.table`.
        questions: how many were asked.
        now: title of the first part.
    """
    blocks = [_block(now, [row for row in table if not row.reused], questions)]
    reused = [row for row in table if row.reused]
    if reused:
        blocks.append(_block("Reused: what earlier runs took for the artifacts that this run found", reused, questions))
    return "\n\n".join(blocks)


def _block(title: str, rows: Sequence[ModuleUsage], questions: int) -> str:
    total = _sum(_TOTAL, rows, (*INDEX_SIDE, *QUERY_SIDE))
    shown = [row for row in rows if row.module != EVALUATION]
    shown += [_sum(_INDEX, rows, INDEX_SIDE), _sum(_QUERY, rows, QUERY_SIDE), total]
    shown += [row for row in rows if row.module == EVALUATION]
    lines = aligned([_HEAD, *(_cells(row, total, questions) for row in shown)])
    lines.insert(-4 if shown[-1].module == EVALUATION else -3, "")
    cached = [sum(getattr(row, f"cached_{kind}_tokens") for row in rows) for kind in ("prompt", "completion")]
    note = (
        f"\nfrom the cache of replies: {cached[0]:,} prompt and {cached[1]:,} completion tokens" if any(cached) else ""
    )
    return f"{title} (tokens and US dollars that were paid)\n" + "\n".join(lines) + note


def _cells(row: ModuleUsage, total: ModuleUsage, questions: int) -> tuple[str, ...]:
    apart = row.module == EVALUATION
    asked = bool(row.calls or row.cache_hits)
    numbers = (row.calls, row.cache_hits, row.failures, row.prompt_tokens, row.completion_tokens, row.tokens)
    per_question = row.module in QUERY_SIDE or row.module == _QUERY
    return (
        row.module,
        f"{row.seconds:,.2f}",
        "" if apart else _share(row.seconds, total.seconds),
        *(f"{number:,}" if asked else "-" for number in numbers),
        "" if apart else _share(row.tokens, total.tokens),
        ("-" if row.cost is None else f"{row.cost:.4f}") if asked else "-",
        f"{row.seconds / questions:.3f}" if per_question and questions else "",
    )


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole and part else "-"


def _sum(label: str, rows: Sequence[ModuleUsage], modules: Sequence[str]) -> ModuleUsage:
    chosen = [row for row in rows if row.module in modules]
    costs = [row.cost for row in chosen]
    names = [
        spec.name for spec in dataclasses.fields(ModuleUsage) if spec.name not in ("module", "reused", "cost", "tasks")
    ]
    sums = {name: sum(getattr(row, name) for row in chosen) for name in names}
    cost = None if None in costs else sum(cost for cost in costs if cost is not None)
    return ModuleUsage(label, any(row.reused for row in chosen), cost=cost, tasks=(), **sums)

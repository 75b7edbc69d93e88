"""What differs between two run folders: circumstances, inputs, measures, rankings, answers, usage."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aeg.artifacts import MANIFEST, read_json
from aeg.errors import DataError

CIRCUMSTANCES = ("code", "versions", "device", "environment")
"""Kinds of differences that explain others, and are none of the result by themselves."""
ABSENT = "(absent)"
_ROW = ("part", "question_id", "method", "seed")


@dataclass(frozen=True)
class Difference:
    """One value that two runs do not share.

    Attributes:
        kind: `config`, `data`, `models`, `metrics`, `rankings`, `answers`, `usage`, `counts`, or one of
            `CIRCUMSTANCES`.
        where: what the value is.
        before, after: the value in the recorded run and in the other one.
    """

    kind: str
    where: str
    before: Any
    after: Any


@dataclass
class Comparison:
    """The differences of two runs, and how much was the same.

    Attributes:
        differences: in the order of what they are about: circumstances, inputs, results.
        tallies: by kind, how many values are `exact`, `within` the tolerance, and `differ`.
    """

    differences: list[Difference] = field(default_factory=list)
    tallies: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Whether inputs and results are the same up to the tolerance, whatever the circumstances."""
        return not any(difference.kind not in CIRCUMSTANCES for difference in self.differences)

    def take(self, kind: str, found: Iterator[tuple[str, Any, Any, str]]) -> None:
        """Count (where, before, after, `exact` or `within` or `differ`), and keep what differs."""
        tally = self.tallies.setdefault(kind, Counter())
        for where, before, after, how in found:
            tally[how] += 1
            if how == "differ":
                self.differences.append(Difference(kind, where, before, after))


def compare_runs(before: Path, after: Path, tolerance: float = 1e-6) -> Comparison:
    """Return what differs between two run folders.

    Args:
        before: the recorded run.
        after: the other one.
        tolerance: numbers that differ by no more, relative to the larger or absolutely, are the same; so are two
            units that changed places in a ranking where their scores differ by no more.

    Raises:
        DataError: if one of the folders holds no finished run, or a file of it cannot be read.
    """
    old, new = (read_manifest(folder) for folder in (before, after))
    found = Comparison()
    for kind, pick in _MANIFEST:
        found.take(kind, leaves(pick(old), pick(new), tolerance))
    found.take("metrics", leaves(_metrics(before), _metrics(after), tolerance))
    for kind, name, compare in (("rankings", "results", _ranked), ("answers", "answers", _answered)):
        file = f"{name}.parquet"
        found.take(kind, _rows(_table(before / file), _table(after / file), compare, tolerance))
    found.take("usage", leaves(_usage(before), _usage(after), tolerance))
    return found


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a finished run.

    Raises:
        DataError: if there is none.
    """
    if not (folder / MANIFEST).is_file():
        raise DataError(f"{folder}: no finished run here (no {MANIFEST}); give a run folder that `aeg run` wrote")
    content = read_json(folder / MANIFEST)
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        raise DataError(f"{folder / MANIFEST}: not the manifest of a run; give a run folder that `aeg run` wrote")
    return content


def leaves(before: Any, after: Any, tolerance: float, where: str = "") -> Iterator[tuple[str, Any, Any, str]]:
    """Yield every value of two trees of dicts and lists: where it is, both values, and how they compare.

    Example:
        >>> list(leaves({"a": 1.0, "b": [1]}, {"a": 1.0 + 1e-9, "b": [2]}, 1e-6))
        [('a', 1.0, 1.000000001, 'within'), ('b.0', 1, 2, 'differ')]
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*before, *after]):
            place = f"{where}.{key}" if where else str(key)
            yield from leaves(before.get(key, ABSENT), after.get(key, ABSENT), tolerance, place)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from leaves(old, new, tolerance, f"{where}.{at}")
    else:
        yield where, before, after, _how(before, after, tolerance)


def _how(before: Any, after: Any, tolerance: float) -> str:
    if before == after and type(before) is type(after):
        return "exact"
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (before, after))
    if numbers and (before == after or (math.isnan(before) and math.isnan(after))):
        return "exact"
    if numbers and math.isclose(before, after, rel_tol=tolerance, abs_tol=tolerance):
        return "within"
    return "differ"


def _metrics(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows of `metrics.json` by method, metric and group."""
    keys = ("method", "metric", "group")
    return {
        ", ".join(str(row[key]) for key in keys): {name: value for name, value in row.items() if name not in keys}
        for row in read_json(folder / "metrics.json")
    }


def _table(path: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        return {}
    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: not a readable table ({error}); run the experiment again") from None
    return {tuple(row[key] for key in _ROW): row for row in rows}


def _rows(before: Any, after: Any, compare: Any, tolerance: float) -> Iterator[tuple[str, Any, Any, str]]:
    for key in dict.fromkeys([*before, *after]):
        part, question, method, seed = key
        where = f"{part + ', ' if part else ''}{question}, {method}{'' if seed is None else f', seed {seed}'}"
        if key not in before or key not in after:
            old, new = ("there" if key in rows else ABSENT for rows in (before, after))
            yield where, old, new, "differ"
        else:
            yield compare(where, before[key], after[key], tolerance)


def _ranked(where: str, old: Any, new: Any, tolerance: float) -> tuple[str, Any, Any, str]:
    """Compare two rankings of one question: the first rank that differs, then what else the row holds."""
    swapped = False
    for names, scores in (("units", "unit_scores"), ("documents", "document_scores")):
        at = next((n for n, (a, b) in enumerate(zip(old[names], new[names], strict=False)) if a != b), None)
        if at is None and len(old[names]) != len(new[names]):
            at = min(len(old[names]), len(new[names]))
        if at is None:
            continue
        swapped = True
        if not _only_ties(old, new, names, scores, tolerance):
            place = f"{where}: {names}, rank {at + 1}"
            return place, *(_place(row, names, scores, at) for row in (old, new)), "differ"
    found = _worst(where, list(leaves(_plain(old), _plain(new), tolerance)))
    return (*found[:3], "within") if swapped and found[3] == "exact" else found


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without its rankings, and its measures by name."""
    kept = {key: value for key, value in row.items() if key not in ("units", "documents")}
    return {**kept, "metrics": dict(row["metrics"])}


def _only_ties(old: Any, new: Any, names: str, scores: str, tolerance: float) -> bool:
    """Whether every unit that changed its rank lies among units whose scores are closer than the tolerance."""
    if len(old[names]) != len(new[names]):
        return False
    score_of = dict(zip(new[names], new[scores], strict=True))
    for name, other, score in zip(old[names], new[names], old[scores], strict=True):
        if name != other and not math.isclose(score_of.get(name, math.inf), score, rel_tol=tolerance, abs_tol=1e-12):
            return False
    return True


def _place(row: Any, names: str, scores: str, at: int) -> Any:
    return [row[names][at], row[scores][at]] if at < len(row[names]) else ABSENT


def _answered(where: str, old: Any, new: Any, tolerance: float) -> tuple[str, Any, Any, str]:
    old, new = (row | {"metrics": dict(row["metrics"])} for row in (old, new))
    return _worst(where, list(leaves(old, new, tolerance)))


def _worst(where: str, found: list[tuple[str, Any, Any, str]]) -> tuple[str, Any, Any, str]:
    """The first leaf that differs, else `within` if any is no more than that, else `exact`."""
    for place, before, after, how in found:
        if how == "differ":
            return f"{where}: {place}", before, after, how
    return where, None, None, "within" if any(how == "within" for *_, how in found) else "exact"


def _usage(folder: Path) -> dict[str, dict[str, int]]:
    """Requests and tokens by module, the same whether a cache answered or a model, now or in an earlier run."""
    found: dict[str, Counter[str]] = {}
    for row in read_json(folder / "usage.json")["modules"]:
        sums = found.setdefault(row["module"], Counter())
        sums["requests"] += row["calls"] + row["cache_hits"]
        sums["failures"] += row["failures"]
        for kind in ("prompt", "completion"):
            sums[f"{kind}_tokens"] += row[f"{kind}_tokens"] + row[f"cached_{kind}_tokens"]
    return {module: dict(sums) for module, sums in found.items()}


def _parts(manifest: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {
        part: {name: facts[name] for name in names if name in facts}
        for part, facts in manifest.get("parts", {}).items()
    }


def _picked(*names: str) -> Any:
    return lambda manifest: {name: manifest[name] for name in names if name in manifest}


_MANIFEST: tuple[tuple[str, Any], ...] = (
    ("code", _picked("git", "sources", "plugins")),
    ("versions", _picked("aeg", "python", "platform", "libraries")),
    ("device", _picked("device", "threads")),
    ("environment", _picked("environment")),
    ("data", lambda m: {**_parts(m, ("data", "asked", "documents", "passages", "questions")), **_picked("files")(m)}),
    ("models", _picked("encoder", "llm", "prompts")),
    ("counts", lambda m: _parts(m, ("graph", "counts", "flags", "answers"))),
)

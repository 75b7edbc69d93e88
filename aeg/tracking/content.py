"""What a finished folder has to show: values, tables, plots and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aeg.artifacts import MANIFEST, read_json, write_text
from aeg.core.files import quoted
from aeg.tracking.journal import SWEEP
from aeg.tracking.secrets import Redactor

MOST_ROWS = 100_000  # of a table; trackers refuse larger ones
_TEXTS = ("table.txt", "usage.json", "metrics.json", MANIFEST, "log.txt", "sweep.json", "tracking.jsonl")
_TABLES = ("results.parquet", "answers.parquet", "texts.parquet")
_PLOT = "plot.png"
_CLEAN = "redacted"


@dataclass(frozen=True)
class Table:
    """Rows of a table, each with a value a column."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass
class Content:
    """What is shown of a folder.

    Attributes:
        summary: the values of all questions, by `method/metric`.
        config: what the manifest knows beside the config: commit, device, versions of libraries.
        tables, plots: by name.
        files: to be kept, by their name there.
        notes: what was left out, and why.
    """

    summary: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    plots: dict[str, Path] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def content_of_run(folder: Path) -> Content:
    """Return what a finished run has to show; secrets in its texts are taken out of copies in `wandb/redacted`.

    Raises:
        DataError: if one of its files is malformed.
    """
    redact, shown = Redactor(), Content()
    rows = read_json(folder / "metrics.json")
    shown.summary = summary(rows)
    facts = read_json(folder / MANIFEST)
    known = {name: facts[name] for name in ("aeg", "git", "libraries", "device", "questions") if name in facts}
    shown.config = {"run": redact.value(known)}
    shown.tables["metrics"] = table(rows)
    if (folder / "usage.json").is_file():
        modules = read_json(folder / "usage.json")["modules"]
        shown.tables["usage"] = table([{k: v for k, v in module.items() if k != "tasks"} for module in modules])
    if (folder / "results.parquet").is_file():
        _questions(folder / "results.parquet", shown)
    _gather(folder, shown, redact)
    return shown


def content_of_sweep(folder: Path) -> Content:
    """Return what a sweep has to show: the metrics of all its runs in one table.

    Raises:
        DataError: if one of its files is malformed.
    """
    shown, rows = Content(), []
    for run in read_json(folder / "sweep.json")["runs"]:
        metrics = folder / run["folder"] / "metrics.json"
        if metrics.is_file():
            named = {"run": run["id"], "name": run["name"], "system": run["system"], **_flat(run["axes"])}
            rows += [{**named, **row} for row in read_json(metrics)]
    shown.tables["runs"] = table(rows)
    _gather(folder, shown, Redactor())
    return shown


def content_for(folder: Path, kind: str) -> Content:
    """Return what a finished folder of a kind, `run` or `sweep`, has to show."""
    return content_of_sweep(folder) if kind == SWEEP else content_of_run(folder)


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the means over all questions by `method/metric`, those that there are.

    Example:
        >>> summary([{"method": "ppr", "metric": "mrr", "group": "all", "value": 0.5}])
        {'ppr/mrr': 0.5}
    """
    return {
        f"{row['method']}/{row['metric']}": row["value"]
        for row in rows
        if row["group"] == "all" and row["value"] is not None
    }


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return records as a table; a record that lacks a column has None there.

    Example:
        >>> table([{"a": 1}, {"a": 2, "b": 3}])
        Table(columns=['a', 'b'], rows=[[1, None], [2, 3]])
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return Table(columns, [[row.get(key) for key in columns] for row in rows])


def _questions(path: Path, shown: Content) -> None:
    """The measures of each question; no texts, and no ranking."""
    import pyarrow.parquet as pq

    names = ["part", "question_id", "type", "method", "seed", "metrics"]
    count = pq.read_metadata(path).num_rows
    if count > MOST_ROWS:
        shown.notes.append(f"no table of questions: {count:,} rows are more than {MOST_ROWS:,}; see {path.name}")
        return
    rows = pq.read_table(path, columns=names).to_pylist()
    shown.tables["questions"] = table([row | dict(row.pop("metrics")) for row in rows])


def _gather(folder: Path, shown: Content, redact: Redactor) -> None:
    """The folder's plot and files, without secrets."""
    if (folder / _PLOT).is_file():
        shown.plots["plot"] = shown.files[_PLOT] = folder / _PLOT
    for name in _TEXTS:
        if (folder / name).is_file():
            shown.files[name] = _clean(folder, folder / name, name, redact)
    for path in sorted((folder / "trec").glob("*")) if (folder / "trec").is_dir() else ():
        shown.files[f"trec/{path.name}"] = path
    for name in _TABLES:
        path = folder / name
        if path.is_file() and _holds_secret(path, redact):
            shown.notes.append(f"{name} is left out: something in it looks like a secret")
        elif path.is_file():
            shown.files[name] = path


def _clean(folder: Path, path: Path, name: str, redact: Redactor) -> Path:
    """A text file, or a copy of it without its secrets."""
    text = path.read_text(encoding="utf-8", errors="replace")
    clean = redact.text(text)
    if clean == text:
        return path
    copy = folder / "wandb" / _CLEAN / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    write_text(copy, clean)
    return copy


def _holds_secret(path: Path, redact: Redactor) -> bool:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    pattern = redact.pattern()
    file = pq.ParquetFile(path)
    for batch in file.iter_batches(batch_size=4096):
        for column in batch.columns:
            for texts in _texts(column):
                if pc.any(pc.match_substring_regex(texts, pattern)).as_py():
                    return True
    return False


def _texts(column: Any) -> Iterator[Any]:
    """The arrays of texts in a column, however deep."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        yield from _texts(column.dictionary)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield column
    elif pa.types.is_map(kind):
        yield from _texts(column.keys)
        yield from _texts(column.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _texts(column.flatten())
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            yield from _texts(part)


def _flat(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Values of axes that a table can hold."""
    return {key: value if isinstance(value, str | int | float | None) else quoted(value) for key, value in axes.items()}

"""What a table of the paper says: the section `paper:` of a config, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aeg.config.load import file_tree, find_config, taken
from aeg.errors import ConfigError, nearest

_KEYS = (
    *("table", "title", "measure", "same_quantity", "source", "notes", "columns", "main", "higher_is_better"),
    *("reference", "rows", "metric", "find"),
)
SOURCES = ("group", "graph", "seconds", "usage", "mean", "neighbourhood")


@dataclass(frozen=True)
class Reading:
    """One way to find our rows in a sweep.

    Attributes:
        name: in words, empty where there is one way only.
        rows: by the paper's row, the selector: axes or config keys with their values, `method`, `module`.
    """

    name: str
    rows: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class PaperTable:
    """A table or figure of the paper, and where our numbers for it are found.

    Attributes:
        table: its name, `Table 12`.
        title: what it is about.
        measure: the paper's quantity.
        same_quantity: whether ours is the same; where it is not, no difference is ever computed.
        source: the section that holds it.
        notes: where caption, table and prose differ, and what keeps ours from comparing.
        columns: by name, the selector of our value; empty for a column that only the paper has.
        main: the column that verdicts and rank correlation look at; None where there is none.
        higher_is_better: whether a larger value of `main` is better.
        reference: the row that others are compared with, or None.
        rows: the paper's values by row, in the order of `columns`; None where it has none.
        metric: our metric, one for all or by data set.
        find: readings.
    """

    table: str
    title: str
    measure: str
    same_quantity: bool
    columns: Mapping[str, Mapping[str, Any]]
    rows: Mapping[str, tuple[float | None, ...]]
    source: str = ""
    notes: tuple[str, ...] = ()
    main: str | None = None
    higher_is_better: bool = True
    reference: str | None = None
    metric: str | Mapping[str, str] = ""
    find: tuple[Reading, ...] = field(default_factory=tuple)

    @classmethod
    def from_section(cls, section: Mapping[str, Any], where: str = "paper") -> PaperTable:
        """Return the table that a `paper:` section describes.

        Raises:
            ConfigError: if a key is unknown or missing, a row has another number of values than there are columns,
                or a name does not refer to a row or column.

        Example:
            >>> table = PaperTable.from_section({"table": "Table 0", "title": "t", "measure": "m", "columns": {"A": {}},
            ...                                  "rows": {"ours": [1.5]}})
            >>> table.value("ours", "A")
            1.5
        """
        for key in section:
            if key not in _KEYS:
                raise ConfigError(f"{where}.{key}: unknown key. {nearest(str(key), _KEYS)}")
        for key in ("table", "title", "measure", "columns", "rows"):
            if not section.get(key):
                raise ConfigError(f"{where}.{key}: missing, expected a value")
        find = tuple(
            Reading(str(one.get("reading", "")), {str(row): dict(chosen) for row, chosen in one["rows"].items()})
            for one in section.get("find") or ()
        )
        table = cls(
            table=str(section["table"]),
            title=str(section["title"]),
            measure=str(section["measure"]),
            same_quantity=bool(section.get("same_quantity", True)),
            columns={str(name): dict(spec or {}) for name, spec in section["columns"].items()},
            rows={str(name): tuple(values) for name, values in section["rows"].items()},
            source=str(section.get("source", "")),
            notes=tuple(section.get("notes") or ()),
            main=section.get("main"),
            higher_is_better=bool(section.get("higher_is_better", True)),
            reference=None if section.get("reference") is None else str(section["reference"]),
            metric=section.get("metric") or "",
            find=find,
        )
        table._check(where)
        return table

    def value(self, row: str, column: str) -> float | None:
        """Return the paper's value of a cell."""
        return self.rows[row][list(self.columns).index(column)]

    def metric_of(self, dataset: str) -> str:
        """Return our metric on a data set."""
        return self.metric if isinstance(self.metric, str) else self.metric.get(dataset, "")

    def _check(self, where: str) -> None:
        for name, values in self.rows.items():
            if len(values) != len(self.columns):
                raise ConfigError(f"{where}.rows.{name}: got {len(values)} values for {len(self.columns)} columns")
            if not all(value is None or isinstance(value, int | float) for value in values):
                raise ConfigError(f"{where}.rows.{name}: got {list(values)}, expected numbers or null")
        self._check_columns(where)
        if self.main is not None:
            self._known(self.main, self.columns, f"{where}.main")
        if self.reference is not None:
            self._known(self.reference, self.rows, f"{where}.reference")
        for reading in self.find:
            for row in reading.rows:
                self._known(row, self.rows, f"{where}.find")

    def _check_columns(self, where: str) -> None:
        for name, spec in self.columns.items():
            if spec and sum(source in spec for source in SOURCES) != 1:
                raise ConfigError(f"{where}.columns.{name}: expected one of {', '.join(SOURCES)}, or {{}}")
            for other in spec.get("mean", ()):
                self._known(other, self.columns, f"{where}.columns.{name}.mean")

    @staticmethod
    def _known(name: str, among: Mapping[str, Any], where: str) -> None:
        if name not in among:
            raise ConfigError(f"{where}: got {name!r}. {nearest(name, among)}")


def expected(config: str | Path) -> PaperTable:
    """Return what the paper says of the table that a config repeats.

    Args:
        config: a file, or the name of a shipped one, e.g. `paper/table12`.

    Raises:
        ConfigError: if it has no section `paper:`, or a faulty one.
        DataError: if there is no such file.
    """
    path = find_config(config)
    section = _section(path)
    if section is None:
        raise ConfigError(f"{path}: has no section `paper:`, which says what the paper's table has")
    return PaperTable.from_section(section, f"{path.name}: paper")


def paper_configs() -> dict[str, Path]:
    """Return the shipped configs that repeat a table of the paper, by their names (`table12`)."""
    folder = find_config("paper/defaults").parent
    return {path.stem: path for path in sorted(folder.glob("*.yaml")) if _section(path) is not None}


def _section(path: Path) -> dict[str, Any] | None:
    """The section of a file, merged over those of the files that it extends."""
    found = taken(file_tree(path)).get("paper")
    return None if found is None else dict(found)

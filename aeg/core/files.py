"""Strict readers of text, JSON and JSON lines; errors name the file, the place, the cause and the remedy."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from aeg.errors import DataError, nearest

V = TypeVar("V")

BUILTIN = "builtin:sample"
"""The path that names a file of the sample corpus, which ships inside the package."""

REMEDY = "set data_root or AEG_DATA to the folder that holds it; the layout is described in README"
_CORRECT = "correct it, or get the file again"
_BOM = b"\xef\xbb\xbf"
_NAMES = {str: "a string", int: "an integer", bool: "true or false", list: "a list", dict: "an object"}


def resolve(root: Path | None, path: str) -> Path:
    """Return `path` relative to `root` (the working directory where it is None); an absolute path stays.

    Example:
        >>> resolve(Path("/data"), "medical").as_posix(), resolve(Path("/data"), "/tmp/x").as_posix()
        ('/data/medical', '/tmp/x')
    """
    given = Path(path).expanduser()
    return given if given.is_absolute() else (root or Path()) / given


def located(root: Path | None, path: str, sample: str) -> Path:
    """Return the file that `path` names: the sample corpus's file `sample` for `builtin:sample`, else see `resolve`.

    Example:
        >>> located(Path("/data"), "builtin:sample", "extraction.jsonl").parts[-4:]
        ('aeg', 'corpus', 'sample_data', 'extraction.jsonl')
    """
    if path == BUILTIN:
        return Path(str(files("aeg") / "corpus" / "sample_data" / sample))
    return resolve(root, path)


def quoted(value: Any) -> str:
    """Return a value as Python writes it, in ASCII, cut to a length that fits an error message."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def shown(value: Any) -> str:
    """Return a short description of a value for an error message.

    Example:
        >>> shown(3), shown({"a": 1}), shown([1, "b"])
        ('int 3', 'an object with keys a', "a list of 2: [1, 'b']")
    """
    if isinstance(value, dict):
        keys = ", ".join(map(str, list(value)[:5])) or "(none)"
        return f"an object with keys {ascii(keys)[1:-1]}"
    if isinstance(value, list):
        return f"a list of {len(value)}: {quoted(value[:30])}"
    return "null" if value is None else f"{type(value).__name__} {quoted(value)}"


def wrong(where: str, value: Any, expected: str) -> DataError:
    """Return the error for a value that is not what was expected at its place."""
    return DataError(f"{where}: got {shown(value)}, expected {expected}; {_CORRECT}")


def expect(value: Any, kind: type[V], where: str, expected: str = "") -> V:
    """Return `value` if it is of type `kind` (a bool is no integer; a string must be encodable).

    Raises:
        DataError: if it is not; the message starts with `where` and says what was `expected` (by default, `kind`).
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise wrong(where, value, expected or _NAMES[kind])
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            bad = f"lone surrogate {value[error.start]!a} at character {error.start}"
            raise DataError(f"{where}: got a {bad}, expected valid Unicode; {_CORRECT}") from None
    return value


def expect_text(value: Any, where: str) -> str:
    """Return `value` if it is a string of more than white space."""
    if not expect(value, str, where).strip():
        raise wrong(where, value, "a string with text in it")
    return value


def expect_list(value: Any, kind: type[V], where: str) -> list[V]:
    """Return `value` if it is a list whose items are all of type `kind`."""
    rows = expect(value, list, where, _list_of(kind))
    return [expect(row, kind, f"{where}[{n}]") for n, row in enumerate(rows)]


def _list_of(kind: type) -> str:
    return f"a list of {_NAMES[kind].split(maxsplit=1)[1]}s"


@dataclass(frozen=True)
class Item:
    """One JSON object of a file with its place, read field by field.

    A field that is absent or null takes the default; without a default that is an error.

    Example:
        >>> item = Item({"id": 7, "title": None}, "x.jsonl, line 3")
        >>> item.identifier("id"), item.string("title", default="")
        ('7', '')
        >>> item.string("text")
        Traceback (most recent call last):
        ...
        aeg.errors.DataError: x.jsonl, line 3: no field 'text'; expected a string; ...
    """

    values: Mapping[str, Any]
    where: str

    def place(self, key: str) -> str:
        """Return the place of a field, for error messages."""
        return f"{self.where}, field {key!r}"

    def value(self, key: str, expected: str = "it beside the others") -> Any:
        """Return a field that must be there, of whatever type."""
        if key not in self.values:
            hint = nearest(key, list(self.values)[:20])
            raise DataError(f"{self.where}: no field {key!r}; expected {expected}; {_CORRECT}. {hint}")
        return self.values[key]

    def _get(self, key: str, kind: type[V], default: V | None, expected: str = "") -> V:
        if default is not None and self.values.get(key) is None:
            return default
        expected = expected or _NAMES[kind]
        return expect(self.value(key, expected), kind, self.place(key), expected)

    def string(self, key: str, default: str | None = None, blank: bool = True) -> str:
        """Return a string field; `blank=False` refuses one of white space only."""
        value = self._get(key, str, default)
        return value if blank else expect_text(value, self.place(key))

    def identifier(self, key: str) -> str:
        """Return an id: a string that is not empty, or an integer as a string."""
        value = self.values.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.string(key, blank=False)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return a boolean field."""
        return self._get(key, bool, default)

    def strings(self, key: str, optional: bool = False, blank: bool = True) -> tuple[str, ...]:
        """Return a list of strings; `optional` reads an absent one as empty, `blank=False` is as for `string`."""
        rows = self._array(key, str, optional)
        if not blank:
            rows = [expect_text(row, f"{self.place(key)}[{n}]") for n, row in enumerate(rows)]
        return tuple(rows)

    def integers(self, key: str, optional: bool = False) -> tuple[int, ...]:
        """Return a list of integers; `optional` reads an absent one as empty."""
        return tuple(self._array(key, int, optional))

    def identifiers(self, key: str, optional: bool = False) -> tuple[str, ...]:
        """Return a list of ids, integers as strings; `optional` reads an absent one as empty."""
        rows = self._get(key, list, [] if optional else None)
        return tuple(Item({key: row}, f"{self.where}, {key}[{n}]").identifier(key) for n, row in enumerate(rows))

    def items(self, key: str) -> list[Item]:
        """Return a list of objects."""
        rows = self._array(key, dict, optional=False)
        return [Item(row, f"{self.place(key)}[{n}]") for n, row in enumerate(rows)]

    def pairs(self, key: str, kind: type[V], optional: bool = False) -> list[tuple[str, V]]:
        """Return a list of `[string, value of type kind]` pairs."""
        found = []
        for n, row in enumerate(self._array(key, list, optional)):
            where = f"{self.place(key)}[{n}]"
            if len(row) != 2:
                raise wrong(where, row, "a list of 2")
            found.append((expect(row[0], str, where), expect(row[1], kind, where)))
        return found

    def ignored(self, fields: Collection[str]) -> list[str]:
        """Return `ignored_field:NAME` for each field that is not one of `fields`, to be counted."""
        return [f"ignored_field:{key}" for key in self.values if key not in fields]

    def _array(self, key: str, kind: type[V], optional: bool) -> list[V]:
        rows = self._get(key, list, [] if optional else None, _list_of(kind))
        return expect_list(rows, kind, self.place(key))


def unreadable(path: Path, error: OSError, what: str) -> DataError:
    """Return the error for a file that cannot be opened, with the remedy."""
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path}: no such file; expected {what}; {REMEDY}")
    return DataError(f"{path}: cannot be read ({error.strerror}); expected {what}; check the path and its permissions")


def decode(raw: bytes, where: str, offset: int = 0) -> str:
    """Return bytes as UTF-8 text; the error names the byte, counted from `offset`."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte {offset + error.start} is 0x{raw[error.start]:02x}"
        raise DataError(f"{where}: not UTF-8 ({byte}); expected UTF-8 text; convert it, e.g. with iconv") from None


def read_text(path: Path, what: str) -> str:
    """Return a file's text, a leading byte-order mark dropped.

    Args:
        path: the file.
        what: what the file should be, for the error of a missing one.

    Raises:
        DataError: if the file is missing, cannot be read, or is not UTF-8 (with the byte's offset).
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, what) from None
    body = raw.removeprefix(_BOM)
    return decode(body, str(path), len(raw) - len(body))


def read_json(path: Path, kind: type[V], what: str) -> V:
    """Return the value of a JSON file whose top level must be of type `kind`.

    Raises:
        DataError: also if the JSON is broken (with line and column) or of another type.
    """
    text = read_text(path, what)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise DataError(f"{path}: broken JSON at {place} ({error.msg}); expected {what}; {_CORRECT}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: broken JSON ({error}); expected {what}; {_CORRECT}") from None
    return expect(value, kind, f"{path}, top level ({what})")


def read_items(path: Path, what: str) -> list[Item]:
    """Return the objects of a JSON file that holds a list of them."""
    rows = read_json(path, list, what)
    return [Item(expect(row, dict, f"{path}, item {n}"), f"{path}, item {n}") for n, row in enumerate(rows)]


def read_lines(path: Path, what: str) -> Iterator[Item]:
    """Yield the objects of a JSON lines file, one a line; blank lines are passed over.

    Raises:
        DataError: while iterating, with the line number, if a line is not UTF-8, broken, or no object.
    """
    try:
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                body = raw.removeprefix(_BOM) if number == 1 else raw
                where = f"{path}, line {number}"
                line = decode(body, where, len(raw) - len(body))
                if line.strip():
                    yield Item(expect(_parse_line(line, where, what), dict, where), where)
    except OSError as error:
        raise unreadable(path, error, what) from None


def _parse_line(line: str, where: str, what: str) -> Any:
    try:
        return json.loads(line.rstrip("\r\n"))  # past the line's end an error would be in the next line's column 1
    except json.JSONDecodeError as error:
        cause = f"column {error.colno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        cause = str(error)
    raise DataError(f"{where}: broken JSON ({cause}); expected {what}, one object a line; {_CORRECT}")


def check_unique(ids: Iterable[tuple[Hashable, str]], what: str, name: str = "id") -> None:
    """Check that no id comes twice.

    Args:
        ids: (id, place) in the file's order.
        what: what the ids name, e.g. `question`.
        name: what they are called.

    Raises:
        DataError: naming both places.
    """
    seen: dict[Hashable, str] = {}
    for identifier, where in ids:
        if identifier in seen:
            raise DataError(
                f"{where}: {what} {name} {quoted(identifier)} was given before at {seen[identifier]}; "
                f"expected distinct {name}s; rename or remove one"
            )
        seen[identifier] = where

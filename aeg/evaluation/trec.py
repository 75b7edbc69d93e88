"""TREC run and qrels files, for exchange with other tools.

A run has one line `query Q0 document rank score tag` a result, a qrels file one line `query 0 document relevance`
a judgement, fields separated by white space. So in ids and tags white space, `%` and characters that cannot be
printed are percent-encoded (UTF-8) on writing ("New York" becomes "New%20York"), and decoded on reading.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

from aeg.core.atomic import replacing
from aeg.errors import DataError

Rankings = Mapping[str, Sequence[tuple[str, float]]]
"""By query, (document, score), best first."""


_PLAIN = re.compile(r"[^\s%]+")


@dataclass(frozen=True)
class TrecRun:
    """A run as read from a file.

    Attributes:
        method: the tag of the tool that wrote it.
        rankings: by query, in the file's order, (document, score) by falling score, equal ones by rank.
    """

    method: str
    rankings: dict[str, list[tuple[str, float]]]

    def ranked(self, queries: Iterable[str]) -> list[list[str]]:
        """Return the documents of each of `queries`, best first; none for a query that the run lacks.

        Example:
            >>> TrecRun("bm25", {"q1": [("d2", 3.0), ("d1", 1.0)]}).ranked(["q1", "q2"])
            [['d2', 'd1'], []]
        """
        return [[document for document, _ in self.rankings.get(query, ())] for query in queries]


def write_run(path: str | os.PathLike[str], rankings: Rankings, method: str) -> int:
    """Write rankings as a TREC run with `method` as its tag, by rename, and return the number of empty ones.

    The format has no line for a query without results: it is missing from the file, hence the count. Documents are
    written by falling score, equal ones in the given order; note that trec_eval ignores ranks and orders equal
    scores by falling document id.

    Raises:
        DataError: on an empty id, a document that stands twice for a query, or a score that is not finite.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "ppr.run"
        >>> write_run(path, {"q1": [("New York", 0.5), ("d1", 0.75)], "q2": []}, "ppr")
        1
        >>> path.read_text().splitlines()
        ['q1 Q0 d1 1 0.75 ppr', 'q1 Q0 New%20York 2 0.5 ppr']
        >>> read_run(path)
        TrecRun(method='ppr', rankings={'q1': [('d1', 0.75), ('New York', 0.5)]})
    """
    lines = []
    for query, ranking in rankings.items():
        seen: set[str] = set()
        for rank, (document, score) in enumerate(sorted(ranking, key=lambda pair: -pair[1]), start=1):
            if document in seen or not math.isfinite(score):
                problem = "stands twice" if document in seen else f"has the score {score}"
                raise DataError(
                    f"{path}: query {query!r}: document {document!r} {problem}; expected each once, with a finite score"
                )
            seen.add(document)
            lines.append(f"{_encode(query)} Q0 {_encode(document)} {rank} {float(score)!r} {_encode(method)}\n")
    _write(Path(path), lines)
    return sum(not ranking for ranking in rankings.values())


def read_run(path: str | os.PathLike[str]) -> TrecRun:
    """Read a TREC run, keeping its tag as the method's name.

    Raises:
        DataError: if the file is missing or empty, or, with the line's number: not six fields, a rank or score that
            is no number, a document twice for a query, or a second tag.
    """
    found: dict[str, dict[str, tuple[float, int]]] = {}
    method: str | None = None
    for where, fields in _lines(path, 6, "query Q0 document rank score tag"):
        query, document, tag = (_decode(fields[i], where) for i in (0, 2, 5))
        score = _score(fields[4], where)
        if method not in (None, tag):
            raise DataError(f"{where}: tag {tag!r} after {method!r}; a run has one tag: split the file")
        method = tag
        documents = found.setdefault(query, {})
        if document in documents:
            raise DataError(f"{where}: document {document!r} stands twice for query {query!r}; keep one line")
        documents[document] = (score, _whole(fields[3], "rank", where))
    if method is None:
        raise DataError(f"{path}: no lines; expected `query Q0 document rank score tag`")
    rankings = {query: _ordered(documents) for query, documents in found.items()}
    return TrecRun(method, rankings)


def write_qrels(path: str | os.PathLike[str], qrels: Mapping[str, Mapping[str, int]]) -> int:
    """Write relevance judgements, by rename, and return the number of queries without any (missing in the file).

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "gold.qrels"
        >>> write_qrels(path, {"q1": {"d1": 1, "d2": 0}})
        0
        >>> read_qrels(path)
        {'q1': {'d1': 1, 'd2': 0}}
    """
    lines = [
        f"{_encode(query)} 0 {_encode(document)} {int(relevance)}\n"
        for query, judgements in qrels.items()
        for document, relevance in judgements.items()
    ]
    _write(Path(path), lines)
    return sum(not judgements for judgements in qrels.values())


def read_qrels(path: str | os.PathLike[str]) -> dict[str, dict[str, int]]:
    """Read relevance judgements: by query, the relevance of each judged document.

    Raises:
        DataError: if the file is missing or empty, or, with the line's number: not four fields, a relevance that is
            no whole number, or a document twice for a query.
    """
    qrels: dict[str, dict[str, int]] = {}
    for where, fields in _lines(path, 4, "query 0 document relevance"):
        query, document = _decode(fields[0], where), _decode(fields[2], where)
        judgements = qrels.setdefault(query, {})
        if document in judgements:
            raise DataError(f"{where}: document {document!r} stands twice for query {query!r}; keep one line")
        judgements[document] = _whole(fields[3], "relevance", where)
    if not qrels:
        raise DataError(f"{path}: no lines; expected `query 0 document relevance`")
    return qrels


def _ordered(documents: dict[str, tuple[float, int]]) -> list[tuple[str, float]]:
    ranked = sorted(documents.items(), key=lambda item: (-item[1][0], item[1][1]))
    return [(document, score) for document, (score, _) in ranked]


def _lines(path: str | os.PathLike[str], count: int, form: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (path and line number, fields) of each line that is not blank."""
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                fields = line.split()
                if fields and len(fields) != count:
                    raise DataError(f"{path}:{number}: got {len(fields)} fields, expected {count}: `{form}`")
                if fields:
                    yield f"{path}:{number}", fields
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; expected a TREC file of lines `{form}`") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); convert it") from None


def _whole(text: str, what: str, where: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise DataError(f"{where}: {what} {text!r}, expected a whole number")
    return int(text)


def _score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise DataError(f"{where}: score {text!r}, expected a finite number")
    return score


def _encode(name: str) -> str:
    if not name:
        raise DataError("got an empty id or tag; a TREC file needs at least one character")
    if _PLAIN.fullmatch(name) and name.isprintable():
        return name
    try:
        return "".join(char if _is_plain(char) else _percent(char) for char in name)
    except UnicodeEncodeError:
        raise DataError(f"id {name!r} is no valid Unicode text; repair it") from None


def _is_plain(char: str) -> bool:
    return char != "%" and char.isprintable() and not char.isspace()


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())


def _decode(name: str, where: str) -> str:
    try:
        return unquote_to_bytes(name).decode()
    except UnicodeDecodeError:
        raise DataError(f"{where}: {name!r} is not percent-encoded UTF-8; write a '%' as %25") from None


def _write(path: Path, lines: Iterable[str]) -> None:
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)

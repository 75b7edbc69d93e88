"""Recorded analyses of questions (complexity, entities, sub-questions): one strict reader of the file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from aeg.core.records import Query
from aeg.errors import DataError

BUILTIN = "builtin:sample"
"""Names the analyses of the sample corpus, which ship inside the package."""

FIELDS = ("id", "complexity", "entities", "sub_questions")
_EXPECTED = "one object a line with id, complexity (0 to 10), entities and sub_questions (lists of strings)"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class QuestionAnalysis:
    """What a model (or a person) said of one question.

    Attributes:
        id: the question's id.
        complexity: c(q) of eq. 4, in [0, 10].
        entities: the entities that the question names.
        sub_questions: its atomic sub-questions, each with some text.
    """

    id: str
    complexity: float
    entities: tuple[str, ...] = ()
    sub_questions: tuple[str, ...] = ()


@dataclass(frozen=True)
class AnalysisFile:
    """The analyses of one file, by question id.

    Attributes:
        path: the file.
        by_id: the analyses, in the file's order.
        counts: fields that were ignored, as `ignored_field:NAME`.
    """

    path: Path
    by_id: dict[str, QuestionAnalysis]
    counts: Counter[str]

    def of(self, queries: Sequence[Query], missing: str) -> list[QuestionAnalysis]:
        """Return the analysis of each question.

        Args:
            queries: the questions.
            missing: `error` refuses a question without analysis; `none` takes it as of complexity 0, without
                entities and sub-questions (`coverage` counts them).

        Raises:
            DataError: with `missing="error"`, naming how many and which.
        """
        absent = [query.id for query in queries if query.id not in self.by_id]
        if absent and missing == "error":
            named = ", ".join(repr(identifier) for identifier in absent[:3]) + (", ..." if len(absent) > 3 else "")
            raise DataError(
                f"{self.path}: got no analysis of {len(absent)} of {len(queries)} questions ({named}); "
                "expected one for each; add them, name the file of this corpus, or set missing: none"
            )
        return [self.by_id.get(query.id) or QuestionAnalysis(query.id, 0.0) for query in queries]

    def coverage(self, queries: Sequence[Query]) -> Counter[str]:
        """Return `counts` with `missing_questions` (no analysis) and `unknown_ids` (no such question).

        Example:
            >>> analyses = AnalysisFile(Path("a.jsonl"), {"7": QuestionAnalysis("7", 2.0)}, Counter())
            >>> sorted(analyses.coverage([Query("8", "Who?")]).items())
            [('missing_questions', 1), ('unknown_ids', 1)]
        """
        ids = {query.id for query in queries}
        found = Counter(self.counts)
        found["missing_questions"] = sum(query.id not in self.by_id for query in queries)
        found["unknown_ids"] = sum(identifier not in ids for identifier in self.by_id)
        return found


def locate(root: Path | None, path: str) -> Path:
    """Return the file that `path` names: `builtin:sample`, an absolute path, or one relative to `root`.

    Example:
        >>> locate(Path("/data"), "medical/question_analysis.jsonl").as_posix()
        '/data/medical/question_analysis.jsonl'
        >>> locate(None, "builtin:sample").name
        'question_analysis.jsonl'
    """
    if path == BUILTIN:
        return Path(str(files("aeg") / "corpus" / "sample_data" / "question_analysis.jsonl"))
    given = Path(path).expanduser()
    return given if given.is_absolute() else (root or Path()) / given


def read_analyses(path: Path) -> AnalysisFile:
    """Return the analyses of a JSON lines file; blank lines are passed over.

    Raises:
        DataError: if the file is missing, not UTF-8 or broken, a field is absent, of another type or out of
            range, or an id comes twice; the message names the line.
    """
    by_id: dict[str, QuestionAnalysis] = {}
    lines: dict[str, int] = {}
    counts: Counter[str] = Counter()
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); expected question analyses ({_EXPECTED}); set data_root "
            "or AEG_DATA to the folder that holds it, or take another decomposition or mention extraction"
        ) from None
    for number, line in enumerate(raw.removeprefix(_BOM).split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        values = _parse(line, where)
        counts.update(f"ignored_field:{key}" for key in values if key not in FIELDS)
        analysis = _analysis(values, where)
        if analysis.id in lines:
            raise DataError(
                f"{where}: question id {analysis.id!r} was given before in line {lines[analysis.id]}; "
                "expected distinct ids; remove one"
            )
        by_id[analysis.id], lines[analysis.id] = analysis, number
    return AnalysisFile(path, by_id, counts)


def _parse(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        cause = f"not UTF-8 at byte {error.start}"
    except json.JSONDecodeError as error:
        cause = f"broken JSON at column {error.colno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        cause = f"broken JSON: {error}"
    else:
        if isinstance(value, dict):
            return value
        cause = f"got {_shown(value)}"
    raise DataError(f"{where}: {cause}; expected {_EXPECTED}; correct the line")


def _analysis(values: dict[str, Any], where: str) -> QuestionAnalysis:
    absent = [key for key in FIELDS if key not in values]
    if absent:
        raise DataError(f"{where}: no field {absent[0]!r}; expected {_EXPECTED}; add it")
    return QuestionAnalysis(
        _identifier(values["id"], where),
        _complexity(values["complexity"], where),
        _strings(values["entities"], f"{where}, field 'entities'"),
        _strings(values["sub_questions"], f"{where}, field 'sub_questions'"),
    )


def _identifier(value: Any, where: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}, field 'id': got {_shown(value)}, expected a question's id; correct it")
    return value


def _complexity(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 10:
        raise DataError(f"{where}, field 'complexity': got {_shown(value)}, expected a number from 0 to 10; correct it")
    return float(value)


def _strings(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise DataError(f"{where}: got {_shown(value)}, expected a list of strings; correct it")
    for position, item in enumerate(value):
        if not isinstance(item, str) or not item.strip():
            raise DataError(f"{where}[{position}]: got {_shown(item)}, expected a string with text; correct it")
        if any("\ud800" <= char <= "\udfff" for char in item):
            raise DataError(f"{where}[{position}]: got {_shown(item)} with a lone surrogate; expected valid Unicode")
    return tuple(value)


def _shown(value: Any) -> str:
    text = "null" if value is None else f"{type(value).__name__} {value!a}"
    return text if len(text) <= 60 else text[:57] + "..."

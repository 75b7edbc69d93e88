"""Recorded analyses of questions (complexity, entities, sub-questions): one strict reader of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aeg.core.files import Item, check_unique, located, read_lines, wrong
from aeg.core.records import Query
from aeg.errors import DataError

FIELDS = ("id", "complexity", "entities", "sub_questions")
_EXPECTED = "question analyses in JSON lines (id, complexity from 0 to 10, entities, sub_questions)"


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
    return located(root, path, "question_analysis.jsonl")


def read_analyses(path: Path) -> AnalysisFile:
    """Return the analyses of a JSON lines file; blank lines are passed over.

    Raises:
        DataError: if the file is missing, not UTF-8 or broken, a field is absent, of another type or out of
            range, or an id comes twice; the message names the line.
    """
    items = list(read_lines(path, _EXPECTED))
    analyses = [_analysis(item) for item in items]
    check_unique(((found.id, item.where) for found, item in zip(analyses, items, strict=True)), "question")
    counts = Counter(name for item in items for name in item.ignored(FIELDS))
    return AnalysisFile(path, {found.id: found for found in analyses}, counts)


def _analysis(item: Item) -> QuestionAnalysis:
    return QuestionAnalysis(
        item.identifier("id"),
        _complexity(item),
        item.strings("entities", blank=False),
        item.strings("sub_questions", blank=False),
    )


def _complexity(item: Item) -> float:
    expected = "a number from 0 to 10"
    value = item.value("complexity", expected)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 10:
        raise wrong(item.place("complexity"), value, expected)
    return float(value)

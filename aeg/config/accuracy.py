"""Settings of answer accuracy, and what they say about comparing a table with the leaderboard."""

from __future__ import annotations

from dataclasses import dataclass

from aeg.config.ranges import Checked, param

_BENCH_ALPHA = 0.75
_BENCH_SIMILARITY = "shifted"


@dataclass(frozen=True)
class AccuracyConfig(Checked):
    """How an answer is scored: ACC = α · FC + (1 − α) · SS (paper, eq. 12 to 14).

    GraphRAG-Bench's own judge prompts are given as files: its two templates as they stand, in Python's `str.format`
    form without role lines, as `llm.prompts: {statements: FILE, statement_verdicts: FILE}`, with its worked examples
    pasted in place of `{examples}` (their braces doubled), together with `judge_prompts: graphrag_bench`. They have
    the placeholders that the shipped prompts have: `question` and `answer`; and `ground_truth` for the verdicts.

    Attributes:
        alpha: α in [0, 1]; the paper writes 0.7, GraphRAG-Bench's code has 0.75.
        similarity: SS is `cosine` (paper) or `shifted`, (cos + 1) / 2 (GraphRAG-Bench's code).
        judge_prompts: `own` for the shipped prompts and for files with the same form of reply; `graphrag_bench` for
            GraphRAG-Bench's files, whose reply lists statements under TP, FP and FN.
        repeat: questions whose verdicts are asked for a second time, for the judge's agreement with itself.
        repeat_seed: picks them.

    Example:
        >>> AccuracyConfig().note()
        "not comparable with the leaderboard: judge prompts are not GraphRAG-Bench's; alpha 0.7 where its code has
        0.75; similarity 'cosine' where its code has 'shifted'"
        >>> AccuracyConfig(alpha=0.75, similarity="shifted", judge_prompts="graphrag_bench").comparable
        True
    """

    alpha: float = param(0.7, ge=0, le=1)
    similarity: str = param("cosine", choices=("cosine", "shifted"))
    judge_prompts: str = param("own", choices=("own", "graphrag_bench"))
    repeat: int = param(0, ge=0)
    repeat_seed: int = 0

    @property
    def comparable(self) -> bool:
        """Whether prompts and formula are GraphRAG-Bench's; judge model and encoder have to be so as well."""
        return not self.differences()

    def differences(self) -> list[str]:
        """Return what keeps a table from being compared with the leaderboard, in words."""
        found = []
        if self.judge_prompts != "graphrag_bench":
            found.append("judge prompts are not GraphRAG-Bench's")
        if self.alpha != _BENCH_ALPHA:
            found.append(f"alpha {self.alpha:g} where its code has {_BENCH_ALPHA:g}")
        if self.similarity != _BENCH_SIMILARITY:
            found.append(f"similarity {self.similarity!r} where its code has {_BENCH_SIMILARITY!r}")
        return found

    def note(self) -> str:
        """Return the line that stands under a table of answer accuracy."""
        if differences := self.differences():
            return f"not comparable with the leaderboard: {'; '.join(differences)}"
        return "GraphRAG-Bench's judge prompts and formula: comparable where judge model and encoder are its own too"

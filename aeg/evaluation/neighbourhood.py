"""Quality of graph neighbourhoods, judged by a language model (paper, section 4.4 and Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from aeg.config.ranges import Checked, param
from aeg.core.numbering import as_number, numbered
from aeg.errors import ConfigError, DataError
from aeg.evaluation.answers import AnswerScores
from aeg.evaluation.asking import ask_judge

if TYPE_CHECKING:
    from aeg.backends.llm.asker import Asker

CRITERIA = ("correctness", "relevance", "consistency", "redundancy", "comprehensiveness")
_PROMPT = "neighbourhood"
_TOKENS = 1024

Score = Annotated[int, BeforeValidator(as_number), Field(ge=0, le=10)]


class NeighbourhoodReply(BaseModel):
    """A judge's scores of one neighbourhood."""

    model_config = ConfigDict(extra="ignore")
    reason: str = ""
    correctness: Score
    relevance: Score
    consistency: Score
    redundancy: Score
    comprehensiveness: Score


@dataclass(frozen=True)
class Neighbourhood:
    """An entity with what is one step away from it, as texts.

    Attributes:
        entity: the centre's name.
        facts: texts of the atoms that mention it, or of the edges at it, in an order that does not depend on chance.
        neighbours: names of the entities next to it, likewise.
    """

    entity: str
    facts: tuple[str, ...] = ()
    neighbours: tuple[str, ...] = ()


@dataclass(frozen=True)
class NeighbourhoodScores(AnswerScores):
    """The scores of each neighbourhood.

    Attributes:
        values: by criterion, float64 [entities] in [0, 10]; NaN where the neighbourhood is empty (skipped) or the
            judge's call failed.
        failed: bool [entities].
        entities: the centres.
        left_out: by entity, facts and neighbours beyond the cap, which the judge did not see.
    """

    entities: tuple[str, ...] = ()
    left_out: tuple[int, ...] = ()

    def means(self) -> dict[str, float]:
        """Return by criterion the mean over the entities that were scored; NaN where there is none."""
        return {name: float(np.nanmean(row)) if (~np.isnan(row)).any() else np.nan for name, row in self.values.items()}


def most_mentioned(mentions: Mapping[str, int], n: int = 10) -> list[str]:
    """Return the `n` names with the most mentions in the corpus, equal ones by name.

    Args:
        mentions: by entity, how often the corpus mentions it.
        n: how many, at least 1.

    Raises:
        DataError: if n is below 1.

    Source: section 4.4.

    Example:
        >>> most_mentioned({"Bix": 2, "Ann": 2, "Tarn Lab": 5}, n=2)
        ['Tarn Lab', 'Ann']
    """
    if n < 1:
        raise DataError(f"n: got {n}, expected a number of at least 1")
    return sorted(mentions, key=lambda name: (-mentions[name], name))[:n]


def render(neighbourhood: Neighbourhood, max_facts: int, max_neighbours: int) -> tuple[str, int]:
    """Return a neighbourhood as text, and how many facts and neighbours the caps left out of it.

    Nothing is reordered and equal texts stay: redundancy is judged.

    Args:
        neighbourhood: the centre with facts and neighbours.
        max_facts: facts shown, the first ones.
        max_neighbours: neighbours shown, likewise.

    Example:
        >>> text, left_out = render(Neighbourhood("Bix", ("Bix barks.", "Ann owns Bix."), ("Ann", "dog")), 1, 5)
        >>> print(text, left_out)
        Facts:
        [1] Bix barks.
        Neighbouring entities:
        [1] Ann
        [2] dog 1
    """
    facts, neighbours = neighbourhood.facts[:max_facts], neighbourhood.neighbours[:max_neighbours]
    blocks = [
        f"{title}\n{numbered(texts, first=1)}"
        for title, texts in (("Facts:", facts), ("Neighbouring entities:", neighbours))
        if texts
    ]
    left_out = len(neighbourhood.facts) - len(facts) + len(neighbourhood.neighbours) - len(neighbours)
    return "\n".join(blocks), left_out


@dataclass(frozen=True)
class NeighbourhoodMeasure(Checked):
    """Scores 1-hop neighbourhoods as a whole, from 0 to 10, on five criteria.

    Correctness, relevance to the centre, consistency (no contradictions), redundancy and comprehensiveness. Higher is
    better for all: 10 for redundancy means that nothing is said twice, as in Figure 3.

    Attributes:
        max_facts: facts of a neighbourhood that the judge is shown.
        max_neighbours: neighbours likewise.

    Source: section 4.4, "Semantic utility", and Figure 3.
    """

    role: ClassVar[str] = "judge"
    prompts: ClassVar[tuple[str, ...]] = (_PROMPT,)

    max_facts: int = param(100, ge=1)
    max_neighbours: int = param(100, ge=1)

    def score(self, neighbourhoods: Sequence[Neighbourhood], llm: Asker | None = None) -> NeighbourhoodScores:
        """Return the scores of each neighbourhood.

        Args:
            neighbourhoods: one a centre; an empty one is skipped.
            llm: the judge.

        Raises:
            ConfigError: if there is no judge.
        """
        if llm is None:
            raise ConfigError("neighbourhood quality needs a model: set llm.judge")
        from aeg.backends.llm.asker import Ask

        shown = [render(item, self.max_facts, self.max_neighbours) for item in neighbourhoods]
        rows = [row for row, (text, _) in enumerate(shown) if text]
        prompt = llm.prompt(_PROMPT)
        asks = [
            Ask(
                prompt=prompt,
                values={"entity": neighbourhoods[row].entity, "neighbourhood": shown[row][0]},
                subject=neighbourhoods[row].entity,
                reply=NeighbourhoodReply,
                max_tokens=_TOKENS,
            )
            for row in rows
        ]
        replies = ask_judge(llm, asks, "neighbourhoods")
        table: npt.NDArray[np.float64] = np.full((len(CRITERIA), len(shown)), np.nan)
        failed = np.zeros(len(shown), dtype=bool)
        for row, reply in zip(rows, replies, strict=True):
            failed[row] = reply.value is None
            if reply.value is not None:
                table[:, row] = [getattr(reply.value, name) for name in CRITERIA]
        return NeighbourhoodScores(
            values=dict(zip(CRITERIA, table, strict=True)),
            failed=failed,
            entities=tuple(item.entity for item in neighbourhoods),
            left_out=tuple(left_out for _, left_out in shown),
        )

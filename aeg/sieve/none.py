"""No sieve: every candidate stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from aeg.core.records import Query
from aeg.sieve.base import SIEVES, Candidate, Sieve, Sieved, check_pairs

if TYPE_CHECKING:
    from aeg.backends.llm.asker import Asker


@SIEVES.register("none")
@dataclass(frozen=True)
class NoSieve(Sieve):
    """Keeps every candidate (the paper's "w/o AS", Table 2).

    Example:
        >>> found = [Candidate(4, "a4", "Ann owns Bix.", 0.5), Candidate(2, "a2", "Bix barks.", 0.2)]
        >>> NoSieve().sieve([Query("1", "Who owns Bix?")], [found])[0].kept
        (4, 2)
    """

    def sieve(
        self,
        questions: Sequence[Query],
        candidates: Sequence[Sequence[Candidate]],
        llm: Asker | None = None,
        encoder: Any | None = None,
        device: torch.device | str = "cpu",
    ) -> list[Sieved]:
        """Return all candidates of each question; see `Sieve.sieve`."""
        check_pairs(questions, candidates)
        return [Sieved(tuple(candidate.row for candidate in found)) for found in candidates]

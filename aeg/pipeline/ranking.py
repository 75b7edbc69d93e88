"""What one method found for every question of a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from aeg.core.tensors import load_tensors, save_tensors


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranked units and documents of each question, by one method.

    Attributes:
        method: the label of the method.
        unit: `atom` or `passage`: what `units` are rows of.
        seed: the seed of chance; None for a deterministic method.
        units, unit_scores: [questions, depth]; −1 and 0 where there are fewer.
        documents, document_scores: [questions, passage_top_k]; rows of the sorted document ids; likewise.
        candidates, candidate_scores: [questions, width], the units that go on to the sieve, those of all effective
            queries united (eq. 10); likewise.
        iterations, residual: int64 and float64 [questions], the largest over a question's effective queries.
        flags: named bool [questions], true where any effective query has the flag.
        seconds: wall time for all questions when it was computed.
        engine: which of its engines the method took (`auto` chooses), where it has several.
    """

    method: str
    unit: str
    seed: int | None
    units: Tensor
    unit_scores: Tensor
    documents: Tensor
    document_scores: Tensor
    candidates: Tensor
    candidate_scores: Tensor
    iterations: Tensor
    residual: Tensor
    flags: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0
    engine: str = ""

    def save(self, path: Path) -> None:
        """Write the tensors; label, seed, seconds and engine belong to the artifact's manifest."""
        save_tensors(self.all_tensors(), path)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors with a row a question by name, flags left out."""
        return {name: getattr(self, name) for name in _TENSORS}

    def all_tensors(self) -> dict[str, Tensor]:
        """Return the tensors as files have them, flags included."""
        return self.tensors() | {f"flag.{name}": flag for name, flag in self.flags.items()}

    @classmethod
    def load(cls, path: Path, method: str, unit: str, seed: int | None, seconds: float, engine: str = "") -> Ranking:
        """Return the ranking saved in `path`.

        Raises:
            DataError: if the file cannot be read.
        """
        tensors = load_tensors(path, "ranking", "delete its folder and run again")
        return cls.of(tensors, method, unit, seed, seconds, engine)

    @classmethod
    def of(
        cls, tensors: Mapping[str, Tensor], method: str, unit: str, seed: int | None, seconds: float, engine: str = ""
    ) -> Ranking:
        """Return the ranking of the tensors that `all_tensors` gave."""
        flags = {name.removeprefix("flag."): t for name, t in tensors.items() if name.startswith("flag.")}
        found = {name: tensors[name] for name in _TENSORS}
        return cls(method=method, unit=unit, seed=seed, **found, flags=flags, seconds=seconds, engine=engine)


_TENSORS = (
    *("units", "unit_scores", "documents", "document_scores", "candidates", "candidate_scores"),
    *("iterations", "residual"),
)


def per_question(values: Tensor, effective_to_query: Tensor, num_queries: int) -> Tensor:
    """Return the largest value (for flags: any) over each question's effective queries.

    Example:
        >>> per_question(torch.tensor([1, 5, 2]), torch.tensor([0, 0, 1]), 2).tolist()
        [5, 2]
    """
    out = torch.zeros(num_queries, dtype=torch.float64)
    out.scatter_reduce_(0, effective_to_query, values.to(torch.float64), "amax")
    return out.to(values.dtype)

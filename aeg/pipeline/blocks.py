"""Questions in blocks: each block's ranking is a file of its own, so that an interrupted run goes on where it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from aeg.artifacts import Artifact
from aeg.core.tensors import load_tensors, save_tensors
from aeg.errors import DataError
from aeg.pipeline.ranking import Ranking

_FOLDER = "blocks"
_SECONDS, _ENGINE = "block.seconds", "block.engine"


@dataclass(frozen=True)
class Block:
    """A fixed stretch of a run's sorted list of questions.

    Attributes:
        index: its place, from 0.
        first, last: the questions, half open.
        start, stop: their effective queries, half open.
    """

    index: int
    first: int
    last: int
    start: int
    stop: int


def blocks(of_query: Tensor, questions: int, size: int) -> list[Block]:
    """Return the blocks of `size` questions each, the last one shorter where they do not divide evenly.

    Args:
        of_query: int64 [effective], ascending, the question of each effective query.
        questions: how many there are.
        size: at least 1.

    Example:
        >>> [(b.first, b.last, b.start, b.stop) for b in blocks(torch.tensor([0, 0, 1, 2]), 3, 2)]
        [(0, 2, 0, 3), (2, 3, 3, 4)]
    """
    edges = [*range(0, questions, size), questions]
    at = torch.searchsorted(of_query, torch.tensor(edges, dtype=torch.int64)).tolist()
    return [Block(i, edges[i], edges[i + 1], at[i], at[i + 1]) for i in range(len(edges) - 1)]


def joined(parts: Sequence[Ranking]) -> Ranking:
    """Return the rankings of consecutive blocks as one; seconds add up.

    Raises:
        DataError: if there is none.
    """
    if not parts:
        raise DataError("rankings: got no block of questions to join")
    found: dict[str, Any] = {
        name: _stacked([getattr(part, name) for part in parts], name) for name in parts[0].tensors()
    }
    names = dict.fromkeys(name for part in parts for name in part.flags)
    flags = {name: torch.cat([part.flags.get(name, _off(part)) for part in parts]) for name in names}
    return replace(parts[0], **found, flags=flags, seconds=sum(part.seconds for part in parts))


def _off(part: Ranking) -> Tensor:
    return torch.zeros(len(part.iterations), dtype=torch.bool)


def _stacked(parts: list[Tensor], name: str) -> Tensor:
    """One below the other; lists of candidates are as long as the longest of the run, row −1 and score 0 where none."""
    if parts[0].ndim == 1:
        return torch.cat(parts)
    width = max(part.shape[1] for part in parts)
    nothing = 0 if name.endswith("scores") else -1
    return torch.cat([pad(part, (0, width - part.shape[1]), value=nothing) for part in parts])


@dataclass(frozen=True)
class BlockFiles:
    """The blocks of one ranking artifact that are done, a file each, written by rename.

    Attributes:
        artifact: of the whole ranking.
        method, unit, seed: of the ranking, which files do not hold.
    """

    artifact: Artifact
    method: str
    unit: str
    seed: int | None

    def path(self, block: Block) -> Path:
        """Return where a block's file is, or will be."""
        return self.artifact.path / _FOLDER / f"{block.index:06d}.safetensors"

    def load(self, block: Block) -> Ranking | None:
        """Return a block's ranking; None where it is not done, or its file is damaged."""
        path = self.path(block)
        if not path.is_file():
            return None
        try:
            tensors = load_tensors(path, "block of a ranking", "run again")
        except DataError:
            return None
        seconds = float(tensors.pop(_SECONDS))
        engine = bytes(tensors.pop(_ENGINE).tolist()).decode()
        return Ranking.of(tensors, self.method, self.unit, self.seed, seconds, engine)

    def save(self, block: Block, ranking: Ranking) -> None:
        """Keep a block's ranking."""
        path = self.path(block)
        path.parent.mkdir(exist_ok=True)
        more = {
            _SECONDS: torch.tensor(ranking.seconds, dtype=torch.float64),
            _ENGINE: torch.tensor(list(ranking.engine.encode()), dtype=torch.uint8),
        }
        save_tensors({**ranking.all_tensors(), **more}, path)

    def drop(self) -> None:
        """Delete the files, once the whole ranking is kept."""
        for path in (self.artifact.path / _FOLDER).glob("*.safetensors"):
            path.unlink(missing_ok=True)

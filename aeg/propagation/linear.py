"""Methods whose scores are a linear map of the seeds, and the engine that folds the map into the embeddings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from aeg.core.kernels.memory import Space
from aeg.core.kernels.threads import compiled_threads
from aeg.core.kernels.tiles import Scaled
from aeg.core.operator import Operator
from aeg.core.seeds import Seeds
from aeg.propagation.base import Context, Info, Propagation
from aeg.propagation.engines import choose_engine
from aeg.propagation.fitting import tile_width
from aeg.propagation.folded import TILE, Folded
from aeg.propagation.layout import check_shape

ENGINES = ("auto", "iterate", "folded")


@dataclass(frozen=True)
class Linear(Propagation):
    """A method that gives K π for seeds π, with a matrix K of the graph.

    Engines: `iterate` computes K π for each query. `folded` keeps what queries are mixtures of
    (`aeg.propagation.folded`) and answers without a walk; it pays where all atoms are seeded by many queries. `auto`
    takes the one that should cost least for these seeds and this graph; the info says which it was.

    A subclass has the fields `tol` and `engine`, and defines `mapped` and `steps`.
    """

    if TYPE_CHECKING:
        tol: float
        engine: str

    @abstractmethod
    def mapped(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Tensor, Info]:
        """Return x [nodes, columns] and weights [nodes] such that K π = weights · x, for signed columns π too.

        Args:
            op: as `propagate` gets it.
            seeds: a tile as `propagate` gets it, whose columns may have any sign; overwritten.
            context: its `space` is used; it holds x until it is used again.
        """

    @property
    @abstractmethod
    def steps(self) -> float:
        """Products that the iteration should need for one column, roughly."""

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Scaled, Info]:
        """See `Propagation.propagate`."""
        x, weights, info = self.mapped(op, seeds, context)
        return Scaled(x, weights, torch.ones_like(x[0])), replace(info, engine="iterate")

    def tiles(
        self, op: Operator, seeds: Tensor | Seeds, context: Context | None = None, rows: int | None = None
    ) -> Iterator[tuple[int, Tensor, Info]]:
        """See `Propagation.tiles`."""
        engine = self._chosen(op, seeds, rows)
        if engine != "folded" or not isinstance(seeds, Seeds):
            yield from super().tiles(op, seeds, context, rows)
            return
        check_shape(op, seeds)
        tile = None if context is None else context.tile
        yield from self._kept(op, rows).tiles(seeds.to(op.device), tile or TILE)

    def settled(self, op: Operator, seeds: Tensor | Seeds, rows: int | None = None) -> Linear:
        """See `Propagation.settled`: the engine; what it keeps of the graph is computed for all queries at once."""
        method = replace(self, engine=self._chosen(op, seeds, rows))
        if method.engine == "folded" and isinstance(seeds, Seeds):
            method._kept(op, rows).prepare(seeds.to(op.device))
        return method

    def folded(self, op: Operator, rows: int) -> Folded:
        """Return the map's columns that queries are mixtures of, on the first `rows` nodes; nothing is solved yet."""
        return Folded(op, partial(replace(self, tol=self.tol / 8).core, op), rows, self.kept, self.tol)

    @property
    def kept(self) -> tuple[float, float] | None:
        """What K keeps of the seeds on connected and on isolated nodes, where K π is scaled to sum 1; else None."""
        return None

    def core(self, op: Operator, columns: Tensor) -> tuple[Tensor, Info]:
        """Return K b of signed columns b [nodes, columns], float32."""
        layout, space = self.layout(op), Space()
        width = tile_width(op, columns.shape[1])
        tile = space.take("tile", len(columns), width, like=columns, dtype=torch.float32)
        found, infos = [], []
        with compiled_threads():
            for part in columns.split(width, dim=1):
                tile.zero_()  # the last tile is padded, as compiled loops know some widths only
                rows = slice(None) if layout.position is None else layout.position
                tile[rows, : part.shape[1]] = part.to(torch.float32)
                if layout.weights is not None:
                    tile.mul_(layout.weights.unsqueeze(1))
                x, weights, info = self.mapped(layout.op, tile, Context(space=space))
                whole = (x * weights.to(x.dtype).unsqueeze(1)).to(torch.float32)
                found.append(whole[rows, : part.shape[1]].clone())
                infos.append(info.cut(part.shape[1]))
        return torch.cat(found, 1), Info.join(infos)

    def _chosen(self, op: Operator, seeds: Tensor | Seeds, rows: int | None) -> str:
        return choose_engine(self.engine, op, seeds, rows, self.steps)

    def _kept(self, op: Operator, rows: int | None) -> Folded:
        """The folded columns that the operator remembers."""
        count = op.num_nodes if rows is None else rows
        key = ("folded", self, count)
        if key not in op.memo:
            op.memo[key] = self.folded(op, count)
        found: Folded = op.memo[key]
        return found

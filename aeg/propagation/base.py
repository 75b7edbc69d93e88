"""What every propagation method shares: the interface, tiling over queries, flags, the registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from aeg.config.ranges import Checked
from aeg.core.kernels import compiled
from aeg.core.kernels.memory import Space, shares_memory
from aeg.core.kernels.threads import compiled_threads
from aeg.core.kernels.tiles import Scaled, Tile, take
from aeg.core.operator import Operator
from aeg.core.ranking import TopK
from aeg.core.seeds import Seeds
from aeg.propagation.fitting import fitted, tile_width
from aeg.propagation.layout import Layout, check_shape, loaded
from aeg.registry import Registry


@dataclass(frozen=True)
class Context:
    """What a method may want beside the operator and the seeds; every field may be left out.

    Attributes:
        seed: seed of chance for stochastic methods.
        tile: columns propagated at once; None takes 32 on the CPU (1 or 8 where there are so few), 128 on a GPU (8 or
            32 where there are so few; fewer where its memory is small).
        operators: operator of each edge type by name (`mentions`, `relates`, `synonym`), for a method whose
            `wants` names it.
        features: node features [nodes, d], for a method whose `wants` names it.
        query_embeddings: [queries, d]; `columns` says which of them a tile holds.
        columns: (start, stop) of the tile that is being propagated, set by the caller of `propagate`.
        query_keys: int64 [columns of the tile], set from the seeds; None derives keys from a column's content.
        ranked: k, where the caller wants the k best of the ranked rows only; None where it wants the scores.
        rows: int64, the rows of the operator that are ranked, set by the caller of `propagate`; None for all.
        space: memory that tiles share, set by the caller of `propagate`.
    """

    seed: int = 0
    tile: int | None = None
    operators: Mapping[str, Operator] = field(default_factory=dict)
    features: Tensor | None = None
    query_embeddings: Tensor | None = None
    columns: tuple[int, int] = (0, 0)
    query_keys: Tensor | None = None
    ranked: int | None = None
    rows: Tensor | None = None
    space: Space | None = None


@dataclass(frozen=True, eq=False)
class Info:
    """What a method says of each query.

    Attributes:
        iterations: int64 [queries], products with the operator.
        residual: float64 [queries], the method's own error measure; 0 where it has none.
        converged: bool [queries], whether `residual` met the tolerance.
        flags: named bool [queries]: `zero_seeds` (no mass: the scores are zero), `bad_seeds` (a NaN, an infinity
            or a negative number: the column was taken as zero), `tile_halved` (the device's memory held fewer queries
            at once than was asked for).
        engine: which of its engines a method used, where it has several.
    """

    iterations: Tensor
    residual: Tensor
    converged: Tensor
    flags: dict[str, Tensor] = field(default_factory=dict)
    engine: str = ""

    @classmethod
    def exact(cls, columns: int, iterations: int, device: torch.device) -> Info:
        """Return the info of a tile that was computed exactly in `iterations` products."""
        return cls(
            torch.full((columns,), iterations, dtype=torch.int64, device=device),
            torch.zeros(columns, dtype=torch.float64, device=device),
            torch.ones(columns, dtype=torch.bool, device=device),
        )

    @classmethod
    def join(cls, parts: list[Info]) -> Info:
        """Return the infos of consecutive tiles as one, on the CPU."""
        return cls(
            torch.cat([part.iterations for part in parts]).cpu(),
            torch.cat([part.residual for part in parts]).cpu(),
            torch.cat([part.converged for part in parts]).cpu(),
            {name: torch.cat([part.flags[name] for part in parts]).cpu() for name in parts[0].flags},
            parts[0].engine,
        )

    def cut(self, columns: int) -> Info:
        """Return the info of the first `columns` queries."""
        flags = {name: flag[:columns] for name, flag in self.flags.items()}
        return Info(self.iterations[:columns], self.residual[:columns], self.converged[:columns], flags, self.engine)


@dataclass(frozen=True)
class Propagation(Checked, ABC):
    """A propagation method: its fields are its parameters, and it is called as `method(op, seeds)`.

    A subclass defines `propagate` for one tile and `reference` in float64, and declares what it is; the shared
    contract (`aeg check-method NAME`) tests it by these declarations.

    Attributes:
        linear: scores of a mixture of seeds are the mixture of scores (seeds on nodes that have an edge).
        mass_preserving: a column's scores sum to 1 wherever its seeds are not zero.
        stochastic: scores are random; `reference` is their expectation, met within four standard errors.
        wants: fields of the context that are made for this method alone, as they cost time and memory:
            `operators`, `features`.
        tolerance: largest L1 distance of a column to the reference (deterministic methods).
    """

    linear: ClassVar[bool] = True
    mass_preserving: ClassVar[bool] = False
    stochastic: ClassVar[bool] = False
    wants: ClassVar[frozenset[str]] = frozenset()
    tolerance: ClassVar[float] = 1e-4

    @abstractmethod
    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor | Scaled, Info]:
        """Return the scores of one tile.

        Args:
            op: the operator.
            seeds: float32 [nodes, columns], each column a distribution (sum 1) or zero, its rows moved and weighed as
                `layout` says; may be overwritten.
            context: whatever else the method wants.

        Returns:
            scores, float32 [nodes, columns], finite and not negative, or what gives them when it is scaled; zero for a
            zero column.
        """

    @abstractmethod
    def reference(self, weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Return the exact scores (a stochastic method: their expectation) by dense linear algebra.

        Args:
            weights: float64 [nodes, nodes], symmetric, zero diagonal.
            seeds: float64 [nodes, columns], columns of sum 1 or 0.
        """

    def __call__(self, op: Operator, seeds: Tensor | Seeds, context: Context | None = None) -> tuple[Tensor, Info]:
        """Return the scores of all queries, float32 [nodes, queries] on the operator's device, and the info.

        Args:
            op: the operator.
            seeds: [nodes, queries], or `Seeds`. Columns are scaled to sum 1 (eq. 6). A column with a NaN, an
                infinity or a negative number is taken as zero and flagged; the others are not touched by it.
            context: see `Context`.

        Raises:
            DataError: if the seeds do not have one row a node.
        """
        count = seeds.num_queries if isinstance(seeds, Seeds) else seeds.shape[1] if seeds.ndim == 2 else 0
        out = torch.empty(op.num_nodes, count, device=op.device)
        infos = []
        with compiled_threads():
            for start, scores, info in self.tiles(op, seeds, context):
                out[:, start : start + scores.shape[1]] = scores
                infos.append(info)
        return out, Info.join(infos) if infos else Info.exact(0, 0, torch.device("cpu"))

    def settled(self, op: Operator, seeds: Tensor | Seeds, rows: int | None = None) -> Propagation:
        """Return the method with what it would choose by all these queries chosen, for queries that come in parts.

        Args:
            op: the operator.
            seeds: of all queries.
            rows: rows whose scores are wanted; None for all.
        """
        return self

    def layout(self, op: Operator) -> Layout:
        """Return what `propagate` gets for an operator: by default its nodes in an order that suits the caches."""
        return Layout(op) if self.wants else Layout(op.arranged.op, op.arranged.position)

    def tiles(
        self, op: Operator, seeds: Tensor | Seeds, context: Context | None = None, rows: int | None = None
    ) -> Iterator[tuple[int, Tensor, Info]]:
        """Yield (first query, scores [nodes, columns], info) tile by tile, so that nothing larger is held.

        Tiles have a fixed width (the last is padded with zeros), so a column does not depend on its neighbours. A
        tile that the device's memory does not hold is halved, and so are those after it (flag `tile_halved`).
        Inside, the nodes are in an order that suits the caches (`Operator.arranged`), except for methods that
        want more of the context than the seeds.

        Args:
            op: the operator.
            seeds: as for `__call__`.
            context: likewise.
            rows: yield the scores of the first so many nodes only (atoms come first in the Atom-Entity Graph).
        """
        context = context or Context()
        check_shape(op, seeds)
        moved = seeds.to(op.device)
        count = moved.num_queries if isinstance(moved, Seeds) else moved.shape[1]
        width = context.tile or tile_width(op, count)
        layout = self.layout(op)
        position, fast = layout.position, compiled(layout.op.kernel)
        everything = torch.arange(op.num_nodes, device=op.device) if position is None else position
        ranked = None if position is None and rows is None else everything[:rows]

        def run(first: int, width: int) -> Iterator[tuple[int, Tensor, Info]]:
            space, tiles = Space(), loaded(moved, width, layout, fast, first)
            while True:
                with compiled_threads() if fast else nullcontext():
                    part = self._tile(next(tiles, None), layout, context, space, ranked, rows, count)
                if part is None:
                    return
                yield part

        yield from fitted(run, width, op)

    def _tile(
        self,
        loaded: tuple[int, Tile, Tensor | None] | None,
        layout: Layout,
        context: Context,
        space: Space,
        ranked: Tensor | None,
        rows: int | None,
        count: int,
    ) -> tuple[int, Tensor, Info] | None:
        """What `tiles` yields for one tile; None after the last."""
        if loaded is None:
            return None
        start, tile, keys = loaded
        width = tile.seeds.shape[1]
        columns = min(width, count - start)
        at = replace(context, tile=width, columns=(start, start + columns), rows=ranked, query_keys=keys, space=space)
        scores, info = self.propagate(layout.op, tile.seeds, at)
        flags = {**info.flags, "zero_seeds": tile.zero, "bad_seeds": tile.bad}
        info = replace(info, flags=flags).cut(columns)
        if ranked is None or layout.position is None:
            if isinstance(scores, Scaled):
                scores = scores.all(compiled(layout.op.kernel)).clone()  # its memory is used again
            elif shares_memory(scores, tile.seeds):
                scores = scores.clone()
            return start, scores[:rows, :columns], info
        return start, take(scores, ranked, columns, compiled(layout.op.kernel)), info


METHODS: Registry[Propagation] = Registry("propagation method")


def make(name: str, **params: Any) -> Propagation:
    """Return the propagation method `name`.

    Raises:
        ConfigError: if the name or a parameter is unknown, or a value is out of range.

    Example:
        >>> import torch
        >>> from aeg import Operator
        >>> from aeg.propagation import make
        >>> op = Operator.from_edges(4, torch.tensor([[0, 1], [1, 2]]))
        >>> seeds = torch.tensor([[0.5], [0.0], [0.0], [0.5]])
        >>> scores, info = make("ppr", restart=0.5)(op, seeds)
        >>> [round(x, 4) for x in scores.squeeze().tolist()]
        [0.3889, 0.2222, 0.0556, 0.3333]
        >>> bool(info.converged)
        True
    """
    return METHODS.make(name, **params)


def search(
    method: Propagation,
    op: Operator,
    seeds: Tensor | Seeds,
    k: int,
    num_candidates: int | None = None,
    context: Context | None = None,
) -> tuple[Tensor, Tensor, Info]:
    """Return the k best nodes of each query without holding the scores of all queries.

    Args:
        method: the propagation method.
        op: the operator.
        seeds: [nodes, queries], or `Seeds`.
        k: at least 1.
        context: see `Context`.
        num_candidates: rank only the first so many nodes (atoms come first in the Atom-Entity Graph).

    Returns:
        rows, int64 [queries, k] (−1 where fewer have a positive score), scores [queries, k], and the info.

    Example:
        >>> import torch
        >>> from aeg import Operator
        >>> op = Operator.from_edges(3, torch.tensor([[0, 1], [1, 2]]))
        >>> rows, scores, _ = search(make("none"), op, torch.eye(3), k=2)
        >>> rows.tolist()
        [[0, -1], [1, -1], [2, -1]]
    """
    best, infos = TopK(k), []
    with compiled_threads():
        for _, scores, info in method.tiles(op, seeds, replace(context or Context(), ranked=k), num_candidates):
            best.add(scores)
            infos.append(info)
    return *best.result(), Info.join(infos) if infos else Info.exact(0, 0, torch.device("cpu"))

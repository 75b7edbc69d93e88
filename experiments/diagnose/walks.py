"""The walk of each question, propagated again with the scores of all nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from aeg.pipeline.methods import LabelledMethod
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.seeding import Seeding
from aeg.propagation.base import Context

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Walk:
    """One question's scores and seeds, its effective queries united.

    Attributes:
        question: row of the question.
        first: its first effective query.
        columns: scores [nodes, effective queries], float32.
        mass: scores [nodes], the mean over effective queries, each scaled to sum 1.
        seeds: share of the seed mass by node, largest first; not those on all atoms.
        everywhere: all atoms are seeded besides.
    """

    question: int
    first: int
    columns: torch.Tensor
    mass: FloatArray
    seeds: dict[int, float]
    everywhere: bool


class Walks:
    """Propagates the questions of one corpus by one method."""

    def __init__(self, retriever: Retriever, seeding: Seeding, item: LabelledMethod) -> None:
        self._retriever, self._seeding, self._item = retriever, seeding, item

    def __iter__(self) -> Iterator[Walk]:
        retriever, seeding, item = self._retriever, self._seeding, self._item
        seeds, _ = retriever.seeds(seeding, item.seeds)
        of_query = seeding.of_query.tolist()
        group: list[tuple[int, torch.Tensor]] = []
        for start, scores, _ in item.method.tiles(retriever.operator, seeds, self._context(), None):
            for column in range(scores.shape[1]):
                at = start + column
                if group and of_query[at] != of_query[group[0][0]]:
                    yield self._united(group)
                    group = []
                group.append((at, scores[:, column].cpu()))
        if group:
            yield self._united(group)

    def everywhere(self) -> torch.Tensor:
        """Return the scores [nodes, 1] with all nodes seeded alike."""
        nodes = self._retriever.operator.num_nodes
        scores, _ = self._item.method(self._retriever.operator, torch.ones(nodes, 1) / nodes, self._context())
        return scores.cpu()

    def _context(self) -> Context:
        wants, retriever = self._item.method.wants, self._retriever
        return Context(
            seed=retriever.config.seeds[0] if self._item.method.stochastic else 0,
            operators=retriever.operators if "operators" in wants else {},
            features=retriever.features if "features" in wants else None,
            query_embeddings=self._seeding.embeddings,
        )

    def _united(self, group: list[tuple[int, torch.Tensor]]) -> Walk:
        seeds, _ = self._retriever.seeds(self._seeding, self._item.seeds)
        columns = torch.stack([column for _, column in group], dim=1)
        total = columns.double().sum(0)
        mass = (columns.double() / total.where(total > 0, 1.0)).mean(1)
        shares: dict[int, float] = {}
        first, last = group[0][0], group[-1][0]
        _, nodes, weights = seeds.entries(first, last + 1)
        for node, weight in zip(nodes.tolist(), weights.double().tolist(), strict=True):
            shares[node] = shares.get(node, 0.0) + weight
        dense = seeds.dense
        everywhere = dense is not None and bool((dense.scale[first : last + 1] != 0).any())
        whole = sum(shares.values())
        ordered = sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))
        return Walk(
            int(self._seeding.of_query[first]),
            first,
            columns,
            mass.numpy(),
            {node: weight / whole for node, weight in ordered},
            everywhere,
        )

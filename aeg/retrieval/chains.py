"""Resonance chains: the walks from a query's seeds to an atom that its score is the sum of (paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from aeg.core.operator import Operator
from aeg.retrieval.chains_search import Chain, Chains, heaviest_chains
from aeg.retrieval.chains_sum import WalkSum, walk_sums
from aeg.retrieval.chains_walks import Walks

__all__ = ["Chain", "Chains", "Resonance", "WalkSum", "Walks", "heaviest_chains", "resonance", "walk_sums"]


@dataclass(frozen=True)
class Resonance:
    """Where the score of one node comes from.

    Attributes:
        found: its heaviest chains.
        walks: the sum of all walks into it, which is its score up to `walks.tail`.
    """

    found: Chains
    walks: WalkSum

    def share(self, chain: Chain) -> float:
        """Return the share of a chain in the node's score, in [0, 1]; 0 where there is no score."""
        return chain.mass / self.walks.mass if self.walks.mass > 0 else 0.0

    @property
    def covered(self) -> float:
        """The share of the score that the chains carry together, in [0, 1]."""
        return min(sum(self.share(chain) for chain in self.found.chains), 1.0)


def resonance(
    op: Operator, walks: Walks, seeds: Tensor, nodes: Sequence[int], k: int = 5, simple: bool = False
) -> list[Resonance]:
    """Return the heaviest chains of one query into each of some nodes, with the score that they are parts of.

    Args:
        op: the operator.
        walks: what the method's scores are sums of (`aeg.explain.walk_account`).
        seeds: [nodes], of one query; scaled to sum 1.
        nodes: where the chains end.
        k: chains of each.
        simple: only chains that visit no node twice; the walks that do are in the sum all the same.

    Raises:
        DataError: if the seeds do not fit, or a node lies outside the operator.

    Source:
        Paper, section 3.3.

    Example:
        >>> import torch
        >>> op = Operator.from_edges(2, torch.tensor([[0], [1]]))
        >>> found, = resonance(op, Walks("transition", (0.5,), 0.5), torch.tensor([1.0, 0.0]), [1], k=1)
        >>> found.found.chains[0].nodes, round(found.covered, 2)
        ((0, 1), 0.75)
    """
    chains = heaviest_chains(op, walks, seeds, nodes, k, simple)
    sums = walk_sums(op, walks, seeds, nodes)
    return [Resonance(found, whole) for found, whole in zip(chains, sums, strict=True)]

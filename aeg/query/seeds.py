"""From links and similarities to seeds: π ∝ α · r_atom + r_ent (paper, eq. 5 and 6)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aeg.config.schema import SeedsConfig
from aeg.core.records import EffectiveQuery
from aeg.core.seeds import DenseSeeds, Seeds
from aeg.core.tables import AtomTable, EntityTable
from aeg.errors import ConfigError, DataError
from aeg.query.links import Links
from aeg.query.similarity import AtomWeights, min_max, nearest_atoms, spread_over_all


@dataclass(frozen=True, eq=False)
class SeedTrace:
    """What the seeds of each effective query are made of.

    Attributes:
        entity_mass, atom_mass: float64 [effective]; the shares of the two parts after normalisation (eq. 6);
            both 0 where there are no seeds.
        num_entities: int64 [effective]; entities with a weight above 0.
        flags: bool [effective] by name: `fallback` (no linked entity: the nearest atoms are the seeds),
            `no_seeds`, `bad_embedding` (all zero or not finite).
        atom_weights: r_atom, not scaled.
    """

    entity_mass: Tensor
    atom_mass: Tensor
    num_entities: Tensor
    flags: dict[str, Tensor]
    atom_weights: AtomWeights

    @cached_property
    def num_atoms(self) -> Tensor:
        """Atoms with a weight above 0, int64 [effective]; counted when first asked for."""
        return torch.where(self.atom_mass > 0, self.atom_weights.counts(), 0)


def needs_atoms(config: SeedsConfig) -> bool:
    """Tell whether every query seeds atoms, so that embeddings must be given.

    Where it is false, embeddings serve only the fall-back of queries without a linked entity.

    Example:
        >>> needs_atoms(SeedsConfig("alpha", alpha=0.1)), needs_atoms(SeedsConfig("alpha", alpha=0.0))
        (True, False)
    """
    return (config.alpha if config.balance == "alpha" else config.atom_share) > 0


def query_keys(effective: Sequence[EffectiveQuery]) -> Tensor:
    """Return a stable signed 64-bit number of each query: the first 8 bytes of its text's SHA-256.

    Example:
        >>> query_keys([EffectiveQuery(0, "Who leads Tarn Lab?")]).tolist()
        [-7095483593219571942]
    """
    digests = b"".join(hashlib.sha256(item.text.encode()).digest()[:8] for item in effective)
    return torch.from_numpy(np.frombuffer(digests, dtype=">i8").astype(np.int64))


def build_seeds(
    links: Links,
    atoms: AtomTable,
    entities: EntityTable,
    query_embeddings: Tensor | None,
    config: SeedsConfig,
    nearest: Any | None = None,
    keys: Tensor | None = None,
    trust: Tensor | None = None,
    words: tuple[Tensor, Tensor] | None = None,
) -> tuple[Seeds, SeedTrace]:
    """Return the seeds of the effective queries; atom a is node a, entity e is node `len(atoms) + e`.

    r_atom is the cosine of effective query and atom, min-max scaled over the atoms considered (the
    `atom_top_k` nearest, or all): the least similar of them weighs 0, the most similar 1, all 1 where they
    are equal. With `balance: alpha` π ∝ α · r_atom + w · r_ent (w: `entity_weight`); with `balance: share` the two
    parts are scaled to sums `atom_share` and 1 − `atom_share`, and one alone gets everything; with `balance: trust`
    the atoms' share is `atom_share` · (1 − τ). A query without a linked entity is seeded on its `fallback_top_k`
    nearest atoms instead and flagged (0: no such fall-back). `lexical_share` of what atoms get goes to the best by
    BM25, min-max scaled likewise; all of it where a query has no embedding, none where no atom shares a word.

    Args:
        links: the linked entities of each effective query.
        atoms: the graph's atoms, with embeddings where any are needed.
        entities: the graph's entities.
        query_embeddings: [effective, d], unit rows; None where nothing was embedded. A row that is all zero
            or not finite counts as not embedded and is flagged.
        config: the balance.
        nearest: an index over the atoms, `search(queries, k) -> (scores, rows)`; exact search where None.
        keys: int64 [effective], `query_keys`; what random numbers of stochastic methods are keyed by.
        trust: τ, float64 [effective] in [0, 1] (`aeg.query.trust`), for `balance: trust`.
        words: rows [effective, k] (−1 where there are fewer) and BM25 scores of the best atoms, for `lexical_share`.

    Raises:
        ConfigError: if atoms are to be seeded and there are no query embeddings.
        DataError: if the atoms have no embeddings, shapes do not fit, or a link is out of range.

    Source: section 3.3, eq. 5 and 6.
    """
    count, num_nodes = len(links), len(atoms) + len(entities)
    vectors, queries = _embeddings(count, atoms, query_embeddings, config)
    if keys is not None and len(keys) != count:
        raise DataError(f"seeds: got {len(keys)} keys, expected {count}, one for each effective query")
    device = torch.device("cpu") if queries is None else queries.device
    links.check(len(entities))
    entity_sum = torch.zeros(count, dtype=torch.float64).index_add_(0, links.queries, links.weights)  # in order
    linked = (links.queries, links.entities, links.weights, entity_sum)
    column, row, weight, entity_sum = (part.to(device) for part in linked)
    usable, bad = _usable(queries, count, device)
    usable &= len(atoms) > 0
    fallback = (entity_sum == 0) & usable & (config.fallback_top_k > 0)
    regular = usable & ~fallback & needs_atoms(config)
    found = _atom_weights(vectors, queries, fallback, regular, config, nearest)
    if config.lexical_share:
        found = found.with_words(fallback | regular | bad, _scaled_words(words, count, device), config.lexical_share)
    share = _atom_share(config, trust, count).to(device)
    entity_factor, atom_factor = _factors(entity_sum, found.total, fallback, config, share)
    entity_mass, atom_mass = entity_sum * entity_factor, found.total * atom_factor
    total = entity_mass + atom_mass
    flags = {"fallback": fallback, "no_seeds": total == 0, "bad_embedding": bad}
    sparse = _sorted(
        count,
        num_nodes,
        torch.cat([found.column, column]),
        torch.cat([found.row, row + len(atoms)]),
        torch.cat([found.weight * atom_factor[found.column], weight * entity_factor[column]]),
    )
    keys = None if keys is None else keys.to(device)
    seeds = Seeds(num_nodes, *sparse, dense=_dense(found, atom_factor), keys=keys, flags=flags)
    some = torch.where(total > 0, total, torch.ones_like(total))
    num_entities = torch.bincount(column[weight * entity_factor[column] > 0], minlength=count)
    return seeds, SeedTrace(entity_mass / some, atom_mass / some, num_entities, flags, found)


def _embeddings(
    count: int, atoms: AtomTable, queries: Tensor | None, config: SeedsConfig
) -> tuple[Tensor | None, Tensor | None]:
    if queries is None:
        if needs_atoms(config) and count and len(atoms):
            name, value = ("alpha", config.alpha) if config.balance == "alpha" else ("atom_share", config.atom_share)
            raise ConfigError(
                f"seeds: got no query embeddings, expected some, as {name} = {value:g} seeds atoms by "
                f"similarity; embed the queries, or set {name} to 0"
            )
        return None, None
    if atoms.embeddings is None:
        raise DataError("seeds: got query embeddings, but atoms without any; build the graph with the same encoder")
    expected = (count, atoms.embeddings.shape[1])
    if tuple(queries.shape) != expected:
        raise DataError(f"seeds: got query embeddings {tuple(queries.shape)}, expected {expected}, as the atoms have")
    return atoms.embeddings, queries.to(atoms.embeddings)


def _usable(queries: Tensor | None, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return which queries have an embedding, and which have one that is all zero or not finite."""
    if queries is None:
        nothing = torch.zeros(count, dtype=torch.bool, device=device)
        return nothing, nothing.clone()
    usable = torch.isfinite(queries).all(1) & (queries != 0).any(1)
    return usable, ~usable


def _atom_weights(
    vectors: Tensor | None,
    queries: Tensor | None,
    fallback: Tensor,
    regular: Tensor,
    config: SeedsConfig,
    index: Any,
) -> AtomWeights:
    found = AtomWeights.none(len(fallback), fallback.device)
    if vectors is None or queries is None:
        return found
    if bool(fallback.any()):
        found = found.with_nearest(fallback, nearest_atoms(vectors, queries[fallback], config.fallback_top_k, index))
    if bool(regular.any()) and config.atom_top_k is not None:
        found = found.with_nearest(regular, nearest_atoms(vectors, queries[regular], config.atom_top_k, index))
    elif bool(regular.any()):
        found = found.with_all(regular, spread_over_all(vectors, queries[regular]), vectors, queries)
    return found


def _atom_share(config: SeedsConfig, trust: Tensor | None, count: int) -> Tensor:
    """The share of the seed mass on atoms where a query has both parts, float64 [effective]."""
    share = torch.full((count,), config.atom_share, dtype=torch.float64)
    if config.balance != "trust":
        return share
    if trust is None or trust.shape != share.shape:
        got = "none" if trust is None else str(tuple(trust.shape))
        raise DataError(f"seeds: got trust {got}, expected ({count},): balance 'trust' needs one for each query")
    return share * (1 - trust.to(share))


def _scaled_words(words: tuple[Tensor, Tensor] | None, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    if words is None or len(words[0]) != count:
        raise DataError(f"seeds: got no atoms ranked by BM25 for each of {count} queries, which lexical_share needs")
    rows, scores = (part.to(device) for part in words)
    return rows, min_max(scores, rows >= 0)


def _factors(
    entity_sum: Tensor, atom_sum: Tensor, fallback: Tensor, config: SeedsConfig, share: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the factors of a query's entity weights and of its atom weights, float64 [effective]."""
    one = torch.ones_like(entity_sum)
    if config.balance == "alpha":
        return one * config.entity_weight, torch.where(fallback, one, one * config.alpha)
    both = (entity_sum > 0) & (atom_sum > 0)
    entity_share = torch.where(both, one - share, one)
    atom_share = torch.where(both, share, one)
    return entity_share / entity_sum.where(entity_sum > 0, one), atom_share / atom_sum.where(atom_sum > 0, one)


def _sorted(count: int, num_nodes: int, column: Tensor, nodes: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return `ptr`, `nodes` and `weights` of `Seeds`, by query and node, each once, without weights of 0."""
    keep = weight > 0
    place, weight = column[keep] * num_nodes + nodes[keep], weight[keep]
    order = torch.argsort(place, stable=True)
    place, at = torch.unique_consecutive(place[order], return_inverse=True)
    summed = torch.zeros(len(place), dtype=torch.float64, device=place.device).index_add_(0, at, weight[order])
    ptr = torch.zeros(count + 1, dtype=torch.int64)
    ptr[1:] = torch.cumsum(torch.bincount(place // max(num_nodes, 1), minlength=count), 0).cpu()
    return ptr, place % max(num_nodes, 1), summed.float()


def _dense(found: AtomWeights, factor: Tensor) -> DenseSeeds | None:
    if found.vectors is None or found.queries is None:
        return None
    scale, offset = (found.scale * factor).float(), (found.offset * factor).float()
    return DenseSeeds(found.vectors, found.queries, scale, offset, False, found.similarity)

"""Linear methods without a walk at query time: what similarities contribute is linear in the query's embedding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from aeg.core.kernels import compiled
from aeg.core.kernels.memory import empty
from aeg.core.kernels.threads import all_threads, share
from aeg.core.operator import Operator
from aeg.core.progress import progress
from aeg.core.seeds import Seeds
from aeg.errors import DataError
from aeg.propagation.base import Info
from aeg.propagation.fitting import fitted

TILE = 128
_SOLVED = 32  # columns of the core that are solved for between two looks at the progress
_HALVINGS = 6

Core = Callable[[Tensor], tuple[Tensor, Info]]


@dataclass(eq=False)
class Folded:
    """A linear map K of the seeds (for PPR its core, ρ (I − (1 − ρ) Pᵀ)⁻¹), kept as the columns that queries mix.

    A query has the personalisation π = (scale · Z q + offset · 1 + e) / m, with Z [atoms, d] the atoms'
    embeddings, e its sparse seeds and m the sum of the numerator. K is linear:

        K π = (K [Z, 1] · (scale · q, offset) + Σ_v e_v K 1_v) / m.

    The first part is one dense product of the query with K [Z, 1], computed once for a graph and a method. The
    columns K 1_v of the nodes that queries seed are computed when a node is first asked for and kept sparse: of
    each, the smallest entries are left out, as long as they sum to `tol` / 2 at most. The score is max(K π, 0), for PPR
    scaled to sum 1 over all nodes; that sum is known without computing it: the seeds on connected nodes and ρ times
    those on isolated ones.

    Attributes:
        op: the operator.
        core: b [nodes, columns] -> (K b, info), for signed columns; the info's residual bounds the L1 error.
        rows: the first so many rows of K are kept.
        kept: what K keeps of the mass of seeds on connected and on isolated nodes, where scores are to sum to 1; None:
            they are K π as it is.
        tol: L1 error that a query should stay within. Half of it is for the entries of columns K 1_v that are left
            out; `core` should err by an eighth or less, as the errors of the columns of [Z, 1] add up.
    """

    op: Operator
    core: Core
    rows: int
    kept: tuple[float, float] | None
    tol: float
    _atoms: Tensor | None = None
    _dense: _Dense | None = None
    _sparse: _Sparse = field(init=False)

    def __post_init__(self) -> None:
        self._sparse = _Sparse.empty(self.op)

    def tiles(self, seeds: Seeds, width: int) -> Iterator[tuple[int, Tensor, Info]]:
        """Yield (first query, scores [rows, columns], info) for the seeds, tile by tile.

        Raises:
            DataError: if the dense seeds are over other atoms than those of an earlier call.
        """
        self.prepare(seeds)

        def run(first: int, width: int) -> Iterator[tuple[int, Tensor, Info]]:
            for start in range(first, seeds.num_queries, width):
                yield start, *self._tile(seeds, start, min(start + width, seeds.num_queries))

        yield from fitted(run, width, self.op)

    def _tile(self, seeds: Seeds, start: int, stop: int) -> tuple[Tensor, Info]:
        query, nodes, weights = seeds.entries(start, stop)
        weights = weights.to(torch.float64)
        fast = compiled(self.op.kernel)
        scores, error = self._sparse.mixture(nodes, weights, query, self.rows, stop - start, fast)
        zeros = torch.zeros(stop - start, dtype=torch.float64, device=self.op.device)
        total = zeros.index_put((query,), weights, accumulate=True)  # in order, on a GPU too
        alone = zeros.index_put((query,), weights * self.op.isolated[nodes], accumulate=True)
        if seeds.dense is not None and self._dense is not None:
            d, dense = seeds.dense, self._dense
            mixture = torch.cat([d.queries[start:stop] * d.scale[start:stop, None], d.offset[start:stop, None]], 1)
            with all_threads():
                scores.addmm_(mixture, dense.core.T)
            mixture = mixture.to(torch.float64)
            # Not `@`: the library's sum of a row and a vector depends on where they lie in memory.
            total, alone = total + (mixture * dense.sums).sum(1), alone + (mixture * dense.isolated).sum(1)
            error = error + (mixture.abs() * dense.error).sum(1)
        bad = ~torch.isfinite(total) | (total < 0) | (zeros.index_add(0, query, (weights < 0).to(zeros.dtype)) > 0)
        zero = bad | (total == 0)
        connected, isolated = (1.0, 1.0) if self.kept is None else self.kept
        whole = torch.where(zero, 1.0, connected * (total - alone) + isolated * alone)
        if scores.device.type == "cuda" or bool(zero.any()):  # looking would wait for the device
            scores.masked_fill_(zero.unsqueeze(1), 0.0)
        with all_threads():
            scores.clamp_(min=0).mul_((1 / whole).to(torch.float32).unsqueeze(1))
        error = torch.where(zero, 0.0, error / whole)
        steps = torch.zeros(stop - start, dtype=torch.int64, device=self.op.device)
        flags = {"zero_seeds": zero, "bad_seeds": bad}
        return scores.T, Info(steps, error, error <= self.tol, flags, "folded")

    def prepare(self, seeds: Seeds) -> None:
        """Compute whatever these seeds need and is not there yet.

        Columns are solved some at a time: for the same bits, prepare the same seeds at once.
        """
        if seeds.dense is not None:
            atoms = seeds.dense.atoms
            if self._dense is None:
                self._atoms, self._dense = atoms, self._solve_dense(atoms)
            elif self._atoms is not atoms and not torch.equal(torch.as_tensor(self._atoms), atoms):
                raise DataError("folded: got embeddings of other atoms than before; make a new operator for them")
        known = self._sparse.slot[seeds.nodes] >= 0
        new = torch.unique(seeds.nodes[~known])
        blocks = new.split(_SOLVED) if len(new) else ()
        for nodes in progress(blocks, len(blocks), "folding entities"):
            unit = torch.zeros(self.op.num_nodes, len(nodes), device=self.op.device)
            unit[nodes, torch.arange(len(nodes), device=self.op.device)] = 1.0
            core, info = self.core(unit)
            self._sparse = self._sparse.extended(nodes, core[: self.rows], info.residual, self.tol / 2)

    def _solve_dense(self, atoms: Tensor) -> _Dense:
        basis = torch.cat([atoms, torch.ones(len(atoms), 1, device=atoms.device)], 1)
        norm = basis.abs().sum(0, dtype=torch.float64).clamp(min=1e-30)  # columns are solved for with L1 norm 1
        parts, errors = [], []
        blocks = torch.arange(basis.shape[1], device=atoms.device).split(_SOLVED)
        for at in progress(blocks, len(blocks), "folding embeddings"):
            columns = torch.zeros(self.op.num_nodes, len(at), device=atoms.device)
            columns[: len(atoms)] = basis[:, at] / norm[at]
            core, info = self.core(columns)
            parts.append(core[: self.rows] * norm[at].to(torch.float32))
            errors.append(info.residual.to(norm.device) * norm[at])
        double = basis.to(torch.float64)
        isolated = double[self.op.isolated[: len(atoms)]].sum(0)
        return _Dense(torch.cat(parts, 1).contiguous(), double.sum(0), isolated, torch.cat(errors))


@dataclass(frozen=True, eq=False)
class _Dense:
    """K [Z, 1] on the kept rows, [rows, d + 1], and what is known of each column of [Z, 1], float64 [d + 1].

    `sums` are the columns' sums, `isolated` their sums over isolated atoms, `error` the L1 errors of their cores.
    """

    core: Tensor
    sums: Tensor
    isolated: Tensor
    error: Tensor


@dataclass(frozen=True, eq=False)
class _Sparse:
    """Columns K 1_v, one after the other: column s owns entries `ptr[s]:ptr[s + 1]` of `rows` and `values`.

    `slot` [nodes] tells which column a node has (−1: none yet); `error` [columns] bounds what a column misses.
    """

    slot: Tensor
    ptr: Tensor
    rows: Tensor
    values: Tensor
    error: Tensor

    @classmethod
    def empty(cls, op: Operator) -> _Sparse:
        whole, none = torch.int64, torch.zeros(0, dtype=torch.float64, device=op.device)
        slot = torch.full((op.num_nodes,), -1, dtype=whole, device=op.device)
        return cls(slot, slot.new_zeros(1), slot.new_zeros(0, dtype=torch.int32), none.to(torch.float32), none)

    def extended(self, nodes: Tensor, core: Tensor, residual: Tensor, cut: float) -> _Sparse:
        """Return these columns and the ones of `nodes`, core [rows, nodes], their small entries left out."""
        edge = _edge(core, cut)
        column, row = (edge.unsqueeze(1) < core.T).nonzero(as_tuple=True)
        missed = torch.where(core > edge, 0.0, core.clamp(min=0)).sum(0, dtype=torch.float64)
        sizes = torch.bincount(column, minlength=len(nodes))
        slot = self.slot.clone()
        slot[nodes] = len(self.error) + torch.arange(len(nodes), device=slot.device)
        return _Sparse(
            slot,
            torch.cat([self.ptr, self.ptr[-1] + sizes.cumsum(0)]),
            torch.cat([self.rows, row.to(torch.int32)]),
            torch.cat([self.values, core[row, column]]),
            torch.cat([self.error, missed + residual.to(missed.device)]),
        )

    def mixture(
        self, nodes: Tensor, weights: Tensor, query: Tensor, rows: int, queries: int, fast: bool
    ) -> tuple[Tensor, Tensor]:
        """Return Σ_v weight_v K 1_v of each query, float32 [queries, rows], and its error, float64 [queries].

        Args:
            nodes: seeded nodes.
            weights: float64, of each.
            query: the query of each, ascending.
            rows: of the columns.
            queries: how many there are.
            fast: use the compiled loop (CPU).
        """
        slot = self.slot[nodes]
        error = torch.zeros(queries, dtype=torch.float64, device=self.values.device)
        error = error.index_put((query,), weights * self.error[slot], accumulate=True)
        mix = self._mixed if fast else self._added
        return mix(slot, weights.to(torch.float32), query, rows, queries), error

    def _mixed(self, slot: Tensor, weights: Tensor, query: Tensor, rows: int, queries: int) -> Tensor:
        from aeg.propagation.mixture_loop import mixed

        out = empty(queries, rows, like=self.values)
        ends = torch.searchsorted(query, torch.arange(queries + 1)).tolist()
        columns, kept = (self.ptr.numpy(), self.rows.numpy(), self.values.numpy()), out.numpy()
        slots, shares = slot.numpy(), weights.numpy()

        def work(at: int) -> None:
            some = slice(ends[at], ends[at + 1])
            kept[at] = 0
            mixed(*columns, slots[some], shares[some], kept[at])

        share(work, queries, rows * queries)
        return out

    def _added(self, slot: Tensor, weights: Tensor, query: Tensor, rows: int, queries: int) -> Tensor:
        first, sizes = self.ptr[slot], self.ptr[slot + 1] - self.ptr[slot]
        entry = torch.repeat_interleave(first - (sizes.cumsum(0) - sizes), sizes)
        entry += torch.arange(len(entry), device=entry.device)
        values = self.values[entry] * torch.repeat_interleave(weights, sizes)
        out = torch.zeros(rows * queries, device=self.values.device)
        place = torch.repeat_interleave(query, sizes) * rows + self.rows[entry]
        if out.device.type == "cuda":
            out.index_put_((place,), values, accumulate=True)  # sorts, and so adds in order; `index_add_` would not
        else:
            out.index_add_(0, place, values)
        return out.view(queries, rows)


def _edge(core: Tensor, cut: float) -> Tensor:
    """A number for each column such that the positive entries up to it sum to `cut` at most, and to not much less.

    It is found by halving the range of exponents, from what all entries may have to what none may, which takes a few
    passes where sorting the columns takes many.
    """
    low = torch.full((core.shape[1],), math.log2(cut / max(len(core), 1)), device=core.device)
    high = torch.full_like(low, math.log2(cut))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        small = torch.where(core <= middle.exp2(), core, 0.0).clamp_(min=0).sum(0, dtype=torch.float64) <= cut
        low, high = torch.where(small, middle, low), torch.where(small, high, middle)
    return low.exp2()

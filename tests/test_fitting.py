"""Tiles that the memory does not hold are halved, and the run goes on from the query where it was."""

from __future__ import annotations

import logging
import weakref
from dataclasses import dataclass, field, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from aeg.core.operator import Operator
from aeg.core.seeds import Seeds
from aeg.errors import DeviceError
from aeg.propagation import METHODS, Context, Info, make, search
from aeg.propagation.contract import sample_graph, sample_seeds
from aeg.propagation.fitting import BYTES, widest_within
from aeg.propagation.folded import Folded
from aeg.propagation.power_iteration import PowerIteration
from aeg.propagation.push import Push
from aeg.propagation.rwr import RWR


@dataclass
class Memory:
    """A device that holds so many columns, from some query on; it notes what was tried and what is still held."""

    columns: int
    first: int = 0
    tried: list[tuple[int, int]] = field(default_factory=list)
    held: list[weakref.ref] = field(default_factory=list)
    leaked: int = 0

    def take(self, context: Context, seeds: Tensor) -> None:
        self.leaked += sum(tensor() is not None for tensor in self.held)
        self.tried.append((context.columns[0], seeds.shape[1]))
        if seeds.shape[1] > self.columns and context.columns[1] > self.first:
            big = torch.empty(3)
            self.held.append(weakref.ref(big))
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 numbers")


@dataclass(frozen=True)
class Hungry(PowerIteration):
    """Power iteration on such a device."""

    memory: Memory = field(default_factory=lambda: Memory(4))

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Info]:
        self.memory.take(context, seeds)
        return super().propagate(op, seeds, context)


@dataclass(frozen=True)
class HungryWalks(RWR):
    """Random walks on such a device."""

    memory: Memory = field(default_factory=lambda: Memory(4))

    def propagate(self, op: Operator, seeds: Tensor, context: Context) -> tuple[Tensor, Info]:
        self.memory.take(context, seeds)
        return super().propagate(op, seeds, context)


def as_seeds(columns: Tensor) -> Seeds:
    lists = [[(row, weight) for row, weight in enumerate(c) if weight != 0] for c in columns.T.tolist()]
    return Seeds.from_lists(len(columns), lists)


@pytest.mark.parametrize("convert", [as_seeds, lambda columns: columns], ids=["Seeds", "tensor"])
def test_a_tile_is_halved_and_the_run_goes_on(convert, caplog):
    op, seeds = sample_graph(), convert(sample_seeds(sample_graph(), 37))
    expected, plain = make("power_iteration")(op, seeds, Context(tile=16))
    memory = Memory(4, first=16)
    with caplog.at_level(logging.WARNING):
        scores, info = Hungry(memory=memory)(op, seeds, Context(tile=16))
    assert memory.tried[:4] == [(0, 16), (16, 16), (16, 8), (16, 4)]
    assert memory.tried[4:] == [(start, 4) for start in range(20, 37, 4)]
    assert float((scores - expected).abs().sum(0).max()) <= 1e-6
    assert torch.equal(scores[:, :16], expected[:, :16])
    assert info.flags["tile_halved"].tolist() == [False] * 16 + [True] * 21
    assert plain.flags["tile_halved"].tolist() == [False] * 37
    assert set(info.flags) == set(plain.flags)
    assert memory.leaked == 0
    assert "out of memory with 16 queries at once; going on with 8" in caplog.text


def test_walks_are_drawn_by_the_query_whatever_the_tile():
    op, seeds = sample_graph().using("torch"), as_seeds(sample_seeds(sample_graph(), 21))
    keyed = replace(seeds, keys=torch.arange(21) * 7919)
    scores, info = HungryWalks(memory=Memory(2))(op, keyed, Context(seed=3, tile=8))
    assert torch.equal(scores, make("rwr")(op, keyed, Context(seed=3, tile=8))[0])
    assert bool(info.flags["tile_halved"].all())


def test_search_goes_on_too():
    op, seeds = sample_graph(), sample_seeds(sample_graph(), 20)
    rows, values, info = search(Hungry(), op, seeds, 5, 30)
    expected = search(make("power_iteration"), op, seeds, 5, 30)
    assert torch.equal(rows, expected[0])
    assert torch.allclose(values, expected[1], atol=1e-6)
    assert bool(info.flags["tile_halved"].all())


def test_a_single_query_that_does_not_fit_is_an_error():
    with pytest.raises(DeviceError, match=r"with 1 queries at once on 60 nodes; take `device: cpu`.*Tried to allocate"):
        Hungry(memory=Memory(0))(sample_graph(), sample_seeds(sample_graph()))


def test_processes_that_share_a_graph_keep_their_tiles():
    op = sample_graph()
    split = replace(op, sharding=op.using("torch").kernel, memo={}, _inverse_degrees={})
    memory = Memory(4)
    with pytest.raises(DeviceError, match=r"with 8 queries at once.*set a smaller `tile`"):
        Hungry(memory=memory)(split, sample_seeds(op))
    assert memory.tried == [(0, 8)]


@pytest.mark.parametrize("name", sorted(METHODS))
def test_tiles_that_are_kept_are_not_written_over(name):
    op, seeds, context = sample_graph(), sample_seeds(sample_graph(), 40), Context(tile=8)
    loose = {"tol": 0.5} if name in ("ppr", "katz", "label_propagation") else {}
    kept = list(make(name, **loose).tiles(op, seeds, context))
    whole, _ = make(name, **loose)(op, seeds, context)
    assert torch.equal(torch.cat([scores for _, scores, _ in kept], 1), whole)


@pytest.mark.parametrize(("engine", "kind"), [("folded", Folded), ("push", Push)])
def test_engines_halve_their_tiles(monkeypatch, engine, kind):
    op, seeds = sample_graph(), as_seeds(sample_seeds(sample_graph(), 11))
    method, tile = make("ppr", engine=engine, tol=1e-6), kind._tile
    expected, plain = method(op, seeds)
    widths = []

    def tight(self, *arguments):
        start, stop = [argument for argument in arguments if isinstance(argument, int)][:2]
        widths.append(stop - start)
        if stop - start > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return tile(self, *arguments)

    monkeypatch.setattr(kind, "_tile", tight)
    scores, info = method(op, seeds, Context(tile=8))
    assert widths == [8, 4, 2, 2, 2, 2, 2, 1]
    assert float((scores - expected).abs().max()) <= 1e-7
    assert bool(info.flags["tile_halved"].all())
    assert not bool(plain.flags["tile_halved"].any())


def test_every_method_tells_of_its_tiles():
    own = [name for name in METHODS if METHODS.get(name).__module__.startswith("aeg.")]  # not what other tests add
    assert len(own) == 8
    for name in own:
        assert "tile_halved" in make(name)(sample_graph(), sample_seeds(sample_graph()))[1].flags


@given(nodes=st.integers(0, 10**9), memory=st.integers(0, 10**12), power=st.integers(0, 9))
def test_the_widest_tile_that_fits(nodes, memory, power):
    width = widest_within(nodes, 2**power, memory)
    assert width.bit_count() == 1
    assert 1 <= width <= 2**power
    assert width == 1 or width * BYTES * max(nodes, 1) <= memory
    assert width == 2**power or 2 * width * BYTES * max(nodes, 1) > memory

"""The Atom-Entity Graph: building, weighing, measuring, saving."""

from aeg.graph.graph import EDGE_TYPES, AtomEntityGraph, build
from aeg.graph.inventory import Inventory, collect
from aeg.graph.statistics import GraphStatistics, statistics
from aeg.graph.storage import load, save
from aeg.graph.weights import operator, typed_operators

__all__ = [
    "EDGE_TYPES",
    "AtomEntityGraph",
    "GraphStatistics",
    "Inventory",
    "build",
    "collect",
    "load",
    "operator",
    "save",
    "statistics",
    "typed_operators",
]

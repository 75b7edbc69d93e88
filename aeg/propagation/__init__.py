"""Propagation methods: relevance spreads from seeds over the operator, for many queries at once."""

from aeg.propagation import (
    heat_kernel,
    katz,
    label_propagation,
    none,
    power_iteration,
    ppr,
    rwr,
    weighted_bfs,
)
from aeg.propagation.base import METHODS, Context, Info, Propagation, make, search

__all__ = [
    "METHODS",
    "Context",
    "Info",
    "Propagation",
    "heat_kernel",
    "katz",
    "label_propagation",
    "make",
    "none",
    "power_iteration",
    "ppr",
    "rwr",
    "search",
    "weighted_bfs",
]

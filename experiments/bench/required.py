"""What must hold: required ratios, held against the measured ones."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.bench.output import Table


@dataclass(frozen=True)
class Requirement:
    """One line of the table of what must hold."""

    what: str
    against: str
    least: float


REQUIRED = {
    "dense": Requirement("1,000 queries, MuSiQue shape, restart 0.3, dense seeds, L1 <= 1e-3", "igraph PRPACK", 100),
    "sparse": Requirement("the same, three sparse seeds, restart 0.1", "igraph PRPACK", 60),
    "folded": Requirement("engine folded, dense seeds, restart 0.3", "igraph PRPACK", 150),
    "rows": Requirement("precomputed rows (folded) or push, sparse seeds, restart 0.1", "igraph PRPACK", 150),
    "latency": Requirement("one query alone, dense seeds, restart 0.3", "igraph PRPACK", 25),
    "torch-ppr": Requirement("1,000 queries at equal L1, the smaller of both cases", "torch-ppr", 10),
    "scikit": Requirement("1,000 queries at equal L1, the smaller of both cases", "scikit-network's best solver", 10),
    "chebyshev": Requirement("Chebyshev at equal L1, same product, restart 0.1", "plain power iteration", 2.5),
    "medical": Requirement("Medical's graph, embeddings to ranked atoms, 1,031 questions", "igraph PRPACK", 100),
    **{
        name: Requirement(name, "its fastest equivalent of another library", 20)
        for name in ("rwr", "katz", "label_propagation", "weighted_bfs", "heat_kernel")
    },
}


def verdicts(measured: dict[str, float | None], quick: bool = False) -> Table:
    """Return the table of what must hold, for the lines that were measured (NaN: measured and not valid).

    Args:
        measured: ratio by key of `REQUIRED`; None where nothing could be measured (an engine that is not there).
        quick: whether the run was a smoke run, whose ratios mean nothing.
    """
    table = Table("What must hold", ["what", "against", "at least", "measured", ""])
    for key, ratio in measured.items():
        line = REQUIRED[key]
        verdict = "not measured" if ratio is None else "ok" if ratio >= line.least else "short"
        table.rows.append([line.what, line.against, line.least, ratio, verdict])
    if quick:
        table.notes.append("A quick run on small graphs: it shows that the bench works, its ratios mean nothing.")
    return table

"""`python -m experiments.neighbourhood CONFIG [key.sub=value ...]`: quality of graph neighbourhoods (Figure 3).

The ten entities that the corpus mentions most, each with what is one step away, put to the judge of the config: once
as the Atom-Entity Graph has it (texts of the atoms that mention the entity, names of its neighbours), once as the
predicate-labelled graph of the same triples has it (the triples as sentences). The scores go into
`neighbourhood.json` in the run's folder.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aeg.errors import AegError, ConfigError

if TYPE_CHECKING:
    from aeg.backends.llm.asker import Asker
    from aeg.config.schema import ExperimentConfig
    from aeg.core.records import Extraction
    from aeg.evaluation.neighbourhood import Neighbourhood
    from aeg.graph import AtomEntityGraph

PREDICATE = "predicate_graph"
ENTITIES = 10


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m experiments.neighbourhood", description="Judge graph neighbourhoods."
    )
    made.add_argument("config", nargs="?", default="paper/figure3", help="a sweep (default: paper/figure3)")
    made.add_argument("overrides", nargs="*", metavar="key.sub=value")
    made.add_argument("--entities", type=int, default=ENTITIES, help=f"how many are judged (default: {ENTITIES})")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, or 2 on an error that the input caused."""
    given = parser().parse_intermixed_args(arguments)
    config, overrides = given.config, list(given.overrides)
    if "=" in config:
        config, overrides = "paper/figure3", [config, *overrides]
    try:
        folder = judge_sweep(config, overrides, given.entities)
    except AegError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"python -m experiments.paper figure3 --run {folder}")
    return 0


def judge_sweep(config: str, overrides: Sequence[str] = (), entities: int = ENTITIES) -> Path:
    """Run what is missing of a sweep, judge the neighbourhoods of each run's graph, and return the sweep's folder.

    A run whose variant is called `predicate_graph` is judged by its triples.

    Raises:
        ConfigError: if the config names no judge.
        DataError: if a run failed.
    """
    from aeg.artifacts import write_text
    from aeg.errors import DataError
    from aeg.experiment.paper.values import NEIGHBOURHOOD
    from aeg.experiment.sweep import load_sweep, run_sweep

    sweep = load_sweep(config, overrides)
    if run_sweep(sweep, print):
        raise DataError(f"{sweep.folder}: not all runs finished; see log.txt there, then run this again")
    for run in sweep.runs:
        record = judged(run.config, run.axes.get("variant") == PREDICATE, entities)
        write_text(run.folder / NEIGHBOURHOOD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        print(f"{run.name}: {record['means']}; left out {record['failed']} failed, {record['skipped']} empty")
    return sweep.folder


def judged(config: ExperimentConfig, triples: bool, entities: int, llm: Asker | None = None) -> dict[str, Any]:
    """Return the scores of the neighbourhoods in the graph of a config, as plain values.

    Args:
        config: a run's config, with `llm.judge`.
        triples: judge the triples at each entity instead of the atoms that mention it.
        entities: how many, the most mentioned ones.
        llm: the judge; None opens the config's.

    Raises:
        ConfigError: if there is no judge.
    """
    from aeg.backends.llm import BACKENDS
    from aeg.evaluation.neighbourhood import NeighbourhoodMeasure, most_mentioned
    from aeg.pipeline.asking import Askers
    from aeg.pipeline.stages import Pipeline

    spec = config.llm.judge
    if llm is None and spec is None:
        raise ConfigError("neighbourhood quality needs a model: set llm.judge")
    pipeline = Pipeline(config, print)
    _, loader = pipeline.methods.corpus.parts(pipeline.root)[0]
    passages = pipeline.passages(pipeline.corpus(loader))
    graph, _ = pipeline.graph(passages)
    extractions, _ = pipeline.extraction(passages)
    mentions = dict(zip(graph.entities.keys, graph.entities.mentions.tolist(), strict=True))
    chosen = most_mentioned(mentions, entities)
    around = triple_neighbourhoods(graph, extractions, chosen) if triples else atom_neighbourhoods(graph, chosen)
    measure, askers = NeighbourhoodMeasure(), None
    try:
        if llm is None and spec is not None:
            backend = BACKENDS.from_spec(spec, "llm.judge")
            askers = Askers({"judge": backend}, config.llm, pipeline.store.root / "llm", pipeline.root)
            llm = askers.role("judge")
        scores = measure.score(around, llm)
    finally:
        pipeline.close()
        if askers is not None:
            askers.close()
    rows = [
        {
            "entity": one.entity,
            "facts": len(one.facts),
            "neighbours": len(one.neighbours),
            "left_out": scores.left_out[at],
            "scores": _scores(scores.values, at),
        }
        for at, one in enumerate(around)
    ]
    failed = int(scores.failed.sum())
    skipped = sum(row["scores"] is None for row in rows) - failed
    means = {name: None if value != value else value for name, value in scores.means().items()}
    return {"entities": rows, "means": means, "failed": failed, "skipped": skipped, "triples": triples}


def atom_neighbourhoods(graph: AtomEntityGraph, keys: Sequence[str]) -> list[Neighbourhood]:
    """Return what is one step from each entity in the Atom-Entity Graph: atoms, and entities tied to it directly."""
    from aeg.evaluation.neighbourhood import Neighbourhood

    row = {key: at for at, key in enumerate(graph.entities.keys)}
    facts: dict[int, list[int]] = {row[key]: [] for key in keys}
    near: dict[int, set[int]] = {row[key]: set() for key in keys}
    for atom, entity in graph.data["atom", "mentions", "entity"].edge_index.T.tolist():
        if entity in facts:
            facts[entity].append(atom)
    for kind in ("relates", "synonym"):
        for one, other in graph.data["entity", kind, "entity"].edge_index.T.tolist():
            for centre, end in ((one, other), (other, one)):
                if centre in near:
                    near[centre].add(end)
    return [
        Neighbourhood(
            graph.entities.names[row[key]],
            tuple(graph.atoms.texts[atom] for atom in sorted(facts[row[key]])),
            tuple(graph.entities.names[end] for end in sorted(near[row[key]])),
        )
        for key in keys
    ]


def triple_neighbourhoods(
    graph: AtomEntityGraph, extractions: Sequence[Extraction], keys: Sequence[str]
) -> list[Neighbourhood]:
    """Return what is one step from each entity in the predicate-labelled graph: its distinct triples, as sentences."""
    from aeg.core.keys import canonical_key
    from aeg.evaluation.neighbourhood import Neighbourhood

    names: Mapping[str, str] = dict(zip(graph.entities.keys, graph.entities.names, strict=True))
    wanted = set(keys)
    facts: dict[str, dict[tuple[str, str, str], str]] = {key: {} for key in keys}
    near: dict[str, set[str]] = {key: set() for key in keys}
    for extraction in extractions:
        for h, r, t in extraction.triples:
            ends = canonical_key(h), canonical_key(t)
            for centre, end in (ends, ends[::-1]):
                if centre in wanted and end and end != centre:
                    facts[centre].setdefault((ends[0], canonical_key(r), ends[1]), f"{h} {r} {t}")
                    near[centre].add(end)
    return [
        Neighbourhood(names[key], tuple(facts[key].values()), tuple(names.get(end, end) for end in sorted(near[key])))
        for key in keys
    ]


def _scores(values: Mapping[str, Any], at: int) -> dict[str, float] | None:
    found = {name: float(row[at]) for name, row in values.items()}
    return None if any(value != value for value in found.values()) else found


if __name__ == "__main__":
    sys.exit(main())

"""What a question costs after embedding and linking: propagation and ranking alone, and what the preset adds to them.

    python -m experiments.retrieval_cost two_wiki musique questions=even

Each config's first method ranks all questions `--rounds` times, tables that are made once (BM25, incidences) in the
first round; the fastest round is told, wall and CPU milliseconds a question.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from aeg.config.load import load_config
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.stages import Pipeline
from experiments.bench.output import Table

VARIANTS = {
    "propagation and ranking": ("retrieval.mix=null", "retrieval.diversity=0.0"),
    "with similarity and words mixed in": ("retrieval.diversity=0.0",),
    "with diversity as well": (),
}


def cost(config: str, overrides: Sequence[str], rounds: int) -> tuple[int, float, float]:
    """Return the number of questions of a config's first part, and wall and CPU milliseconds a question."""
    pipeline = Pipeline(load_config(config, overrides))
    _, loader = pipeline.methods.corpus.parts(pipeline.root)[0]
    corpus = pipeline.corpus(loader)
    retriever = Retriever(pipeline, *pipeline.graph(pipeline.passages(corpus)))
    seeding, method = retriever.seeding(corpus.queries), pipeline.methods.propagation[0]
    taken = []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        retriever.rank(method, seeding, None)
        taken.append((time.perf_counter() - wall, time.process_time() - cpu))
    questions = len(corpus.queries)
    fastest, busy = min(taken)
    return questions, 1e3 * fastest / questions, 1e3 * busy / questions


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each config and variant."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", nargs="+", metavar="CONFIG | key.sub=value", help="configs, and overrides for all")
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_intermixed_args(arguments)
    overrides = [word for word in given.what if "=" in word]
    table = Table("milliseconds a question", ["config", "variant", "questions", "wall ms", "CPU ms"])
    for config in (word for word in given.what if "=" not in word):
        for label, more in VARIANTS.items():
            table.rows.append([config, label, *cost(config, [*overrides, *more], given.rounds)])
    print(table.text())


if __name__ == "__main__":
    main()

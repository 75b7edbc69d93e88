"""Attributes every missed gold passage or statement of a finished run to one cause.

    python -m experiments.diagnose RUN [--method ppr] [--k 5] [--budget 512] [--examples N] [--json FILE] [key=value]

RUN is the folder of a finished run. Its pipeline is rebuilt from the manifest's resolved config (cached artifacts are
used), and the questions are propagated again with the scores of all nodes. A gold passage is missed where it is not
among the first k ranked documents; a gold statement, where the first `budget` tokens of ranked atoms do not have
`covered` of its idf-weighted content words. Of each miss the first cause that holds is told, in this order:

measure       More gold than k: of a question with g > k gold passages, the g - k lowest ranked misses. Of statements:
              no passage of the corpus has `covered` of its words, so that no text of it states it in these words.
extraction    No atom of the graph states it (comes from the passage; has `covered` of the statement's words).
no_entity     No entity was linked to the question.
named         No linked entity lies on it (is mentioned by one of its atoms), and the question names an entity of its
              own: one that at least half of its atoms mention and hardly others (they are a third or more of all that
              do), `named` of whose idf-weighted words stand in the question outside of the words that were linked,
              one of them at least a word that no more than `common` of the passages (or ten) have.
unreachable   No path from any seed to any of its atoms: another component.
wrong_entity  The linked entities do not lead to it: none lies on it or is joined by an edge to one on it, nor does a
              chain of such ties over the question's other gold. Entities that more than `common` of the atoms mention
              (and more than ten) tie nothing.
too_far       Its nearest atom is more edges from the seeds than the walk goes: the largest h such that nodes at least
              h edges away hold `faint` of the mass of this question.
mixed         Within k by propagated scores alone: words and similarity mixed into them put it below.
duplicates    Within k once what is ranked above it is kept only where its cosine with everything kept is below
              `near` (passages: mean of their atoms' vectors).
crowded       Within k once many atoms of one passage do not add up: passages by their best atom or by their atoms' mean
              (where they are scored by the sum), statements with `crowd` atoms of one passage above them at most.
hubs          Within k once every score is divided by the score with all nodes seeded alike: what is ranked high for
              any question falls.
below, far_below, out_of_sight    Ranked up to 2k; up to 10k; below that. Of statements k is the number of atoms that
              fit into the budget.

The counts sum to the number of misses. `in bm25` and the like say how many of these misses that baseline has within k.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aeg.artifacts import write_text
from aeg.cli.terminal import Reporter
from aeg.core.progress import progress
from aeg.errors import AegError
from aeg.evaluation.aggregate import UNTYPED
from aeg.evaluation.diagnosis import CAUSES
from aeg.pipeline.stages import Pipeline
from experiments.diagnose.finished import FinishedRun, read_run
from experiments.diagnose.part import Miss, Part
from experiments.diagnose.settings import Settings
from experiments.diagnose.text import example, tables, type_of


@dataclasses.dataclass
class Diagnosis:
    """All misses of a run.

    Attributes:
        what: passages or statements.
        misses: each with its cause.
        totals: gold by question type.
        questions: how many.
        relinked: questions linked otherwise now than in the run.
        examples: in words, by cause.
    """

    what: str
    misses: list[Miss]
    totals: Counter[str]
    questions: int
    relinked: int
    examples: dict[str, list[str]]


def diagnose(run: FinishedRun, settings: Settings, what: str = "auto", examples: int = 0) -> Diagnosis:
    """Return the diagnosis of a run.

    Args:
        run: the run.
        settings: thresholds.
        what: `passages`, `statements`, or `auto`: passages where the questions have any.
        examples: how many to tell of each cause.

    Raises:
        DataError: if the data or artifacts changed since the run.
    """
    report = Reporter()
    pipeline = Pipeline(run.config, report)
    found = Diagnosis(what, [], Counter(), 0, 0, {cause: [] for cause in CAUSES})
    told: Counter[str] = Counter()
    for label, loader in pipeline.methods.corpus.parts(pipeline.root):
        part = Part(pipeline, label, loader, run, settings, what)
        found.what = part.kind.what
        found.questions += len(part.golds)
        found.relinked += part.relinked
        for query, golds in zip(part.seeding.queries, part.golds, strict=True):
            found.totals[query.type or UNTYPED] += len(golds)
        missed = sum(not gold.found for golds in part.golds for gold in golds)
        for miss, walk in progress(part.misses(), missed, "misses"):
            found.misses.append(miss)
            told[miss.cause] += 1
            if told[miss.cause] <= examples:
                found.examples[miss.cause] += [*example(part, miss, walk), ""]
    pipeline.close()
    return found


def in_words(run: FinishedRun, settings: Settings, found: Diagnosis) -> str:
    """Return the tables and examples of a diagnosis."""
    within = f"k {settings.k}" if found.what == "passages" else f"{settings.budget} tokens"
    gold = sum(found.totals.values())
    lines = [
        f"{run.config.name}: {run.method}, gold {found.what} within {within}: {found.questions} questions, "
        f"{gold} gold, {len(found.misses)} missed ({100 * len(found.misses) / max(gold, 1):.1f} %)",
        "misses (percent of gold)",
        "",
        *tables(found.misses, found.totals, list(run.others) if found.what == "passages" else []),
    ]
    if found.relinked:
        lines.append(f"\n{found.relinked} questions are linked otherwise now than in the run: run it again")
    return "\n".join([*lines, "", *(line for told in found.examples.values() for line in told)]).rstrip()


def as_record(miss: Miss) -> dict[str, Any]:
    """Return a miss as plain values."""
    return {
        "part": miss.part,
        "question_id": miss.query.id,
        "type": type_of(miss),
        "gold": miss.gold.name,
        "cause": miss.cause,
        "mass": miss.mass,
        "named_entity": miss.named,
        "found_by": list(miss.found_by),
        **dataclasses.asdict(miss.facts),
    }


def main(arguments: Sequence[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.diagnose", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument("--method", help="label of a propagation method; the config's first by default")
    parser.add_argument("--of", choices=("auto", "passages", "statements"), default="auto", help="which gold")
    parser.add_argument("--examples", type=int, default=0, metavar="N", help="print N misses of each cause")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every miss with its facts")
    for field in dataclasses.fields(Settings):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="where things lie: artifacts_dir, data_root")
    given = parser.parse_intermixed_args(arguments)
    try:
        settings = Settings(**{field.name: getattr(given, field.name) for field in dataclasses.fields(Settings)})
        run = read_run(given.run, given.method, given.overrides)
        found = diagnose(run, settings, given.of, given.examples)
        print(in_words(run, settings, found))
        if given.json:
            content = {
                "run": str(given.run),
                "method": run.method,
                "gold": found.what,
                "settings": dataclasses.asdict(settings),
                "questions": found.questions,
                "totals": dict(found.totals),
                "misses": [as_record(miss) for miss in found.misses],
            }
            write_text(given.json, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    except AegError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

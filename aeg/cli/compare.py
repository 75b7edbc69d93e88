"""`aeg compare`: systems by data sets against a baseline, with statistics."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from aeg.cli.terminal import say


def main(arguments: Sequence[str]) -> int:
    """Compare the runs that the arguments name; print the tables, write the files."""
    given = _parser().parse_args(arguments)
    from aeg.artifacts import write_text
    from aeg.errors import DataError
    from aeg.experiment.compare import compare
    from aeg.experiment.compare.text import as_csv, described

    comparison = compare(
        given.folders,
        given.baseline,
        given.metric or (),
        given.trec or (),
        given.resamples,
        given.seed,
        given.changed,
    )
    written: list[Path] = []
    try:
        if given.csv:
            write_text(given.csv, as_csv(comparison))
            written.append(given.csv)
        if given.latex:
            from aeg.experiment.compare.latex import as_latex

            write_text(given.latex, as_latex(comparison))
            written.append(given.latex)
        if given.plots:
            from aeg.experiment.compare.plots import save_plots

            written += save_plots(comparison, given.plots)
    except OSError as error:
        raise DataError(f"{error.filename}: cannot be written ({error.strerror})") from None
    if given.json:
        say(json.dumps(comparison.plain(), indent=1, ensure_ascii=False))
        return 0
    say(described(comparison))
    if written:
        say("\nwritten: " + ", ".join(map(str, written)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="aeg compare", description="Compare finished runs question by question: differences, intervals, p values."
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="folders of sweeps and of runs")
    parser.add_argument("--baseline", metavar="NAME", help="the system that others are compared with")
    parser.add_argument("--metric", action="append", metavar="M", help="which metric (may be given more than once)")
    parser.add_argument(
        "--trec",
        action="append",
        metavar="NAME=FILE[@DATASET]",
        help="another system's TREC run, measured by the runs' gold documents (may be given more than once)",
    )
    parser.add_argument("--latex", type=Path, metavar="FILE", help="write a booktabs table")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all numbers")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw differences and curves, as PNG and PDF")
    parser.add_argument("--changed", type=int, default=3, metavar="N", help="questions that changed most (default 3)")
    parser.add_argument("--resamples", type=int, default=10_000, metavar="N", help="of the bootstrap (default 10000)")
    parser.add_argument("--seed", type=int, default=0, help="of bootstrap and randomisation test (default 0)")
    return parser

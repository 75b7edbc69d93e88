"""`python -m experiments.paper [TABLE ...] [--run FOLDER]`: the paper's tables, ours beside them.

Without `--run` the paper's numbers are printed, with the command that repeats them. With the folder of a finished (or
half finished) sweep ours stand beside them; where ours are another quantity no difference is printed, but the sign
against the paper's reference row with its paired interval, the rank correlation with the paper, and whether each holds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from aeg.errors import AegError, DataError, nearest
from aeg.experiment.paper import (
    Comparison,
    PaperTable,
    as_record,
    comparisons,
    expected,
    lines,
    markdown,
    paper_configs,
)
from aeg.experiment.table import aligned


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m experiments.paper", description="The paper's tables, ours beside them."
    )
    made.add_argument(
        "table", nargs="*", help="a config of configs/paper/ (table12_evidence, ...); default: all, listed"
    )
    made.add_argument(
        "--run", action="append", type=Path, metavar="FOLDER", help="folder of the table's sweep; repeatable"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON as well")
    made.add_argument("--markdown", type=Path, metavar="FILE", help="write everything as Markdown as well")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, or 2 on an error that the input caused."""
    given = parser().parse_args(arguments)
    try:
        if given.run:
            found = [one for folder in given.run for one in comparisons(folder)]
            _wanted(found, given.table)
            _show(found, given.json, given.markdown)
        else:
            _paper(given.table)
    except AegError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def paper_text(name: str, table: PaperTable) -> str:
    """Return a table as the paper has it, and how to repeat it.

    Args:
        name: of the config.
        table: what the config expects.
    """
    heads = [table.table, *table.columns]
    rows = [[row, *("-" if value is None else f"{value:,}" for value in values)] for row, values in table.rows.items()]
    how = f"python -m experiments.ablate configs/paper/{name}.yaml"
    notes = [f"note: {note}" for note in table.notes]
    return "\n".join(
        [f"{table.title} ({table.measure}; {table.source})", *aligned([heads, *rows]), *notes, f"run: {how}"]
    )


def _paper(names: Sequence[str]) -> None:
    known = paper_configs()
    wanted = [name.removeprefix("paper/") for name in names] or list(known)
    for name in wanted:
        if name not in known and not Path(name).is_file():
            raise DataError(f"{name}: no table of the paper is called so. {nearest(name, known)}")
        print(paper_text(Path(name).stem, expected(known.get(name, Path(name)))) + "\n")


def _wanted(found: Sequence[Comparison], names: Sequence[str]) -> None:
    """Check that a sweep is of the table that was asked for."""
    asked = {expected(f"paper/{name.removeprefix('paper/')}").table for name in names}
    for one in found:
        if asked and one.table not in asked:
            raise DataError(f"--run: this sweep repeats {one.table}, not {' or '.join(sorted(asked))}")


def _show(found: Sequence[Comparison], as_json: Path | None, as_markdown: Path | None) -> None:
    told: list[set[str]] = [set()]  # before each comparison: what a table of the same sweep has noted already
    for one in found:
        print("\n".join(lines(one, told[-1])) + "\n")
        told.append(told[-1] | set(one.notes))
    if as_json is not None:
        text = json.dumps([as_record(one) for one in found], indent=1, ensure_ascii=False)
        as_json.write_text(text + "\n", encoding="utf-8")
    if as_markdown is not None:
        as_markdown.write_text("\n".join(map(markdown, found, told)), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

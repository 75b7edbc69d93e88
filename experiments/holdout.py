"""Measures the held-out half of the questions and keeps a log of every time it was opened.

    python -m experiments.holdout CONFIG [CONFIG ...] [key.sub=value ...] [--against METHOD ...] [--dry-run]
    python -m experiments.holdout --table

Half of each file of questions, at odd places from 0, is held out: methods are developed with `questions=even`, and
`aeg run` refuses `questions=odd`. This program runs each config on the odd half and appends one line of JSON for each
data set to `experiments/holdout.jsonl`, which is committed: date, commit, config, overrides, fingerprint of the
resolved config, number of questions, measures with 95 % intervals, paired differences, and how often these questions
have been opened. It runs on a committed tree only, so that each line can be repeated; `--dry-run` checks that all is
ready and opens nothing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aeg.artifacts import fingerprint
from aeg.cli.terminal import Reporter
from aeg.config.load import find_config, load_config
from aeg.config.schema import ExperimentConfig
from aeg.errors import AegError, ConfigError, DataError, nearest
from aeg.evaluation.aggregate import ALL, MACRO, MetricRow, compare
from aeg.experiment.run import Outcome, run, run_folder
from aeg.pipeline.stages import Pipeline, half

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "experiments" / "holdout.jsonl"
_SOURCES = ("aeg", "configs", "experiments", "pyproject.toml")
_GROUPS = (ALL, MACRO)


@dataclass(frozen=True)
class Ready:
    """A config that can be run on its held-out half.

    Attributes:
        name: of the config as it was given.
        config: resolved, with `questions: odd`.
        dataset: what the corpus is called in the log.
        questions: fingerprint of the held-out questions, by which openings are counted.
        count: how many these are.
    """

    name: str
    config: ExperimentConfig
    dataset: str
    questions: str
    count: int


def commit(tree: Path, log: Path) -> str:
    """Return the commit of a clean work tree; changes of the log itself do not count.

    Raises:
        DataError: if it is no git checkout, or sources differ from the commit.
    """
    ours = [f":(exclude){log.relative_to(tree)}"] if log.is_relative_to(tree) else []
    try:
        changed = _git(tree, "status", "--porcelain", "--untracked-files=all", "--", *_SOURCES, *ours)
        found = _git(tree, "rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        raise DataError(f"{tree}: no git commit; the held-out half is opened from a checkout, for the log") from None
    if changed:
        files = [line[3:] for line in changed.splitlines()]
        named = ", ".join(files[:5]) + (", ..." if len(files) > 5 else "")
        raise DataError(f"{tree}: {len(files)} files differ from commit {found[:12]} ({named}); commit them first")
    return found


def ready(name: str, overrides: Sequence[str], against: Sequence[str], tree: Path = ROOT) -> Ready:
    """Check a config and its data.

    Args:
        name: a config file, or the name of a shipped one.
        overrides: `key.sub=value`.
        against: labels of methods that the others are compared with.
        tree: the checkout that the config must be part of.

    Raises:
        ConfigError: if the config is no file of the checkout, samples questions, or does not have such a method.
        DataError: if the data are missing, or no question is held out.
    """
    path = find_config(name).resolve()
    if not path.is_relative_to(tree):
        raise ConfigError(f"{name}: not a file of {tree}, whose commit the log names; put the config there")
    config = load_config(path, [*overrides, "questions=odd"])
    if config.num_questions is not None:
        raise ConfigError(f"num_questions: got {config.num_questions}, expected null: the whole half is measured")
    pipeline = Pipeline(config)
    labels = {item.label for item in pipeline.methods.propagation} | set(config.evaluation.baselines)
    for label in against:
        if label not in labels:
            raise ConfigError(f"--against {label}: not a method of {name}. {nearest(label, labels)}")
    asked: list[tuple[str, str, str]] = []
    for part, loader in pipeline.methods.corpus.parts(pipeline.root):
        found = half(loader.load(pipeline.root).queries, "odd")
        asked += sorted((part, query.id, query.question) for query in found)
    if not asked:
        raise DataError(f"{name}: no question stands at an odd place of its file, none is held out")
    return Ready(path.stem, config, dataset(config), fingerprint(asked)[:16], len(asked))


def dataset(config: ExperimentConfig) -> str:
    """Return what a config's corpus is called in the log.

    Example:
        >>> dataset(ExperimentConfig(corpus={"name": "graphrag_bench", "path": "novel/novel-*"}))
        'novel/novel-*'
        >>> dataset(ExperimentConfig(corpus={"name": "musique"}))
        'musique'
    """
    given = str(config.corpus.get("path") or config.corpus.get("questions") or config.corpus["name"])
    return Path(given).name if Path(given).is_absolute() else given


def opened(item: Ready, overrides: Sequence[str], against: Sequence[str], log: Path, head: str) -> dict[str, Any]:
    """Run a config on its held-out half and append the line of it to the log.

    Returns:
        The line.
    """
    outcome = run(item.config, Reporter(), holdout=True)
    line = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": head,
        "dataset": item.dataset,
        "opening": openings(entries(log), item.questions) + 1,
        "config": item.name,
        "overrides": [text for text in overrides if not text.startswith(("artifacts_dir=", "run_dir=", "data_root="))],
        "fingerprint": run_folder(item.config).name.rpartition("-")[2],
        "questions": item.questions,
        "n": item.count,
        "rows": [_record(row) for row in outcome.rows if row.group in _GROUPS],
        "differences": [_record(row) for row in differences(outcome, item.config, against) if row.group in _GROUPS],
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return line


def differences(outcome: Outcome, config: ExperimentConfig, against: Sequence[str]) -> list[MetricRow]:
    """Return the paired differences of every other method to each of `against`, question by question."""
    import pyarrow.parquet as pq

    if not against:
        return []
    columns = ["part", "question_id", "type", "method", "metrics"]
    table = pq.read_table(outcome.folder / "results.parquet", columns=columns).to_pylist()
    questions = {(row["part"], row["question_id"]): row["type"] for row in table}
    place = {key: at for at, key in enumerate(questions)}
    sums: dict[str, dict[str, np.ndarray]] = defaultdict(lambda: defaultdict(lambda: np.zeros((2, len(place)))))
    for row in table:
        for metric, value in row["metrics"]:
            sums[row["method"]][metric][:, place[row["part"], row["question_id"]]] += (value, 1)
    values = {method: {metric: _mean(pair) for metric, pair in of.items()} for method, of in sums.items()}
    parts = [part for part, _ in questions]
    several = parts if len(set(parts)) > 1 else None
    settings = config.evaluation
    return [
        row
        for other in against
        for method in values
        if method not in against
        for row in compare(
            (method, values[method]),
            (other, values[other]),
            list(questions.values()),
            several,
            settings.resamples,
            settings.bootstrap_seed,
        )
    ]


def entries(log: Path) -> list[dict[str, Any]]:
    """Return the lines of the log; none where there is no file yet.

    Raises:
        DataError: naming the line that is broken.
    """
    if not log.exists():
        return []
    found = []
    for number, text in enumerate(log.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            entry = json.loads(text)
            found.append({key: entry[key] for key in _KEYS})
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{log}, line {number}: not a line of this log ({error!r}); restore it from git") from None
    return found


_KEYS = (
    *("date", "commit", "dataset", "opening", "config", "overrides"),
    *("fingerprint", "questions", "n", "rows", "differences"),
)


def openings(known: Iterable[Mapping[str, Any]], questions: str) -> int:
    """Return how often a set of held-out questions was opened."""
    return sum(entry["questions"] == questions for entry in known)


def markdown(known: Sequence[Mapping[str, Any]]) -> str:
    """Return the log as Markdown, a table for each data set, percent with 95 % intervals; `all` questions' means."""
    if not known:
        return "The held-out half has not been opened."
    blocks = []
    for name in sorted({entry["dataset"] for entry in known}):
        of = [entry for entry in known if entry["dataset"] == name]
        metrics = list(dict.fromkeys(row["metric"] for entry in of for row in entry["rows"]))
        head = ["opening", "date", "commit", "config", "method", "n", *metrics]
        lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
        for entry in of:
            lines += [f"| {' | '.join(cells)} |" for cells in _rows(entry, metrics)]
        times = "once" if len(of) == 1 else f"{len(of)} times"
        blocks.append("\n".join([f"### {name}: opened {times}", "", *lines]))
    return "\n\n".join(blocks)


def _rows(entry: Mapping[str, Any], metrics: Sequence[str]) -> list[list[str]]:
    setting = " ".join([entry["config"], *(f"`{text}`" for text in entry["overrides"])])
    found: dict[str, dict[str, str]] = {}
    for section, sign in (("rows", ""), ("differences", "+")):
        for row in entry[section]:
            if row["group"] == ALL and row["value"] is not None:
                value, low, high = (f"{100 * row[key]:{sign}.1f}" for key in ("value", "ci_low", "ci_high"))
                found.setdefault(row["method"], {})[row["metric"]] = f"{value} [{low}, {high}]"
    start = [str(entry["opening"]), entry["date"][:10], entry["commit"][:9], setting]
    return [
        [*start, method, str(entry["n"]), *(cells.get(metric, "") for metric in metrics)]
        for method, cells in found.items()
    ]


def _record(row: MetricRow) -> dict[str, Any]:
    numbers = {"value": row.value, "ci_low": row.ci_low, "ci_high": row.ci_high}
    rounded = {key: None if np.isnan(value) else round(value, 6) for key, value in numbers.items()}
    p_value = {} if row.p_value is None else {"p_value": round(row.p_value, 6)}
    return {"method": row.method, "metric": row.metric, "group": row.group, **rounded, "n": row.n, **p_value}


def _mean(pair: np.ndarray) -> np.ndarray:
    """Values summed over seeds of chance, and their number, as means; NaN where there is no value."""
    total, number = pair
    return np.divide(total, number, out=np.full(len(total), np.nan), where=number > 0)


def _git(tree: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=tree, capture_output=True, text=True, check=True).stdout.rstrip()


def main(arguments: Sequence[str], log: Path = LOG, tree: Path = ROOT) -> int:
    """Run the program; `log` and `tree` are its own except in tests."""
    parser = argparse.ArgumentParser(prog="python -m experiments.holdout", description=__doc__.split("\n", 1)[0])
    parser.add_argument("given", nargs="*", metavar="CONFIG or key.sub=value")
    parser.add_argument("--against", action="append", default=[], metavar="METHOD", help="record paired differences")
    parser.add_argument("--dry-run", action="store_true", help="check that all is ready; open nothing")
    parser.add_argument("--table", action="store_true", help="print the log as Markdown")
    options = parser.parse_intermixed_args(arguments)
    names = [text for text in options.given if "=" not in text]
    overrides = [text for text in options.given if "=" in text]
    if not names and not options.table:
        parser.error("no CONFIG given")
    try:
        known = entries(log)
        items = [ready(name, overrides, options.against, tree) for name in names]
        for item in items:
            times = openings(known, item.questions)
            print(f"{item.name}: {item.dataset}, {item.count} held-out questions, opened {times} times so far")
        if options.dry_run:
            print(f"ready: the tree is clean at {commit(tree, log)[:12]}; nothing was opened")
        elif items:
            head = commit(tree, log)
            for item in items:
                line = opened(item, overrides, options.against, log, head)
                print(markdown([line]))
            print(f"\nappended to {log}; commit it")
        if options.table:
            print(markdown(entries(log)))
    except AegError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

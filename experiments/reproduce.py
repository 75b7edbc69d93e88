"""Runs a run again from its manifest, and reports every difference.

    python -m experiments.reproduce RUN [--artifacts [DIR]] [--out DIR] [--tolerance T] [--strict] [--json]

RUN is a run folder. Everything is computed again in a fresh artifacts folder, with the values that the manifest
records: a default that has changed since is told, and overruled. Exit code: 0 where inputs and results are the same
up to the tolerance, 1 where they differ, 2 where the run cannot be run again. Another commit, other library versions,
another device are told, and decide the exit code with --strict only.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aeg.cli.terminal import Reporter
from aeg.config.load import restored, to_plain
from aeg.config.schema import ExperimentConfig
from aeg.errors import AegError, ConfigError
from aeg.experiment.differences import (
    ABSENT,
    CIRCUMSTANCES,
    Comparison,
    Difference,
    compare_runs,
    leaves,
    read_manifest,
)
from aeg.experiment.provenance import parameters
from aeg.experiment.run import run
from aeg.pipeline.methods import resolve

_SHOWN = 5  # differences of one kind that are printed; --json has them all
_RECORDED = ("defaults", "methods", "files", "plugins", "sources", "environment")


@dataclass(frozen=True)
class Restored:
    """The config of a recorded run.

    Attributes:
        config: with the recorded value of every key and parameter that is still known.
        differences: keys and parameters that came, went, or whose default has changed.
        unknown: what the manifest does not record, as it was written by an earlier version.
    """

    config: ExperimentConfig
    differences: list[Difference]
    unknown: list[str]


def recorded_config(manifest: Mapping[str, Any]) -> Restored:
    """Return the config that a manifest records, and how today's defaults differ from those of then.

    Raises:
        ConfigError: if a method of the run is not known any more, or a value is not allowed any more.
    """
    today = to_plain(ExperimentConfig())
    values, differences = _known(copy.deepcopy(dict(manifest["config"])), today, "")
    then = manifest.get("defaults", {})
    for where, before, after, how in leaves(then, today, 0.0):
        if how != "exact" and ABSENT not in (before, after):
            differences.append(Difference("config", f"default of {where}", before, after))
    config = restored(values)
    recorded = manifest.get("methods", {})
    for section, params in parameters(resolve(config)).items():
        changed = list(leaves(recorded.get(section, params), params, 0.0))
        for key, before, after, how in changed:
            if how != "exact":
                differences.append(Difference("config", f"default of {section}.{key}", before, after))
        _pin(values, section, recorded.get(section, {}), params)
    return Restored(restored(values), differences, [name for name in _RECORDED if name not in manifest])


def _known(values: dict[str, Any], today: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[Difference]]:
    """The values whose keys are known today; sections of methods (`name: ...`) are left to their methods."""
    kept, differences = {}, []
    for key, value in values.items():
        place = f"{where}.{key}" if where else key
        if key not in today:
            differences.append(Difference("config", place, value, ABSENT))
            continue
        section = isinstance(value, dict) and isinstance(today[key], dict) and "name" not in today[key] and today[key]
        kept[key], found = _known(value, today[key], place) if section else (value, [])
        differences += found
    for key in today:
        if key not in values:
            differences.append(Difference("config", f"{where}.{key}" if where else key, ABSENT, today[key]))
    return kept, differences


def _pin(values: dict[str, Any], section: str, recorded: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Write the recorded value of each parameter whose default has changed into the section that names the method."""
    changed = {key: value for key, value in recorded.items() if key in params and value != params[key]}
    if not changed:
        return
    holder: Any = values
    for part in section.split("."):
        holder = holder[int(part)] if isinstance(holder, list) else holder[part]
    holder.update(changed)


def reproduce(
    folder: Path, out: Path, artifacts: Path, pay: bool = False, tolerance: float = 1e-6
) -> tuple[Comparison, Restored, Path]:
    """Run a run again, and compare.

    Args:
        folder: of the run.
        out: folder in which the new run folder is made.
        artifacts: of the new run.
        pay: language models may be asked again.
        tolerance: see `compare_runs`.

    Returns:
        The comparison, the config, and the new run folder.

    Raises:
        AegError: if the run cannot be run again: data, a method or a model is missing.
    """
    before = read_manifest(folder)
    found = recorded_config(before)
    config = dataclasses.replace(found.config, run_dir=str(out), artifacts_dir=str(artifacts))
    models = resolve(config).models
    if any(backend.spends for backend in models.values()) and not pay:
        raise ConfigError(
            f"this run asks language models ({', '.join(models)}): give --artifacts DIR, the folder whose llm/cache "
            "holds its replies, or --pay to have them asked again"
        )
    outcome = run(config, Reporter())
    comparison = compare_runs(folder, outcome.folder, tolerance)
    comparison.differences[:0] = found.differences
    comparison.tallies = {"config": Counter(differ=len(found.differences)), **comparison.tallies}
    return comparison, found, outcome.folder


def as_text(comparison: Comparison, found: Restored, tolerance: float) -> str:
    """Return the report for a person."""
    lines = [f"{'':<12} {'exact':>8} {f'within {tolerance:g}':>14} {'differ':>8}"]
    for kind, tally in comparison.tallies.items():
        lines.append(f"{kind:<12} {tally['exact']:>8,} {tally['within']:>14,} {tally['differ']:>8,}")
    for kind in comparison.tallies:
        of = [difference for difference in comparison.differences if difference.kind == kind]
        note = " (told, not part of the result)" if kind in CIRCUMSTANCES else ""
        lines += [f"\n{kind}{note}:"] if of else []
        lines += [f"  {d.where}: {_short(d.before)} -> {_short(d.after)}" for d in of[:_SHOWN]]
        lines += [f"  and {len(of) - _SHOWN:,} more; --json lists all"] if len(of) > _SHOWN else []
    if any(d.kind == "config" for d in comparison.differences):
        lines.append("\nthe new run took the recorded value wherever there is one")
    if found.unknown:
        lines.append(f"\nnot recorded by the version that ran it, so not compared: {', '.join(found.unknown)}")
    return "\n".join(lines)


def as_record(comparison: Comparison, found: Restored, tolerance: float) -> dict[str, Any]:
    """Return the report as plain values."""
    return {
        "same": comparison.same,
        "tolerance": tolerance,
        "tallies": {kind: dict(tally) for kind, tally in comparison.tallies.items()},
        "differences": [dataclasses.asdict(difference) for difference in comparison.differences],
        "not_recorded": found.unknown,
    }


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 90 else text[:87] + "..."


def main(arguments: Sequence[str]) -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m experiments.reproduce", description=__doc__.split("\n", 1)[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument(
        "--artifacts",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="DIR",
        help="take cached stages from DIR (default: the folder that the manifest names) instead of computing all again",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the new run folder in DIR")
    parser.add_argument("--tolerance", type=float, default=1e-6, metavar="T", help="of numbers (default 1e-6)")
    parser.add_argument("--strict", action="store_true", help="exit 1 for other versions, commit or device too")
    parser.add_argument("--pay", action="store_true", help="language models may be asked again")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    try:
        return _main(given)
    except AegError as error:
        message = " ".join(str(error).split())
        if given.json:
            print(json.dumps({"same": None, "error": message}, ensure_ascii=False))
        sys.stderr.write(f"error: {given.run} cannot be run again: {message}\n")
        return error.exit_code


def _main(given: argparse.Namespace) -> int:
    manifest = read_manifest(given.run)
    place = Path(tempfile.mkdtemp(prefix="aeg-reproduce-"))
    try:
        named = given.artifacts is not None
        artifacts = (given.artifacts if named and given.artifacts != Path() else None) or (
            Path(manifest["config"].get("artifacts_dir", "artifacts")) if named else place / "artifacts"
        )
        out = (given.out or place / "runs").resolve()
        if out == given.run.resolve().parent:
            raise ConfigError(f"--out: {out} holds the run itself, which would be written over; give another folder")
        found = reproduce(given.run, out, artifacts, given.pay or named, given.tolerance)
        return _report(*found, given)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _report(comparison: Comparison, found: Restored, folder: Path, given: argparse.Namespace) -> int:
    same = not comparison.differences if given.strict else comparison.same
    if given.json:
        record = as_record(comparison, found, given.tolerance)
        print(json.dumps({**record, "folder": str(folder) if given.out else None}, indent=1, ensure_ascii=False))
        return 0 if same else 1
    print(as_text(comparison, found, given.tolerance))
    print(f"\n{given.run}: {'the same' if same else 'NOT the same'}")
    if given.out:
        print(f"new run folder: {folder}")
    elif not same:
        print("the new run folder was temporary; keep it with --out DIR")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The command that repeats a run: the shipped config that is nearest to it, and what differs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from aeg.config.load import load_config, restored, shipped_configs, to_plain
from aeg.errors import AegError
from aeg.experiment.run import PLACES, run_folder
from aeg.report.folder import Run, Sweep

_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")
_WORDS_OF_YAML = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
_MOST, _FEW = 12, 4  # overrides: more are no command; so few need no better base
_PARTS = ("llm", "ablation", "preset", "retrieval")
_SWEEP = re.compile(r"^sweep:", re.MULTILINE)


def sweep_command(sweep: Sweep, run: Run | None = None) -> str:
    """Return the command that repeats a sweep, or one element of it."""
    command = sweep.command or shlex.join(["python", "-m", "experiments.ablate", sweep.config])
    return command if run is None else f"{command} --only {run.id}"


def run_command(config: Mapping[str, Any]) -> str | None:
    """Return `aeg run BASE key=value ...` that repeats a run; None where it takes a config file of its own.

    The base is the shipped config with the fewest differences; where results are written, and on what they are
    computed, is left to the machine. The command is checked: loading it gives the run's config again.
    """
    try:
        wanted = to_plain(restored(config))
    except AegError:
        return None
    best: tuple[int, int, str, list[str]] | None = None
    for name, base in _bases(str(wanted["name"])):
        overrides = list(_differences(base, wanted, ""))
        rank = (len(overrides), len(" ".join(overrides)), name, overrides)
        best = rank if best is None or rank < best else best
        if best[0] <= _FEW:
            break
    if best is None or best[0] > _MOST:
        return None
    _, _, name, overrides = best
    try:
        again = load_config(name, overrides)
    except AegError:
        return None
    same = run_folder(again).name == run_folder(restored(config)).name
    if not same:
        return None
    if again.questions == "odd":  # the held-out half has a program of its own, which says so itself
        overrides = [text for text in overrides if not text.startswith("questions=")]
        return shlex.join(["python", "-m", "experiments.holdout", name, *overrides])
    return shlex.join(["aeg", "run", name, *overrides])


def method_command(run: Run, method: str) -> str | None:
    """Return the command that repeats one method of a run: the same run with that method alone."""
    config = dict(run.config)
    entries = config.get("propagation") or []
    chosen = [entry for entry in entries if (entry.get("label") or entry.get("name")) == method]
    evaluation = dict(config.get("evaluation") or {})
    if chosen:
        evaluation["baselines"] = []
    elif method in (evaluation.get("baselines") or []):
        evaluation["baselines"], chosen = [method], entries[:1]
    else:
        return None
    config["propagation"], config["evaluation"] = chosen, evaluation
    return run_command(config)


def _bases(own: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The shipped configs of whole runs, the run's own first."""
    names = [name for name, path in sorted(shipped_configs().items()) if _whole(name, path)]
    for name in sorted(names, key=lambda name: name != own):
        base = _base(name)
        if base is not None:
            yield name, base


@cache
def _base(name: str) -> dict[str, Any] | None:
    try:
        return to_plain(load_config(name))
    except AegError:
        return None


def _whole(name: str, path: Path) -> bool:
    """Whether a config is a run by itself: neither a part for other configs nor a sweep."""
    return name.split("/")[0] not in _PARTS and not _SWEEP.search(path.read_text(encoding="utf-8"))


def _differences(base: Any, wanted: Any, key: str) -> Iterator[str]:
    """Yield `key=value` for what must change to turn `base` into `wanted`."""
    if not key or _mergeable(base, wanted):
        for name, value in wanted.items():
            below = f"{key}.{name}" if key else name
            if below in PLACES:
                continue
            if name in base:
                yield from _differences(base[name], value, below)
            else:
                yield f"{below}={flow(value)}"
    elif base != wanted:
        yield f"{key}={flow(wanted)}"


def _mergeable(base: Any, wanted: Any) -> bool:
    """Whether overrides can reach inside: sections that keep all of their keys and their method."""
    both = isinstance(base, dict) and isinstance(wanted, dict)
    return both and not (base.keys() - wanted.keys()) and base.get("name") == wanted.get("name")


def flow(value: Any) -> str:
    """Return a value as YAML on one line.

    Example:
        >>> flow([{"name": "ppr", "restart": 0.3, "label": None}]), flow("null")
        ('[{name: ppr, restart: 0.3, label: null}]', "'null'")
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(of)}" for key, of in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(of) for of in value) + "]"
    if isinstance(value, float):
        text = repr(value)
        return text if "." in text or "e" not in text else text.replace("e", ".0e")  # as YAML reads it
    if isinstance(value, str) and value.isprintable():
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML
        return value if plain else "'" + value.replace("'", "''") + "'"
    return json.dumps(value)


def write_config(run: Run, folder: Path) -> Path:
    """Write a run's config as YAML into a folder and return the file."""
    import yaml

    from aeg.artifacts import write_text

    path = folder / f"{run.folder.name}.yaml"
    kept = {key: value for key, value in run.config.items() if key not in PLACES}
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, yaml.safe_dump(kept, sort_keys=False, allow_unicode=True))
    return path

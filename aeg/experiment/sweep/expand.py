"""Expanding a config file with a section `sweep` into the configs of its runs."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from aeg.config.load import base_file, file_tree, find_config, from_tree, laid_over, parsed, set_value, taken
from aeg.config.sweep import SweepConfig, Variation, sweep_config
from aeg.errors import ConfigError
from aeg.experiment.sweep.sweep import Sweep, SweepRun

_OWN = "sweep."
_GRID = "sweep.grid."


def expand(path: str | Path, overrides: Sequence[str] = ()) -> Sweep:
    """Return the sweep of a config file; one without a section `sweep` is a sweep of one run.

    Layers, each over those before: the bases of the file, what the data set extends, the file's own keys, what the
    data set sets, `overrides`, what the variant extends and sets, the grid, the seed.

    Args:
        path: a YAML file, or the name of a shipped one.
        overrides: `key.sub=value`; `sweep.seeds=[0, 1]` and `sweep.grid.KEY=[..]` change the axes.

    Raises:
        ConfigError: if a run's config is wrong (the run is named), two runs are the same, or an override sets what an
            axis sets.
        DataError: if a file is missing.
    """
    file = find_config(path)
    pairs = [parsed(override) for override in overrides]
    sections = taken(file_tree(file))
    spec = sweep_config(_section(sections.pop("sweep", None), pairs))
    own = [(key, value) for key, value in pairs if not key.startswith(_OWN)]
    _check(spec, [key for key, _ in own])
    runs = []
    for dataset in spec.datasets or [None]:
        tree = _based(file, dataset, own)
        runs += [_run(spec, dataset, *point) for point in _points(tree, spec, file)]
    name = str(runs[0].config.name)
    _distinct(runs)
    return Sweep(name, str(path), tuple(overrides), spec.baseline, sections, tuple(runs))


def _section(section: Any, pairs: Sequence[tuple[str, Any]]) -> Any:
    """The section with the overrides of `sweep.` in it."""
    changes = [(key, value) for key, value in pairs if key.startswith(_OWN)]
    if not changes or (section is not None and not isinstance(section, Mapping)):
        return section
    changed = {**(section or {})}
    for key, value in changes:
        if key.startswith(_GRID):
            changed["grid"] = {**(changed.get("grid") or {}), key.removeprefix(_GRID): value}
        else:
            changed[key.removeprefix(_OWN)] = value
    if isinstance(changed.get("grid"), Mapping):
        changed["grid"] = {key: values for key, values in changed["grid"].items() if values is not None}
    return {key: value for key, value in changed.items() if value is not None}


def _check(spec: SweepConfig, keys: Sequence[str]) -> None:
    for key in keys:
        for axis in spec.set_keys():
            if f"{key}.".startswith(f"{axis}."):
                raise ConfigError(
                    f"override {key}: the sweep sets {axis} in each of its runs; change the axis instead, by "
                    f"`sweep.grid.KEY=[...]`, `sweep.variants=[...]` or `sweep.seeds=[...]`"
                )


def _based(file: Path, dataset: Variation | None, own: Sequence[tuple[str, Any]]) -> DictConfig:
    """The file's tree on one data set, with the overrides."""
    under = None if dataset is None or not dataset.files else _layers(dataset, file)
    tree = file_tree(file, under)
    taken(tree)
    for key, value in [*(dataset.set.items() if dataset else ()), *own]:
        set_value(tree, key, copy.deepcopy(value))
    return tree


def _layers(variation: Variation, file: Path) -> DictConfig:
    """What a variation extends, merged; its `name` and the sections of sweeps are not taken over."""
    merged = DictConfig({})
    for name in variation.files:
        merged = laid_over(merged, file_tree(base_file(name, file)))
    taken(merged)
    merged.pop("name", None)
    return merged


Point = tuple[DictConfig, Variation | None, Mapping[str, Any], int | None]


def _points(tree: DictConfig, spec: SweepConfig, file: Path) -> Iterator[Point]:
    """Yield tree, variant, values of the grid and seed of each run on one data set."""
    for variant in spec.variants or [None]:
        changed = tree if variant is None or not variant.files else laid_over(tree.copy(), _layers(variant, file))
        for values in itertools.product(*spec.grid.values()):
            for seed in (*spec.seeds,) or (None,):
                point = dict(zip(spec.grid, values, strict=True))
                yield changed.copy(), variant, point, seed


def _run(
    spec: SweepConfig,
    dataset: Variation | None,
    tree: DictConfig,
    variant: Variation | None,
    point: Mapping[str, Any],
    seed: int | None,
) -> SweepRun:
    short = _short(list(spec.grid))
    parts = [variant.name] if variant else []
    parts += [f"{short[key]}={shown(value)}" for key, value in point.items()]
    system = ", ".join(parts)
    name = ", ".join([*([dataset.name] if dataset else []), *parts, *([] if seed is None else [f"seed={seed}"])])
    axes: dict[str, Any] = {"dataset": dataset.name} if dataset else {}
    axes |= {"variant": variant.name} if variant else {}
    axes |= dict(point) | ({} if seed is None else {"seed": seed})
    changes = [*(variant.set.items() if variant else ()), *point.items()]
    changes += [] if seed is None else [("seeds", [seed])]
    try:
        for key, value in changes:
            set_value(tree, key, copy.deepcopy(value))
        config = from_tree(tree)
    except ConfigError as error:
        where = f"run {name!r} of the sweep: " if name else ""
        raise ConfigError(f"{where}{error}") from None
    return SweepRun(name or str(config.name), system, axes, config)


def _short(keys: Sequence[str]) -> dict[str, str]:
    """The last word of each key that says something; the whole key where two would be the same.

    Example:
        >>> _short(["propagation.0.restart", "query.linking.name"])
        {'propagation.0.restart': 'restart', 'query.linking.name': 'linking'}
    """
    words = {key: [word for word in key.split(".") if not word.isdigit() and word != "name"] for key in keys}
    last = {key: parts[-1] if parts else key for key, parts in words.items()}
    names = list(last.values())
    return {key: name if names.count(name) == 1 else key for key, name in last.items()}


def shown(value: Any) -> str:
    """Return a value of an axis in few words.

    Example:
        >>> [shown(v) for v in (0.1, None, True, "bm25", {"name": "ppr", "restart": 0.3}, [2, 5])]
        ['0.1', 'null', 'true', 'bm25', 'ppr', '2+5']
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        named = value.get("label") or value.get("name")
        return str(named) if named else json.dumps(value, ensure_ascii=False, sort_keys=True)
    if isinstance(value, list):
        return "+".join(shown(item) for item in value) or "none"
    return json.dumps(value)


def _distinct(runs: Sequence[SweepRun]) -> None:
    for what, keys in (("name", [run.name for run in runs]), ("config", [run.id for run in runs])):
        first: dict[str, SweepRun] = {}
        for key, run in zip(keys, runs, strict=True):
            if key in first:
                raise ConfigError(
                    f"sweep: runs {first[key].name!r} and {run.name!r} have the same {what}; drop one of them, or let "
                    f"them differ"
                )
            first[key] = run

"""The section `sweep` of a config file: the axes along which one experiment becomes many."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from aeg.config.merge import into_dataclass
from aeg.config.ranges import Checked, param
from aeg.errors import ConfigError


@dataclass(frozen=True)
class Variation(Checked):
    """One place on the axis of data sets or of variants.

    Attributes:
        name: what it is called; unique on its axis.
        extends: a config file, or a list of them, merged in.
        set: values by dotted key, set over that.
    """

    name: str = ""
    extends: Any = None
    set: dict[str, Any] = param({})

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files in `extends`."""
        return (self.extends,) if isinstance(self.extends, str) else tuple(self.extends or ())


@dataclass(frozen=True)
class SweepConfig(Checked):
    """The axes of a sweep, which are crossed: data sets, variants, the grid, seeds of chance.

    Attributes:
        datasets: `{name: ..., extends: ..., set: {...}}`, or the name of a config file. What a data set extends lies
            below the own keys of the sweep's file, what it sets above them.
        variants: likewise; both lie above the file.
        grid: a list of values by dotted key.
        seeds: seeds of chance, one a run.
        baseline: the system that others are compared with.
    """

    datasets: list[Any] = field(default_factory=list)
    variants: list[Any] = field(default_factory=list)
    grid: dict[str, Any] = param({})
    seeds: list[int] = field(default_factory=list)
    baseline: str | None = None

    def set_keys(self) -> list[str]:
        """Return the config keys that variants, grid and seeds set, so that an override of them is a mistake."""
        of_variants = [key for variant in self.variants for key in variant.set]
        return [*self.grid, *of_variants, *(["seeds"] if self.seeds else [])]


def sweep_config(section: Mapping[str, Any] | None) -> SweepConfig:
    """Return the checked section.

    Raises:
        ConfigError: on an unknown key, an axis without values, a name that is missing or used twice, or a value twice
            on an axis.

    Example:
        >>> sweep_config({"grid": {"propagation.0.restart": [0.1, 0.3]}, "datasets": ["two_wiki"]}).datasets
        [Variation(name='two_wiki', extends='two_wiki', set={})]
        >>> sweep_config({"gird": {}})
        Traceback (most recent call last):
        ...
        aeg.errors.ConfigError: sweep.gird: unknown key. Did you mean 'grid'? Available: ...
    """
    if section is not None and not isinstance(section, Mapping):
        raise ConfigError(f"sweep: got {section!r}, expected a section (datasets, variants, grid, seeds, baseline)")
    given = into_dataclass(SweepConfig, section or {}, "sweep")
    for key, values in given.grid.items():
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise ConfigError(f"sweep.grid.{key}: got {values!r}, expected a list of values")
        _unique([repr(value) for value in values], f"sweep.grid.{key}", "value")
    _unique([str(seed) for seed in given.seeds], "sweep.seeds", "seed")
    return dataclasses.replace(
        given,
        datasets=_variations(given.datasets, "sweep.datasets"),
        variants=_variations(given.variants, "sweep.variants"),
    )


def _variations(entries: Sequence[Any], where: str) -> list[Any]:
    found = [_variation(entry, f"{where}.{at}") for at, entry in enumerate(entries)]
    _unique([variation.name for variation in found], where, "name")
    return found


def _variation(entry: Any, where: str) -> Variation:
    if isinstance(entry, Variation):
        return entry
    if isinstance(entry, str):
        return Variation(PurePosixPath(entry).stem, entry)
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{where}: got {entry!r}, expected the name of a config file, or {{name, extends, set}}")
    found = into_dataclass(Variation, entry, where)
    listed = [found.extends] if isinstance(found.extends, str) else found.extends or []
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise ConfigError(f"{where}.extends: got {found.extends!r}, expected the name of a config file, or a list")
    if not found.name:
        raise ConfigError(f"{where}: got no name, expected one (it stands in tables)")
    return found


def _unique(values: Sequence[str], where: str, what: str) -> None:
    twice = [value for at, value in enumerate(values) if value in values[:at]]
    if twice:
        raise ConfigError(f"{where}: {what} {twice[0]} stands twice; give each once")

"""A sweep: its runs, where they lie, and what they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from aeg.artifacts import fingerprint
from aeg.config.schema import ExperimentConfig
from aeg.errors import DataError, nearest
from aeg.experiment.run import run_folder


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep.

    Attributes:
        name: its place on all axes, `medical, restart=0.1`.
        system: likewise without data set and seed, empty where there is no other axis.
        axes: values by axis: `dataset`, `variant`, keys of the grid, `seed`.
        config: its whole config.
    """

    name: str
    system: str
    axes: Mapping[str, Any]
    config: ExperimentConfig

    @cached_property
    def folder(self) -> Path:
        """The run's folder, the same for the same config."""
        return run_folder(self.config)

    @property
    def id(self) -> str:
        """Eight hexadecimal digits that the config decides, places left out."""
        return self.folder.name.rpartition("-")[2]


@dataclass(frozen=True)
class Sweep:
    """Runs that belong together.

    Attributes:
        name: the config's.
        source: the config file, as it was given.
        overrides: as they were given.
        baseline: the system that others are compared with, if the file names one.
        sections: `paper` and `expected` of the file, where it has them.
        runs: in the order of the axes.
        place: the sweep's folder, where it was read from one.
    """

    name: str
    source: str
    overrides: tuple[str, ...]
    baseline: str | None
    sections: Mapping[str, Any]
    runs: tuple[SweepRun, ...]
    place: Path | None = None

    @property
    def folder(self) -> Path:
        """The sweep's folder, beside those of its runs."""
        if self.place is not None:
            return self.place
        digits = fingerprint([self.name, [run.id for run in self.runs]])[:8]
        return self.runs[0].folder.parent / f"{self.name}-sweep-{digits}"

    def chosen(self, names: Sequence[str]) -> tuple[SweepRun, ...]:
        """Return the runs of these ids or names, in the sweep's order; all where none is named.

        Raises:
            DataError: if there is no such run.
        """
        if not names:
            return self.runs
        known = {key: run.id for run in self.runs for key in (run.name, run.id)}
        for name in names:
            if name not in known:
                raise DataError(f"--only {name}: no such run in {self.name}. {nearest(name, known)}")
        ids = {known[name] for name in names}
        return tuple(run for run in self.runs if run.id in ids)

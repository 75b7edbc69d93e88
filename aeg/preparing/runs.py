"""The runs that a config, a sweep file or a sweep's folder stands for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aeg.config.load import find_config
from aeg.config.schema import ExperimentConfig


def runs_of(source: str, overrides: Sequence[str]) -> list[tuple[str, ExperimentConfig]]:
    """Return name and config of each run; of one experiment, one.

    Raises:
        ConfigError: if a config is wrong.
        DataError: if there is no such file.
    """
    from aeg.experiment.sweep import load_sweep

    path = Path(source)
    if not path.is_dir() and path.name != "sweep.json":
        find_config(source)
    sweep = load_sweep(source, overrides)
    return [(run.name, run.config) for run in sweep.runs]

"""The config of experiment tracking: whether runs are shown in Weights & Biases too, and under which names."""

from __future__ import annotations

from dataclasses import dataclass, field

from aeg.config.ranges import Checked, param


@dataclass(frozen=True)
class TrackingConfig(Checked):
    """Where a run is shown beside its folder, which needs no tracking and stays the source of truth.

    No part of this decides a result, or the name of a run's folder. Keys come from the environment only.

    Attributes:
        name: `none`, or `wandb` (extra `track`).
        mode: `online` (while it runs), `offline` (a folder that is sent later), `disabled`. null takes the environment
            variable `WANDB_MODE`, else `online`.
        project: null takes `WANDB_PROJECT`, else `aeg`.
        entity: user or team; null takes `WANDB_ENTITY`, else the account's own.
        group: of runs that belong together; null takes the sweep's folder name, for a run of a sweep.
        tags: words to find the run by.
        artifacts: keep the files of the run folder there too.
        timeout: seconds that a run waits for the tracker at its end at most; it goes on without it.
    """

    name: str = param("none", choices=("none", "wandb"))
    mode: str | None = param(None, choices=("online", "offline", "disabled"))
    project: str | None = None
    entity: str | None = None
    group: str | None = None
    tags: list[str] = field(default_factory=list)
    artifacts: bool = True
    timeout: float = param(60.0, gt=0)

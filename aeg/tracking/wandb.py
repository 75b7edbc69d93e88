"""Weights & Biases behind the interface of trackers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aeg.errors import DataError, DependencyError
from aeg.tracking.content import Content
from aeg.tracking.journal import Identity
from aeg.tracking.sink import Sink

FOLDER = "wandb"
_CUT = 300  # characters of an error
_DROPPED = (
    *("WANDB_RUN_ID", "WANDB_RESUME", "WANDB_SWEEP_ID", "WANDB_SERVICE", "WANDB_NAME", "WANDB_RUN_GROUP"),
    *("WANDB_TAGS", "WANDB_DIR", "WANDB_MODE", "WANDB_JOB_TYPE", "WANDB_NOTES", "WANDB_CONFIG_PATHS"),
)


class Wandb(Sink):
    """One run in Weights & Biases; see `aeg.tracking.sink.Sink`.

    Nothing but what is given is told: no console, no code, no git remote, no command line, no machine.

    Args:
        offline: write a folder for `wandb sync` and send nothing.
        timeout: seconds to begin, and to end.
    """

    def __init__(self, offline: bool, timeout: float) -> None:
        self._offline, self._timeout = offline, timeout
        self._run: Any = None
        self._identity = Identity("", "")
        self._stopped = False

    def open(self, identity: Identity, config: Mapping[str, Any], folder: Path) -> int:
        """Begin, or go on; see `Sink.open`."""
        own = folder / FOLDER
        own.mkdir(parents=True, exist_ok=True)
        for name in _DROPPED:  # of a notebook, a job or another run: what this run is, is told by its config
            os.environ.pop(name, None)
        for name in ("WANDB_CACHE_DIR", "WANDB_DATA_DIR", "WANDB_ARTIFACT_DIR"):
            os.environ.setdefault(name, str(own / "cache"))
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        try:
            import wandb
        except ImportError as error:
            raise DependencyError(
                f"wandb cannot be imported ({error}); pip install 'atom-entity-graph[track]'"
            ) from None
        if self._offline:
            for old in own.glob(f"offline-run-*-{identity.id}"):
                shutil.rmtree(old)
        settings = wandb.Settings(
            mode="offline" if self._offline else "online",
            root_dir=str(folder),
            console="off",
            silent=True,
            symlink=False,
            stop_on_fatal_error=True,
            stop_fn=self._stop,
            disable_git=True,
            disable_code=True,
            save_code=False,
            disable_job_creation=True,
            init_timeout=self._timeout,
            finish_timeout=self._timeout,
            finish_timeout_raises=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
            x_skip_transaction_log=not self._offline,
        )
        try:
            self._run = wandb.init(
                project=identity.project,
                entity=identity.entity,
                id=identity.id,
                name=identity.name,
                group=identity.group,
                job_type=identity.kind,
                tags=list(identity.tags),
                config=dict(config),
                resume=None if self._offline else "allow",
                settings=settings,
            )
        except (wandb.Error, OSError, TimeoutError) as error:
            raise DataError(f"Weights & Biases: {_one_line(error)}") from None
        self._identity = identity
        return int(self._run.starting_step)

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Show the values of a step."""
        self._run.log(dict(values), step=step)

    def show(self, step: int, content: Content) -> None:
        """Show tables, plots and files."""
        import wandb

        self._run.config.update(content.config, allow_val_change=True)
        shown: dict[str, Any] = {
            f"table/{name}": wandb.Table(
                columns=list(of.columns), data=[list(row) for row in of.rows], allow_mixed_types=True
            )
            for name, of in content.tables.items()
        }
        shown |= {name: wandb.Image(str(path)) for name, path in content.plots.items()}
        self._run.log(shown, step=step)
        self._run.summary.update(content.summary)
        if self._identity.artifacts and content.files:
            artifact = wandb.Artifact(f"{self._identity.id}-files", type=f"{self._identity.kind}-folder")
            for name, path in content.files.items():
                artifact.add_file(str(path), name=name, policy="immutable")
            self._run.log_artifact(artifact)

    def close(self, status: str) -> str:
        """End the run; see `Sink.close`."""
        import wandb

        url = "" if self._offline else str(self._run.url or "")
        if status == "interrupted":
            self._run.mark_preempting()
        try:
            self._run.finish(exit_code=0 if status == "finished" else 1)
        except (wandb.Error, OSError, TimeoutError) as error:
            raise DataError(f"Weights & Biases: {_one_line(error)}") from None
        if self._stopped:
            raise DataError("Weights & Biases: refused a part of the run, or the run was stopped there")
        return str(self._written()) if self._offline else url

    def _stop(self) -> None:
        """Note a failure that is final; called in a thread of the library."""
        self._stopped = True

    def _written(self) -> Path | str:
        return Path(self._run.dir).parent


def _one_line(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:_CUT]

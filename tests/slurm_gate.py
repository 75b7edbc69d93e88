"""A plugin of the Slurm tests: PPR that waits before a process's third block while a file tells it to, or fails."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from aeg.config.ranges import param
from aeg.propagation import METHODS
from aeg.propagation.ppr import PPR

BLOCKS = 2
done = 0


@METHODS.register("gated")
@dataclass(frozen=True)
class Gated(PPR):
    """PPR; the process waits after two blocks while the file `$AEG_TEST_GATE/hold-TASK` is there."""

    engine: str = param("iterate", choices=("iterate",))
    fails: bool = False

    def propagate(self, op, seeds, context):
        global done
        if self.fails:
            raise RuntimeError("this run is made to fail")
        done += 1
        hold = Path(os.environ.get("AEG_TEST_GATE", "/nowhere"), f"hold-{os.environ.get('SLURM_ARRAY_TASK_ID', '')}")
        if hold.exists():
            time.sleep(1.1)  # a run's state is written once a second
        while done > BLOCKS and hold.exists():
            time.sleep(0.05)
        return super().propagate(op, seeds, context)
